"""Compact node lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.slurm.nodelist import MAX_NODES, BadNodeList, expand


# What `scontrol show hostnames` of Slurm 22.05.8 prints for the same text, but for the last two, which
# it refuses.
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-4]", ["n1", "n2", "n3", "n4"]),
        ("n5-8", ["n5-8"]),
        ("a,b,,c", ["a", "b", "c"]),
        (" n1 , n2", ["n1", "n2"]),
        ("gpu[01-03,07],login1", ["gpu01", "gpu02", "gpu03", "gpu07", "login1"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[9-010]", ["n9", "n10"]),
        ("x[1-3],x[2-4]", ["x1", "x2", "x3", "x2", "x3", "x4"]),
        ("n[1-2][3-4]", ["n13", "n14", "n23", "n24"]),
        ("a[01-03,7]b[1-2]", ["a01b1", "a01b2", "a02b1", "a02b2", "a03b1", "a03b2", "a7b1", "a7b2"]),
        ("[1-2]", ["1", "2"]),
        ("", []),
        ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
        ("a[1,2]x[3]y", ["a1x3y", "a2x3y"]),
    ],
)
def test_a_list_expands_as_slurm_expands_it(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[1-2",
        "n1]",
        "n[[1]]",
        "n[]",
        "n[3-1]",
        "n[a-b]",
        "n[1--2]",
        "n[-2]",
        "n[1,,2]",
        "n[1 ,2]",
        "n[1-2-3]",
    ],
)
def test_a_malformed_list_is_refused_with_its_text_and_the_next_move(text: str) -> None:
    with pytest.raises(BadNodeList) as caught:
        expand(text)

    assert repr(text) in str(caught.value)
    assert "scontrol show hostnames" in str(caught.value)
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    "text", ["n[1-99999]", "a[1-300]b[1-300]", ",".join(["n[1-40000]"] * 2), "n[1-9999999999999999999]"]
)
def test_a_list_of_absurd_length_is_refused_before_it_is_built(text: str) -> None:
    with pytest.raises(BadNodeList):
        expand(text)


def test_the_longest_range_slurm_allows_expands() -> None:
    assert len(expand(f"n[1-{MAX_NODES}]")) == MAX_NODES


_PREFIXES = st.text("abcxyz-.", min_size=1, max_size=4)


@st.composite
def _ranges(draw: st.DrawFn) -> tuple[str, list[str]]:
    first = draw(st.integers(0, 120))
    last = first + draw(st.integers(0, 9))
    width = draw(st.integers(1, 5))
    low = str(first).zfill(width)
    numbers = [str(number).zfill(len(low)) for number in range(first, last + 1)]
    return (low if first == last else f"{low}-{last}"), numbers


@st.composite
def _items(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(_PREFIXES)
    names = [text]
    for _ in range(draw(st.integers(0, 3))):
        ranges = draw(st.lists(_ranges(), min_size=1, max_size=3))
        suffix = draw(st.sampled_from(["", "r", "-ib"]))
        numbers = [number for _, numbers in ranges for number in numbers]
        text += f"[{','.join(one for one, _ in ranges)}]{suffix}"
        names = [f"{name}{number}{suffix}" for name in names for number in numbers]
    return text, names


@given(st.lists(_items(), max_size=4))
def test_any_list_expands_to_the_names_it_was_made_of(items: list[tuple[str, list[str]]]) -> None:
    text = ",".join(one for one, _ in items)

    assert list(expand(text)) == [name for _, names in items for name in names]


@given(st.text("n[]1-0,9 x", max_size=20))
def test_any_text_expands_or_is_refused_but_nothing_else(text: str) -> None:
    try:
        names = expand(text)
    except BadNodeList:
        return
    assert all(name and "[" not in name and "," not in name for name in names)
