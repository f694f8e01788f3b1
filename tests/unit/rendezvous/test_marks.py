"""A descriptor that says when there is news."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from hpc_elastic.rendezvous.marks import Marks


@pytest.fixture
def marks() -> Iterator[Marks]:
    made = Marks()
    yield made
    if made.fileno() >= 0:
        made.close()


def is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_it_is_readable_from_a_mark_until_the_marks_are_taken(marks: Marks) -> None:
    assert not is_readable(marks.fileno())
    marks.leave()
    marks.leave()

    assert is_readable(marks.fileno())
    marks.take()
    assert not is_readable(marks.fileno())


def test_more_marks_than_a_pipe_takes_hold_up_nobody(marks: Marks) -> None:
    for _ in range(100_000):
        marks.leave()

    marks.take()

    assert not is_readable(marks.fileno())


def test_a_mark_that_comes_after_the_closing_meets_no_other_file(marks: Marks) -> None:
    former = marks.fileno()
    marks.close()
    others = [os.pipe2(os.O_NONBLOCK) for _ in range(2)]
    try:
        assert former in {descriptor for pair in others for descriptor in pair}, "the numbers are taken again"

        marks.leave()

        assert not any(is_readable(reading) for reading, _ in others)
        with pytest.raises(OSError, match="Bad file descriptor"):
            marks.take()
    finally:
        for pair in others:
            for descriptor in pair:
                os.close(descriptor)
