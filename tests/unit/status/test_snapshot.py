"""The record of a run, read as a whole from the files that agents write."""

from __future__ import annotations

import json
from pathlib import Path

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous import keys, record
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.status import snapshot

NOW = "2026-01-01T00:00:00+00:00"


def attempt(number: int) -> record.Attempt:
    return record.Attempt(number, "slurm", "7", "", number - 1, NOW, ("n1", "n2"), "w")


def agreed(number: int, attempt_number: int = 1) -> record.Round:
    members = tuple(
        record.Member(f"{attempt_number}-{name}-x", name, 2, "default", "10.0.0.1") for name in ("n1", "n2")
    )
    return record.Round(number, (attempt_number,), members, "10.0.0.1", 2000, "first", 0, 0, NOW, "w")


def closed(number: int, attempt_number: int, *, succeeded: bool) -> record.Closed:
    return record.Closed(number, attempt_number, succeeded, number - 1, 0 if succeeded else 1, "", NOW, "w")


def write(run_dir: Path, **records: record.Record) -> None:
    """Each record under its key; `__` stands for the slash and `_dot_` for the dot."""
    backend = FileBackend(run_dir / "record")
    for name, value in records.items():
        backend.create(name.replace("_dot_", ".").replace("__", "/"), encode(value))


def test_a_directory_that_is_missing_or_empty_gives_an_empty_snapshot(tmp_path: Path) -> None:
    assert snapshot.read(tmp_path / "nowhere") == snapshot.RunSnapshot(tmp_path / "nowhere")
    assert snapshot.read(tmp_path) == snapshot.RunSnapshot(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_shown_with_all_that_its_record_has(tmp_path: Path) -> None:
    notice = record.Notice(1, record.Reason.UNKNOWN, record.Scope.RUN, 20.0, "n1", "SIGTERM", NOW, "w")
    cause = record.Notice(1, record.Reason.PREEMPTED, record.Scope.RUN, 18.0, "n1", "SIGTERM", NOW, "w")
    asked = record.Requeue(1, 0, "7", NOW, "w")
    started = record.Verdict(1, True, "all confirmed", NOW, "w")
    drain = record.Drain(1, record.Reason.PREEMPTED, 18.0, True, (), NOW, "w")
    end = record.End(1, record.Cause.DRAIN, "n1", -1, 0, "", 41, NOW, "w")
    settled = record.Settled(1, record.Cause.DRAIN, "n1", "", NOW, "w")
    write(
        tmp_path,
        attempts__1=attempt(1),
        attempts__1_dot_notice=notice,
        attempts__1_dot_cause=cause,
        attempts__1_dot_requeue_dot_0=asked,
        rounds__1=agreed(1),
        rounds__1_dot_verdict=started,
        rounds__1_dot_drain=drain,
        rounds__1_dot_stop=record.Stop(1, 41, "w"),
        rounds__1_dot_end=end,
        rounds__1_dot_settled=settled,
    )
    (tmp_path / "run.json").write_text(json.dumps({"run_id": "slurm-7", "name": "t", "command": ["t.py"]}))

    seen = snapshot.read(tmp_path)

    assert (seen.run_id, seen.name, seen.command) == ("slurm-7", "t", ("t.py",))
    assert seen.attempts == (snapshot.AttemptSnapshot(attempt(1), notice, cause, (asked,)),)
    assert seen.attempts[0].why_stopped == cause
    assert seen.rounds == (
        snapshot.RoundSnapshot(agreed(1), started, drain, record.Stop(1, 41, "w"), end, settled),
    )
    assert seen.last_round == seen.round(1)
    assert seen.closed is None
    assert seen.problems == ()


def test_presences_are_ordered_by_attempt_and_node_order(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "record")
    for order, name in ((1, "b"), (0, "z")):
        node = f"1-{name}-x"
        state = record.NodeState.JOINING
        one = record.Presence(node, 1, name, order, "h", "10.0.0.1", 1, 1, "default", state, 0, 3)
        backend.overwrite(keys.node_key(node), encode(one))

    assert [one.name for one in snapshot.read(tmp_path).presences] == ["z", "b"]


def test_a_success_closes_the_run_for_ever_and_a_failure_its_own_attempt(tmp_path: Path) -> None:
    write(tmp_path, attempts__1=attempt(1), rounds__1=agreed(1), rounds__2=closed(2, 1, succeeded=False))
    failed = snapshot.read(tmp_path)
    write(tmp_path, attempts__2=attempt(2))
    begun_again = snapshot.read(tmp_path)
    write(tmp_path, rounds__3=agreed(3, 2), rounds__4=closed(4, 2, succeeded=True), attempts__3=attempt(3))
    done = snapshot.read(tmp_path)

    assert failed.closed == closed(2, 1, succeeded=False)
    assert begun_again.closed is None
    assert done.has_succeeded


def test_records_that_cannot_be_read_are_named_and_the_rest_is_there(tmp_path: Path) -> None:
    write(tmp_path, attempts__1=attempt(1), rounds__1=record.Stop(1, 3, "w"))
    (tmp_path / "record" / "rounds" / "2").write_bytes(b"half of a rec")
    (tmp_path / "run.json").write_bytes(b"[]")

    seen = snapshot.read(tmp_path)

    assert [one.number for one in seen.attempts] == [1]
    assert seen.rounds == ()
    assert len(seen.problems) == 2
    assert all(problem.startswith(f"rounds/{number}: ") for number, problem in enumerate(seen.problems, 1))


def test_a_round_without_its_start_is_not_the_last_round(tmp_path: Path) -> None:
    write(
        tmp_path,
        rounds__1=agreed(1),
        rounds__1_dot_verdict=record.Verdict(1, True, "", NOW, "w"),
        rounds__2=agreed(2),
        rounds__2_dot_verdict=record.Verdict(2, False, "a member left", NOW, "w"),
    )

    last = snapshot.read(tmp_path).last_round

    assert last is not None
    assert last.number == 1
