"""Error files and what is made of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpc_elastic.workers.bootstrap import write_error_file
from hpc_elastic.workers.failures import (
    MAX_ERROR_FILE_BYTES,
    ErrorReport,
    ProcessFailure,
    describe_exit,
    read_error,
    record,
)


class BadBatch(Exception):
    """An exception whose text tells which batch."""


def fail(number: int) -> None:
    raise BadBatch(f"batch {number} has no labels: é\n  second line")


def failure(error_file: Path, exitcode: int = 1) -> ProcessFailure:
    return ProcessFailure.read(local_rank=1, pid=42, exitcode=exitcode, error_file=error_file, now_s=1000.0)


def written(path: Path, number: int = 3) -> Path:
    try:
        fail(number)
    except BadBatch as error:
        write_error_file(error, str(path))
    return path


def test_a_written_error_is_read_back_with_type_message_and_traceback(tmp_path: Path) -> None:
    report = read_error(written(tmp_path / "deep" / "0.json"))

    assert report is not None
    assert report.type.endswith("test_failures.BadBatch")
    assert report.message.endswith("BadBatch: batch 3 has no labels: é\n  second line")
    assert report.traceback.startswith("Traceback (most recent call last):\n")
    assert "in fail" in report.traceback
    assert report.time_s > 1e9


def test_the_first_report_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "0.json", number=3)

    written(path, number=4)

    report = read_error(path)
    assert report is not None
    assert "batch 3" in report.message
    assert [each.name for each in tmp_path.iterdir()] == ["0.json"]


def test_a_report_that_cannot_be_written_is_no_second_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert not written(tmp_path / "file" / "0.json").exists()


def test_a_report_for_which_the_disk_is_full_leaves_no_half_of_it(tmp_path: Path) -> None:
    (tmp_path / f"0.json.{os.getpid()}.tmp").symlink_to("/dev/full")

    written(tmp_path / "0.json")

    assert list(tmp_path.iterdir()) == []


def test_a_huge_message_is_cut_to_its_end(tmp_path: Path) -> None:
    write_error_file(ValueError("x" * 10_000_000 + "the end"), str(tmp_path / "0.json"))

    report = read_error(tmp_path / "0.json")
    assert report is not None
    assert len(report.message) == 64 * 1024
    assert report.message.endswith("the end")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b'{"message": "half', b"[" * 100_000]
)
def test_a_file_that_is_no_report_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0.json"
    path.write_bytes(content)

    assert read_error(path) is None
    assert failure(path).message == "exited with status 1"


def test_a_file_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    path.write_bytes(b'{"message": "' + b"x" * (MAX_ERROR_FILE_BYTES + 10) + b'"}')

    assert read_error(path) is None


def test_an_error_file_of_torch_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    extra = {"py_callstack": "Traceback ...", "timestamp": "1700000000"}
    path.write_text(json.dumps({"message": {"message": "ValueError: bad", "extraInfo": extra}}))

    assert read_error(path) == ErrorReport("ValueError: bad", "ValueError", "Traceback ...", 1_700_000_000.0)
    assert failure(path).timestamp == 1_700_000_000


@pytest.mark.parametrize("time_s", [None, "soon", -1, 1e300, "nan", [], {}])
def test_a_time_that_is_none_is_replaced_by_now(tmp_path: Path, time_s: object) -> None:
    path = tmp_path / "0.json"
    path.write_text(json.dumps({"message": "bad", "time_s": time_s}))

    assert failure(path).timestamp == 1000


def test_a_failure_carries_what_the_worker_left(tmp_path: Path) -> None:
    path = written(tmp_path / "0.json")

    told = failure(path)

    assert (told.local_rank, told.pid, told.exitcode, told.error_file) == (1, 42, 1, str(path))
    assert "batch 3" in told.message
    assert "in fail" in told.traceback
    assert told.error_file_data["schema"] == 1


def test_a_failure_without_an_error_file_tells_the_status(tmp_path: Path) -> None:
    told = failure(tmp_path / "none.json", exitcode=-11)

    assert told.message == "killed by SIGSEGV (signal 11)"
    assert told.signal_name() == "SIGSEGV"
    assert told.timestamp_isoformat() == "1970-01-01T00:16:40+00:00"
    assert (told.traceback, told.error_file_data) == ("", {})


@pytest.mark.parametrize(
    ("returncode", "words"),
    [
        (42, "exited with status 42"),
        (120, "exited with status 120 (a Python whose last output could not be written: a full disk?)"),
        (-9, "killed by SIGKILL (signal 9)"),
        (-40, "killed by SIGRTMIN+6 (signal 40)"),
        (139, "exited with status 139 (128 + SIGSEGV: a program it ran was killed)"),
        (250, "exited with status 250"),
    ],
)
def test_an_exit_status_is_told_in_words(returncode: int, words: str) -> None:
    assert describe_exit(returncode) == words


def test_a_recorded_function_leaves_its_exception_and_passes_it_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "0.json"))

    with pytest.raises(BadBatch):
        record(fail)(5)

    report = read_error(tmp_path / "0.json")
    assert report is not None
    assert "batch 5" in report.message


def test_a_recorded_function_that_returns_or_exits_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "0.json"))

    @record
    def leave(status: int) -> int:
        if status:
            raise SystemExit(status)
        return os.getpid()

    assert leave(0) == os.getpid()
    with pytest.raises(SystemExit):
        leave(3)
    assert not (tmp_path / "0.json").exists()
