"""The agent's lines reach a console that takes them, and wait for one that does not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from hpc_elastic.agent.speaker import Speaker
from hpc_elastic.workers.line_writer import LineWriter

PATIENCE_S: Final = 60.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, console = os.pipe()
    yield reader, console
    for fd in (reader, console):
        with suppress(OSError):
            os.close(fd)


def _fill(console: int) -> None:
    os.set_blocking(console, False)
    with suppress(BlockingIOError):
        while True:
            os.write(console, b"." * 1024)
    os.set_blocking(console, True)


def test_lines_come_in_their_order_and_all_before_the_end(pipe: tuple[int, int]) -> None:
    reader, console = pipe
    speaker = Speaker(LineWriter(console), "n1: ")

    for number in range(100):
        speaker.say(f"line {number}")

    assert speaker.finish(PATIENCE_S)
    assert os.read(reader, 65536).decode().splitlines() == [f"n1: line {number}" for number in range(100)]


def test_a_full_console_holds_nobody_up(pipe: tuple[int, int]) -> None:
    reader, console = pipe
    _fill(console)
    speaker = Speaker(LineWriter(console), "")
    began_s = time.monotonic()

    for number in range(5000):
        speaker.say(f"line {number}")

    assert not speaker.finish(0.2)
    assert time.monotonic() - began_s < PATIENCE_S, "nobody reads: who waits for that waits for ever"
    while os.read(reader, 65536).endswith(b"."):
        pass
    assert speaker.finish(PATIENCE_S)


def test_a_console_that_is_gone_is_no_error(pipe: tuple[int, int]) -> None:
    reader, console = pipe
    os.close(reader)
    speaker = Speaker(LineWriter(console), "")

    speaker.say("nobody hears this")

    assert speaker.finish(PATIENCE_S)


def test_a_speaker_that_had_nothing_to_say_is_done() -> None:
    assert Speaker(LineWriter(2), "").finish(PATIENCE_S)
