"""Our values behave as the standard library's dataclasses do, wherever the two could differ."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from hpc_elastic import values

Decorator = Callable[..., Any]
LIBRARIES = [pytest.param(values, id="ours"), pytest.param(dataclasses, id="standard")]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


def pair_of(library: Any) -> Any:
    @library.dataclass(frozen=True)
    class Pair:
        KIND: ClassVar[str] = "pair"
        left: int
        right: tuple[int, ...] = ()
        names: dict[str, int] = library.field(default_factory=dict)

        def total(self) -> int:
            return self.left + sum(self.right)

    return Pair


def test_fields_are_given_by_place_or_by_name_and_have_defaults(library: Any) -> None:
    pair = pair_of(library)

    assert pair(1, right=(2, 3)).total() == 6
    assert pair(left=1).right == ()
    assert pair(1).names == {}
    assert pair(1).names is not pair(1).names
    assert "KIND" not in [one.name for one in library.fields(pair)]
    assert pair.__match_args__ == ("left", "right", "names")


@pytest.mark.parametrize(
    ("args", "given"),
    [((), {}), ((1, (), {}, 4), {}), ((1,), {"left": 2}), ((1,), {"middle": 2}), ((), {"middle": 2})],
)
def test_fields_that_do_not_fit_are_refused(
    library: Any, args: tuple[Any, ...], given: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        pair_of(library)(*args, **given)


def test_equal_values_are_equal_and_of_one_class_only(library: Any) -> None:
    pair, twin = pair_of(library), pair_of(library)

    assert pair(1, (2,)) == pair(1, (2,))
    assert pair(1, (2,)) != pair(1, (3,))
    assert pair(1) != twin(1)
    assert repr(pair(1)).endswith("Pair(left=1, right=(), names={})")


def test_a_frozen_value_does_not_change(library: Any) -> None:
    value = pair_of(library)(1)

    with pytest.raises(dataclasses.FrozenInstanceError):
        value.left = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.left
    assert library.replace(value, left=2).left == 2
    with pytest.raises(TypeError):
        library.replace(value, middle=2)


def test_frozen_values_are_keys_and_others_are_not(library: Any) -> None:
    @library.dataclass(frozen=True)
    class Frozen:
        step: int
        name: str = ""

    @library.dataclass
    class Loose:
        step: int

    frozen: Any = Frozen
    loose: Any = Loose
    assert {frozen(1): "a"}[frozen(1)] == "a"
    value = loose(1)
    value.step = 2
    assert value == loose(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_a_class_keeps_the_methods_it_brings_and_what_it_does_after_the_fields(library: Any) -> None:
    @library.dataclass(frozen=True)
    class Odd:  # noqa: PLW1641 (the decorator makes the hash)
        number: int

        def __post_init__(self) -> None:
            if self.number % 2 == 0:
                raise ValueError(self.number)

        def __repr__(self) -> str:
            return "odd"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Odd)

    odd: Any = Odd
    assert repr(odd(1)) == "odd"
    assert odd(1) == odd(3)
    assert isinstance(hash(odd(1)), int)
    with pytest.raises(ValueError, match="2"):
        odd(2)


def test_a_subclass_adds_its_fields_after_the_inherited_ones(library: Any) -> None:
    @library.dataclass(frozen=True)
    class Base:
        step: int

    @library.dataclass(frozen=True)
    class Longer(Base):
        name: str = "n"

    longer: Any = Longer
    assert longer(3).step == 3
    assert longer.__match_args__ == ("step", "name")


def test_a_mutable_default_is_refused_when_the_class_is_made(library: Any) -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @library.dataclass(frozen=True)
        class Wrong:
            items: list[int] = []  # noqa: RUF012 (the mistake under test)


def test_values_inside_values_become_dictionaries(library: Any) -> None:
    pair = pair_of(library)

    @library.dataclass(frozen=True)
    class Outer:
        pairs: tuple[Any, ...]

    outer: Any = Outer
    shown = library.asdict(outer((pair(1), pair(2, (3,)))))

    assert shown == {
        "pairs": (
            {"left": 1, "right": (), "names": {}},
            {"left": 2, "right": (3,), "names": {}},
        )
    }


def test_the_standard_library_takes_our_values_for_its_own() -> None:
    pair = pair_of(values)

    claim: bool = dataclasses.is_dataclass(pair)
    assert claim
    assert dataclasses.replace(pair(1), left=2) == pair(2)
    assert dataclasses.asdict(pair(1)) == {"left": 1, "right": (), "names": {}}
    assert [one.name for one in dataclasses.fields(pair)] == ["left", "right", "names"]


@values.dataclass(frozen=True)
class AtTop:
    step: int


def test_a_value_can_be_copied_and_pickled() -> None:
    assert copy.deepcopy(AtTop(1)) == AtTop(1)
    assert pickle.loads(pickle.dumps(AtTop(1))) == AtTop(1)
