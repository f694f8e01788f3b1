"""Log files of ranks, and reading their ends."""

from __future__ import annotations

from pathlib import Path

from hpc_elastic.workers.logs import LogFiles, last_lines


def test_each_rank_has_two_files() -> None:
    assert LogFiles.of(Path("logs/1/2"), 7) == LogFiles(Path("logs/1/2/7.out"), Path("logs/1/2/7.err"))


def test_the_last_lines_of_a_long_file_are_read_without_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))

    assert last_lines(log, 2) == ["line 99998", "line 99999"]
    assert len(last_lines(log, 1_000_000)) < 7000


def test_the_last_lines_of_nothing_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    assert last_lines(tmp_path / "empty", 5) == []
    assert last_lines(tmp_path / "absent", 5) == []
    assert last_lines(tmp_path, 5) == []


def test_one_endless_line_is_cut_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    log.write_text("x" * 1_000_000 + "end")

    (line,) = last_lines(log, 3, max_bytes=100)

    assert len(line) == 100
    assert line.endswith("xend")
