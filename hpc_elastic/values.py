"""Frozen values whose classes cost next to nothing to make: `dataclasses`, for the agent's start.

The standard library writes and compiles five methods for each class (0.3 ms) and imports `inspect` to
do so (5 ms). An agent has about a hundred such classes, and that was half of its start. Here the
methods are shared: a class costs 0.02 ms, and an instance half a microsecond more.

To a type checker these are the standard library's. At run time `dataclasses.replace`, `fields` and
`asdict` take these values too. Not supported, and refused: options other than `frozen`, and fields with
options other than `default_factory`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import MISSING, asdict, dataclass, field, fields, replace

__all__ = ["MISSING", "asdict", "dataclass", "field", "fields", "replace"]

if not TYPE_CHECKING:

    class MISSING:
        """Stands where a field has no default."""

    class _Factory:
        """What `field(default_factory=...)` leaves in a class body until the class is made."""

        def __init__(self, make):
            self.make = make

    class _Field:
        """One field: its `name`, and its `default` or `default_factory`, else MISSING."""

        def __init__(self, name, default):
            self.name = name
            self.default = MISSING if isinstance(default, _Factory) else default
            self.default_factory = default.make if isinstance(default, _Factory) else MISSING

    class _StandardFields:
        """`__dataclass_fields__`, made when the standard library first asks for it."""

        def __get__(self, value, kind):
            import dataclasses

            known = {one.name: one for one in kind.__value_fields__}
            twins = [(name, "object", _twin(dataclasses, one)) for name, one in known.items()]
            made = dataclasses.make_dataclass(kind.__name__, twins).__dataclass_fields__
            kind.__dataclass_fields__ = made
            return made

    def field(*, default_factory):
        """A field whose default is made anew for every instance."""
        return _Factory(default_factory)

    def dataclass(kind=None, *, frozen=False):
        """As the standard library's: by its annotations, a class of values."""
        if kind is None:
            return lambda kind: dataclass(kind, frozen=frozen)
        inherited = {one.name: one for base in reversed(kind.__mro__[1:]) for one in _own_fields(base)}
        known = tuple({**inherited, **{one.name: one for one in _read_fields(kind)}}.values())
        names = tuple(one.name for one in known)
        kind.__value_fields__ = known
        kind.__dataclass_fields__ = _StandardFields()
        kind.__match_args__ = names
        kind.__init__ = _initializer(known, hasattr(kind, "__post_init__"))
        for name, method in _methods(names, frozen).items():
            if name not in kind.__dict__ or (name == "__hash__" and kind.__hash__ is None):
                setattr(kind, name, method)
        return kind

    def fields(value):
        """The fields of a value or of its class, in order."""
        return value.__value_fields__

    def asdict(value):
        """A value as a dictionary, with the values inside it as dictionaries too."""
        return {one.name: _plain(getattr(value, one.name)) for one in value.__value_fields__}

    def replace(value, /, **changes):
        """A copy with the given fields changed."""
        state = {name: getattr(value, name) for name in value.__match_args__}
        return value.__class__(**{**state, **changes})

    def _own_fields(base):
        return base.__dict__.get("__value_fields__", ())

    def _read_fields(kind):
        for name, annotation in kind.__annotations__.items():
            if annotation.startswith("ClassVar"):
                continue
            default = kind.__dict__.get(name, MISSING)
            if isinstance(default, _Factory):
                delattr(kind, name)
            elif default.__class__.__hash__ is None:
                raise ValueError(f"mutable default of {kind.__name__}.{name}: use field(default_factory=...)")
            yield _Field(name, default)

    def _initializer(known, has_more_to_do):
        names = tuple(one.name for one in known)
        wanted = frozenset(names)
        defaults = {one.name: one.default for one in known if one.default is not MISSING}
        factories = [(one.name, one.default_factory) for one in known if one.default_factory is not MISSING]

        def initialize(self, *args, **given):
            state = self.__dict__
            state.update(defaults)
            state.update(zip(names, args, strict=False))
            state.update(given)
            for name, make in factories:
                if name not in state:
                    state[name] = make()
            if state.keys() != wanted or len(args) > len(names) or given.keys() & names[: len(args)]:
                raise TypeError(_complaint(self.__class__.__name__, names, state, args, given))
            if has_more_to_do:
                self.__post_init__()

        return initialize

    def _complaint(kind, names, state, args, given):
        unknown = [name for name in given if name not in names]
        absent = [name for name in names if name not in state]
        if len(args) > len(names):
            return f"{kind}() takes {len(names)} values, {len(args)} were given"
        if unknown or absent:
            return f"{kind}() misses {absent} and does not know {unknown}; its fields are {list(names)}"
        return f"{kind}() got {[name for name in names[: len(args)] if name in given]} twice"

    def _methods(names, frozen):
        key = attrgetter(*names) if names else _nothing

        def show(self):
            inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{self.__class__.__qualname__}({inner})"

        def is_equal(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return key(self) == key(other)

        def hash_of(self):
            return hash(key(self))

        shared = {"__repr__": show, "__eq__": is_equal, "__hash__": hash_of if frozen else None}
        if frozen:
            shared |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
        return shared

    def _nothing(_):
        return ()

    def _refuse_change(self, name, *_):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change {name!r} of a frozen {self.__class__.__name__}")

    def _plain(value):
        if hasattr(value, "__value_fields__"):
            return asdict(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(_plain, value))
        if isinstance(value, dict):
            return {_plain(key): _plain(inner) for key, inner in value.items()}
        return value

    def _twin(dataclasses, one):
        if one.default_factory is not MISSING:
            return dataclasses.field(default_factory=one.default_factory)
        return dataclasses.field(default=one.default) if one.default is not MISSING else dataclasses.field()
