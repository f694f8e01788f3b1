"""Following log files: to a console, and to aggregate logs by filters."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from hpc_elastic.workers.log_tail import Copy, Followed, LogTail
from tests.waiting import wait_until


def console(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def followed(path: Path, prefix: str, to_fd: int) -> Followed:
    return Followed(path, (Copy(to_fd, prefix),))


def test_whole_lines_are_copied_with_their_prefix_as_they_come(tmp_path: Path) -> None:
    log, shown = tmp_path / "0.out", tmp_path / "console"
    tail = LogTail([followed(log, "[n1 0] ", console(shown))])
    tail.start()

    with open(log, "wb", buffering=0) as file:
        file.write(b"one\ntwo\nthr")
        wait_until(lambda: shown.read_text() == "[n1 0] one\n[n1 0] two\n", timeout_s=60, what="two lines")
        file.write(b"ee\n")
        wait_until(lambda: shown.read_text().endswith("[n1 0] three\n"), timeout_s=60, what="the third")

    assert tail.finish(60, 60)
    assert shown.read_text() == "[n1 0] one\n[n1 0] two\n[n1 0] three\n"


def test_an_unfinished_last_line_is_not_lost(tmp_path: Path) -> None:
    log, shown = tmp_path / "0.out", tmp_path / "console"
    log.write_bytes(b"whole\nunfini")
    tail = LogTail([followed(log, "> ", console(shown))])
    tail.start()

    assert tail.finish(60, 60)
    assert shown.read_text() == "> whole\n> unfini\n"


def test_many_lines_of_many_ranks_arrive_whole_and_in_order(tmp_path: Path) -> None:
    shown = tmp_path / "console"
    fd = console(shown)
    ranks = [followed(tmp_path / f"{rank}.out", f"[{rank}] ", fd) for rank in range(8)]
    tail = LogTail(ranks)
    tail.start()

    for block in range(20):
        for each in ranks:
            with open(each.path, "a") as file:
                file.writelines(f"line {block * 100 + number}\n" for number in range(100))

    assert tail.finish(60, 60)
    lines = shown.read_text().splitlines()
    for each in ranks:
        own = [line for line in lines if line.startswith(each.copies[0].prefix)]
        assert own == [f"{each.copies[0].prefix}line {number}" for number in range(2000)]


def test_a_line_without_an_end_is_passed_on_in_pieces(tmp_path: Path) -> None:
    log, shown = tmp_path / "0.err", tmp_path / "console"
    log.write_bytes(b"x" * 1_000_000)
    tail = LogTail([followed(log, "", console(shown))])
    tail.start()

    assert tail.finish(60, 60)
    assert shown.read_bytes().replace(b"\n", b"") == b"x" * 1_000_000


def test_bytes_that_are_no_text_are_copied_as_they_are(tmp_path: Path) -> None:
    log, shown = tmp_path / "0.err", tmp_path / "console"
    log.write_bytes(b"\xff\x00\xfe\n")
    tail = LogTail([followed(log, "p ", console(shown))])
    tail.start()

    assert tail.finish(60, 60)
    assert shown.read_bytes() == b"p \xff\x00\xfe\n"


def test_a_file_that_never_comes_and_a_console_that_is_gone_disturb_nobody(tmp_path: Path) -> None:
    log, shown = tmp_path / "1.out", tmp_path / "console"
    log.write_bytes(b"hello\n")
    reader, writer = os.pipe()
    os.close(reader)
    tail = LogTail(
        [
            followed(tmp_path / "never", "", console(shown)),
            followed(log, "", writer),
            followed(log, "", console(shown)),
        ]
    )
    tail.start()

    assert tail.finish(60, 60)
    assert shown.read_bytes() == b"hello\n"
    os.close(writer)


def test_a_console_that_takes_nothing_does_not_hold_the_agent(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    log.write_bytes(b"x" * 99 + b"\n")
    with open(log, "ab") as file:
        file.write((b"y" * 99 + b"\n") * 10_000)
    reader, writer = os.pipe()
    tail = LogTail([followed(log, "", writer)])
    tail.start()

    assert not tail.finish(0.1, 1)

    os.close(reader)
    assert tail.finish(60, 60)
    os.close(writer)


def test_finishing_without_a_start_is_harmless(tmp_path: Path) -> None:
    assert LogTail([]).finish(60, 60)
    assert LogTail([followed(tmp_path / "x", "", 1)]).finish(60, 60)


def shown_slowly(log: Path, stalled_s: float) -> tuple[bool, bytes]:
    """Whether a console was waited for that takes a little every 30 ms, and all that it took."""
    reader, writer = os.pipe()
    got: list[bytes] = []

    def read_slowly() -> None:
        pause = threading.Event()
        while piece := os.read(reader, 16 * 1024):
            got.append(piece)
            pause.wait(0.03)

    slow = threading.Thread(target=read_slowly)
    slow.start()
    tail = LogTail([followed(log, "", writer)])
    tail.start()
    was_waited_for = tail.finish(stalled_s, 60)
    assert tail.finish(60, 60)
    os.close(writer)
    slow.join()
    os.close(reader)
    return was_waited_for, b"".join(got)


def test_a_console_that_is_only_slow_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(40_000)))

    # Two thirds of a second at least, which is longer than any silence may be. Where the machine itself was
    # silent for so long, the console is shown it all again.
    tries = (shown_slowly(log, 0.4) for _ in range(5))
    assert next((got for was_waited_for, got in tries if was_waited_for), b"") == log.read_bytes()


def test_what_a_file_had_before_is_not_shown_again(tmp_path: Path) -> None:
    log, shown = tmp_path / "0.out", tmp_path / "console"
    log.write_bytes(b"of an earlier life\n")
    tail = LogTail([Followed(log, (Copy(console(shown), "> "),), begin=log.stat().st_size)])
    with open(log, "ab") as file:
        file.write(b"of this one\n")
    tail.start()

    assert tail.finish(60, 60)
    assert shown.read_text() == "> of this one\n"


def test_lines_with_one_of_the_filters_go_to_the_aggregate_log_as_well(tmp_path: Path) -> None:
    shown, aggregate = tmp_path / "console", tmp_path / "filtered"
    fd, log_fd = console(shown), console(aggregate)
    ranks = [tmp_path / f"{rank}.out" for rank in range(3)]
    for rank, path in enumerate(ranks):
        path.write_text(f"loss {rank}\nnoise\nmiss {rank}\n")
    tail = LogTail(
        [
            Followed(path, (Copy(fd, f"[{rank}] "), Copy(log_fd, f"[{rank}] ", ("loss", "ss 1"))))
            for rank, path in enumerate(ranks)
        ]
    )
    tail.start()

    assert tail.finish(60, 60)
    assert len(shown.read_text().splitlines()) == 9
    assert sorted(aggregate.read_text().splitlines()) == [
        "[0] loss 0",
        "[1] loss 1",
        "[1] miss 1",
        "[2] loss 2",
    ]


def test_a_console_that_is_gone_does_not_end_the_aggregate_log(tmp_path: Path) -> None:
    log, aggregate = tmp_path / "0.out", tmp_path / "filtered"
    log.write_bytes(b"loss\n")
    reader, writer = os.pipe()
    os.close(reader)
    tail = LogTail([Followed(log, (Copy(writer, ""), Copy(console(aggregate), "", ("loss",))))])
    tail.start()

    assert tail.finish(60, 60)
    assert aggregate.read_text() == "loss\n"
    os.close(writer)
