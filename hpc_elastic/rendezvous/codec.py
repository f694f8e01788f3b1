"""Records as bytes: JSON with a schema number, checked field by field where it enters.

Fields that this version does not know are ignored and missing ones with a default are filled in,
so that a newer and an older writer can both be read. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Final, TypeVar, get_args

from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous.places import belongs, strange_names
from hpc_elastic.rendezvous.record import Record
from hpc_elastic.values import MISSING, asdict, fields

SCHEMA: Final = 1
MAX_RECORD_BYTES: Final = 16 * 1024 * 1024
MAX_ITEMS: Final = 100_000
MAX_INT: Final = 2**63 - 1

R = TypeVar("R")
Check = Callable[[object], Any]

_TYPES: Final[dict[str, type[Any]]] = {kind.TYPE: kind for kind in get_args(Record)}


def encode(record: Record) -> bytes:
    """The bytes that stand for `record`."""
    body = {"schema": SCHEMA, "type": record.TYPE, **asdict(record)}
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


@lru_cache(maxsize=8)  # frozen, so that agents of one process, and looks at the same bytes, may share it
def decode(raw: bytes) -> Record:
    """The record that `raw` stands for.

    Raises `RecordCorrupt` for anything else: too long, no JSON, an unknown type or enum value, a
    field that is missing, of another type or out of bounds, a schema with another meaning.
    """
    body = _body(raw)
    kind = _TYPES.get(str(body.get("type")))
    if kind is None:
        raise RecordCorrupt(
            f"a record of type {body.get('type')!r:.80} is unknown; it was written by another "
            "version of hpc-elastic or by another program"
        )
    return _build(kind, body)  # type: ignore[no-any-return]


def decode_any(raw: bytes, *, key: str) -> Record:
    """`decode`, and it belongs under `key`; errors name `key`."""
    try:
        found = _decode_named(raw)
    except RecordCorrupt as bad:
        raise RecordCorrupt(f"{key}: {bad}") from bad
    if not belongs(found, key):
        raise RecordCorrupt(f"{key}: holds a record of type {found.TYPE!r}, which does not belong there")
    return found


def decode_if_sound(raw: bytes | None, kind: type[R], *, key: str) -> R | None:
    """`decode_as`; None where there is nothing, or what is there is damaged."""
    try:
        return None if raw is None else decode_as(raw, kind, key=key)
    except RecordCorrupt:
        return None


@lru_cache(maxsize=8)
def _decode_named(raw: bytes) -> Record:
    """`decode`, and all that it names may be looked up."""
    found = decode(raw)
    strange = next(iter(strange_names(found)), None)
    if strange is not None:
        raise RecordCorrupt(f"a {found.TYPE} record names {strange!r:.80}, which can be nobody's key")
    return found


def decode_as(raw: bytes, kind: type[R] | tuple[type[R], ...], *, key: str) -> R:
    """`decode`, and it is of `kind`, or of one of them; errors name `key`."""
    found = decode_any(raw, key=key)
    if not isinstance(found, kind):
        raise RecordCorrupt(f"{key}: holds a record of type {found.TYPE!r}, which does not belong there")
    return found


def _body(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_RECORD_BYTES:
        raise RecordCorrupt(f"a record of {len(raw)} bytes; at most {MAX_RECORD_BYTES} can be one of ours")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as bad:
        raise RecordCorrupt(
            f"a record of {len(raw)} bytes is not JSON ({bad}); it begins {raw[:60]!r}"
        ) from bad
    if not isinstance(body, dict):
        raise RecordCorrupt(f"a record is a JSON object, not {raw[:60]!r}")
    schema = body.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise RecordCorrupt(
            f"a record has schema {schema!r:.40}, this version reads {SCHEMA}; "
            "use the version of hpc-elastic that the run was started with"
        )
    return body


def _build(kind: type[Any], body: dict[str, Any]) -> Any:
    values = {}
    for name, (check, is_needed) in _plan(kind).items():  # type: ignore[arg-type]  # a class is hashable
        if name in body:
            values[name] = _checked(kind, name, check, body[name])
        elif is_needed:
            raise RecordCorrupt(f"a {_title(kind)} record lacks the field {name!r}")
    return kind(**values)


def _checked(kind: type[Any], name: str, check: Check, value: object) -> Any:
    try:
        return check(value)
    except ValueError as bad:
        raise RecordCorrupt(f"a {_title(kind)} record has {name} = {value!r:.80}: {bad}") from bad


def _title(kind: type[Any]) -> str:
    return str(getattr(kind, "TYPE", kind.__name__.lower()))


@cache
def _plan(kind: type[Any]) -> dict[str, tuple[Check, bool]]:
    """Each field with its check, and whether it has to be there."""
    hints, home = kind.__annotations__, kind.__module__
    return {one.name: (_check_of(hints[one.name], home), one.default is MISSING) for one in fields(kind)}


@cache
def _check_of(hint: str, home: str) -> Check:
    """The check for a type as the module `home` writes it; `typing` would compile each, at every start."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint.endswith(" | None"):
        return _optional(_check_of(hint.removesuffix(" | None"), home))
    if hint.startswith("tuple["):
        return _items(_check_of(hint[len("tuple[") :].removesuffix(", ...]"), home))
    kind = getattr(sys.modules[home], hint)
    return _choice(kind) if issubclass(kind, Enum) else _nested(kind)


def _int(value: object) -> int:
    if type(value) is not int or abs(value) > MAX_INT:
        raise ValueError("a whole number of 64 bits belongs there")
    return value


def _float(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError("a finite number belongs there")
    return float(value)  # type: ignore[arg-type]


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text belongs there")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false belongs there")
    return value


_PLAIN: Final[dict[str, Check]] = {"int": _int, "float": _float, "str": _str, "bool": _bool}


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _items(check: Check) -> Check:
    def items(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise ValueError(f"a list of at most {MAX_ITEMS} items belongs there")
        return tuple(map(check, value))

    return items


def _choice(kind: type[Enum]) -> Check:
    def choice(value: object) -> Enum:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(repr(one.value) for one in kind)
            raise ValueError(f"one of {known} belongs there") from None

    return choice


def _nested(kind: type[Any]) -> Check:
    def nested(value: object) -> Any:
        if not isinstance(value, dict):
            raise ValueError("an object belongs there")
        return _build(kind, value)

    return nested
