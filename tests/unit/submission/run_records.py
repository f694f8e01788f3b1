"""Run directories as agents leave them, for tests of what a submitter reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous import keys, record
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.submission.files import JobFile, SubmissionFiles
from hpc_elastic.submission.states import Seen, Sight
from hpc_elastic.workers import payload

NOW = "2026-01-01T00:00:00+00:00"


class HandClock:
    """Time that moves when told to, and when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds

    def utc_now(self) -> str:
        return NOW


class FakeControl:
    """A cluster that shows what it is told, and remembers what it was asked."""

    def __init__(self, *shown: Seen) -> None:
        self.shown = list(shown) or [Seen(Sight.ACTIVE, "RUNNING", "job 7")]
        self.asked: list[str] = []
        self.jobs: tuple[str, ...] = ()

    def look(self) -> Seen:
        return self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]

    def follow(self, *jobs: str) -> None:
        self.jobs = jobs

    def cancel(self) -> None:
        self.asked.append("cancel")

    def preempt(self) -> None:
        self.asked.append("preempt")


class RunRecord:
    """Writes one run: an attempt with one round of two nodes with one worker each."""

    def __init__(self, run_dir: Path) -> None:
        self.files = SubmissionFiles(run_dir)
        self._backend = FileBackend(run_dir / "record")

    def create(self, key: str, value: record.Record) -> None:
        self._backend.create(key, encode(value))

    def begin(self, attempt: int = 1) -> None:
        members = tuple(record.Member(f"{attempt}-n{i}-x", f"n{i}", 1, "default", "10.0.0.1") for i in (1, 2))
        start = record.Attempt(attempt, "slurm", "7", "", attempt - 1, NOW, (), "w")
        agreed = record.Round(attempt, (attempt,), members, "10.0.0.1", 2000, "first", 0, 0, NOW, "w")
        self.create(keys.attempt_key(attempt), start)
        self.create(keys.round_key(attempt), agreed)
        self.create(keys.verdict_key(attempt), record.Verdict(attempt, True, "", NOW, "w"))

    def fail(self, rank: int, exit_code: int, attempt: int = 1) -> None:
        cause = record.Cause.WORKER_FAILED
        end = record.End(
            attempt, cause, f"{attempt}-n{rank + 1}-x", rank, exit_code, "it broke", -1, NOW, "w"
        )
        self.create(keys.end_key(attempt), end)
        self.close(succeeded=False, attempt=attempt)

    def close(self, *, succeeded: bool, attempt: int = 1) -> None:
        code = 0 if succeeded else 1
        closed = record.Closed(attempt + 1, attempt, succeeded, attempt, code, "it broke", NOW, "w")
        self.create(keys.round_key(attempt + 1), closed)

    def returned(self, rank: int, value: Any, round_number: int = 1) -> None:
        payload.write(self.files.result(round_number, rank), payload.pack_value(value))

    def submitted(self, *, calls_function: bool = True, after_attempt: int = 0) -> JobFile:
        about = JobFile("slurm", "7", "run", "train", calls_function, True, after_attempt, NOW)
        about.write(self.files.job)
        return about
