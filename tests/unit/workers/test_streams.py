"""The options that choose what the console shows."""

from __future__ import annotations

import pytest

from hpc_elastic.errors import UsageError
from hpc_elastic.workers.streams import Console, Std, Streams, parse_ranks


def console(
    tee: str | None = None, redirects: str | None = None, local_ranks_filter: str | None = None
) -> Console:
    return Console.parse(tee=tee, redirects=redirects, local_ranks_filter=local_ranks_filter)


@pytest.mark.parametrize(("text", "std"), [("0", Std.NONE), ("1", Std.OUT), ("2", Std.ERR), ("3", Std.ALL)])
def test_one_number_is_for_all_ranks(text: str, std: Std) -> None:
    assert Streams.parse(text, "--tee").of(5) == std


def test_ranks_can_be_chosen_one_by_one() -> None:
    chosen = Streams.parse("0:1, 1:2", "--tee")

    assert [chosen.of(rank) for rank in range(3)] == [Std.OUT, Std.ERR, Std.NONE]


@pytest.mark.parametrize(
    "text", ["", "4", "-1", "x", "0:4", "0:", ":1", "a:1", "0:1,0:2", "0:1,2", "3,3", "0:1:2"]
)
def test_a_choice_that_cannot_be_read_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"--redirects .*like 0:1,1:2"):
        Streams.parse(text, "--redirects")


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0", {0}), ("0,2", {0, 2}), ("0-3", {0, 1, 2, 3}), ("1, 4 - 5", {1, 4, 5}), ("2,2", {2})],
)
def test_ranks_are_lists_and_ranges(text: str, ranks: set[int]) -> None:
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "3-1", "0,,1", "0-99999999"])
def test_ranks_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--local-ranks-filter"):
        parse_ranks(text)


def test_without_options_the_console_shows_global_rank_0() -> None:
    assert console().shows(local_rank=0, global_rank=0) == Std.ALL
    assert console().shows(local_rank=0, global_rank=4) == Std.NONE


def test_tee_shows_the_streams_it_names() -> None:
    shown = console(tee="0:1,1:3")

    assert [shown.shows(local_rank=rank, global_rank=4 + rank) for rank in range(3)] == [
        Std.OUT,
        Std.ALL,
        Std.NONE,
    ]


def test_a_filter_alone_shows_all_of_its_ranks() -> None:
    shown = console(local_ranks_filter="1-2")

    assert [shown.shows(local_rank=rank, global_rank=rank) for rank in range(3)] == [
        Std.NONE,
        Std.ALL,
        Std.ALL,
    ]


def test_a_filter_narrows_what_tee_names() -> None:
    shown = console(tee="1", local_ranks_filter="1")

    assert [shown.shows(local_rank=rank, global_rank=rank) for rank in range(2)] == [Std.NONE, Std.OUT]


def test_a_redirected_stream_is_not_shown() -> None:
    assert console(redirects="3").shows(local_rank=0, global_rank=0) == Std.NONE
    assert console(redirects="0:2").shows(local_rank=0, global_rank=0) == Std.OUT
    assert console(redirects="3", tee="1").shows(local_rank=0, global_rank=0) == Std.OUT
