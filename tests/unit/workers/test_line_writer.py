"""Lines of several writers of one console stay whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from hpc_elastic.workers.line_writer import PIPE_BUF, LineWriter


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        with suppress(OSError):  # a test has closed it
            os.close(fd)


def block(letter: bytes, lines: int, length: int) -> bytes:
    return b"".join(letter * (length + number % 50) + b"\n" for number in range(lines))


def read_all(fd: int) -> bytes:
    pieces = []
    while piece := os.read(fd, 1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("length", [70, PIPE_BUF - 20, 3 * PIPE_BUF])
def test_two_threads_share_a_pipe_without_tearing_a_line(pipe: tuple[int, int], length: int) -> None:
    reader, fd = pipe
    twin = os.dup(fd)  # as standard output and standard error often are

    def write(to_fd: int, letter: bytes) -> None:
        LineWriter(to_fd).write(block(letter, 200, length))
        os.close(to_fd)

    writers = [threading.Thread(target=write, args=each) for each in ((fd, b"a"), (twin, b"b"))]
    for each in writers:
        each.start()
    got = read_all(reader)
    for each in writers:
        each.join()

    for letter in (b"a", b"b"):
        own = [line for line in got.splitlines(keepends=True) if line.startswith(letter)]
        assert b"".join(own) == block(letter, 200, length)


def test_two_processes_share_a_pipe_without_tearing_lines_it_takes_as_one(
    pipe: tuple[int, int],
) -> None:
    reader, fd = pipe
    children = []
    for letter in (b"a", b"b", b"c"):
        pid = os.fork()
        if pid == 0:
            LineWriter(fd).write(block(letter, 500, 300))
            os._exit(0)
        children.append(pid)
    os.close(fd)

    got = read_all(reader)

    for pid in children:
        os.waitpid(pid, 0)
    for letter in (b"a", b"b", b"c"):
        own = [line for line in got.splitlines(keepends=True) if line.startswith(letter)]
        assert b"".join(own) == block(letter, 500, 300)


def test_a_pipe_that_another_program_made_non_blocking_gets_all(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    os.set_blocking(fd, False)
    content = block(b"x", 3000, 100)
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(read_all(reader)))
    reading.start()

    writer = LineWriter(fd)
    writer.write(content)
    os.close(fd)
    reading.join()

    assert got == [content]
    assert writer.taken_bytes == len(content)


def test_a_pipe_without_a_reader_is_an_error(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    os.close(reader)

    with pytest.raises(BrokenPipeError):
        LineWriter(fd).write(b"x\n")
