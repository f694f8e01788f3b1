"""What the record of a run says, read as a whole: the one reader behind status, jobs and tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous import keys, record
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.sequels import Continued, StaysAway

R = TypeVar("R")

BY_HAND: Final = "local"  # the cluster of agents that no Slurm job has started


@dataclass(frozen=True)
class AttemptSnapshot:
    """One Slurm start of the run, and what was said about its end."""

    start: record.Attempt
    notice: record.Notice | None = None
    cause: record.Notice | None = None
    requeues: tuple[record.Requeue, ...] = ()
    stays_away: StaysAway | None = None

    @property
    def number(self) -> int:
        """Its number `k`, counting up over the whole run."""
        return self.start.number

    @property
    def is_by_hand(self) -> bool:
        """Whether no Slurm job has started it, so that no queue knows of it."""
        return self.start.cluster == BY_HAND

    @property
    def why_stopped(self) -> record.Notice | None:
        """The best that is known about why it had to stop: the bettered notice, else the first."""
        return self.cause or self.notice

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody wants that nothing comes after it."""
        why, away = self.why_stopped, self.stays_away
        return (why is not None and why.reason is record.Reason.CANCELLED) or (
            away is not None and away.is_cancelled
        )


@dataclass(frozen=True)
class RoundSnapshot:
    """One agreed membership, and what became of it."""

    proposal: record.Round
    verdict: record.Verdict | None = None
    drain: record.Drain | None = None
    stop: record.Stop | None = None
    end: record.End | None = None
    settled: record.Settled | None = None

    @property
    def number(self) -> int:
        """Its number `n`, counting up over the whole run."""
        return self.proposal.number

    @property
    def members(self) -> tuple[record.Member, ...]:
        """Its nodes; the place is the group rank."""
        return self.proposal.members

    @property
    def attempt(self) -> int:
        """The newest attempt that takes part in it."""
        return max(self.proposal.attempts, default=0)

    @property
    def has_started(self) -> bool:
        """Whether its workers were allowed to start."""
        return self.verdict is not None and self.verdict.started


@dataclass(frozen=True)
class RunSnapshot:
    """The record of one run. Each sequence is in the order of its numbers, or of its names.

    `problems` names the records that could not be read; the rest is still there. The parts are
    read one after the other, not at one moment: a round may show an end that the presence of its
    members does not show yet.
    """

    run_dir: Path
    run_id: str = ""
    name: str = ""
    created_at: str = ""
    command: tuple[str, ...] = ()
    max_restarts: int | None = None
    attempts: tuple[AttemptSnapshot, ...] = ()
    continuations: tuple[Continued, ...] = ()
    rounds: tuple[RoundSnapshot, ...] = ()
    closings: tuple[record.Closed, ...] = ()
    presences: tuple[record.Presence, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def closed(self) -> record.Closed | None:
        """The closing that binds the newest attempt: a success for ever, a failure its own attempt only."""
        if not self.closings:
            return None
        last = self.closings[-1]
        own = self.own_attempt
        return last if last.succeeded or own is None or last.binds(own.start) else None

    @property
    def has_succeeded(self) -> bool:
        """Whether the run is done."""
        return self.closed is not None and self.closed.succeeded

    @property
    def last_attempt(self) -> AttemptSnapshot | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def own_attempt(self) -> AttemptSnapshot | None:
        """The newest attempt that is not of a job which joined from outside."""
        return next((one for one in reversed(self.attempts) if one.start.share != record.GUESTS), None)

    def is_of_now(self, found: RoundSnapshot) -> bool:
        """Whether a round is one of the newest attempt, or of jobs that share the run."""
        own = self.own_attempt
        return own is not None and (bool(own.start.share) or own.number in found.proposal.attempts)

    @property
    def present(self) -> tuple[record.Presence, ...]:
        """The nodes of the newest attempt, and of all jobs that share the run."""
        own = self.own_attempt
        counted = {one.number for one in self.attempts if one.start.share or one is own}
        return tuple(one for one in self.presences if one.attempt in counted)

    @property
    def has_left(self) -> bool:
        """Whether nobody is there any more of those that were."""
        return bool(self.present) and all(one.state is record.NodeState.LEFT for one in self.present)

    @property
    def is_over(self) -> bool:
        """Whether nothing comes any more, as far as the record says: a job may end without a word.

        What it says of one element of a pool it does not say of the others.
        """
        own = self.own_attempt
        if self.closed is not None or own is None:
            return self.closed is not None
        return self.has_left and not own.start.share and (own.is_cancelled or own.stays_away is not None)

    @property
    def last_round(self) -> RoundSnapshot | None:
        """The newest round that started its workers."""
        return next((one for one in reversed(self.rounds) if one.has_started), None)

    def attempt(self, number: int) -> AttemptSnapshot | None:
        """Attempt `number`, or None."""
        return next((one for one in self.attempts if one.number == number), None)

    def round(self, number: int) -> RoundSnapshot | None:
        """Round `number`, or None."""
        return next((one for one in self.rounds if one.number == number), None)


@dataclass
class _Reader:
    """Reads records of known keys; remembers what it could not read."""

    backend: Backend
    problems: list[str] = field(default_factory=list)

    def get(self, key: str, kinds: type[R] | tuple[type[R], ...]) -> R | None:
        raw = self.backend.read(key)
        if raw is None:
            return None
        try:
            return decode_as(raw, kinds, key=key)
        except RecordCorrupt as bad:
            self.problems.append(str(bad))
            return None

    def numbers(self, folder: str) -> list[int]:
        return keys.numbers(self.backend.names(folder))


def read(run_dir: Path) -> RunSnapshot:
    """The record in `run_dir`, as far as there is one.

    A directory that is missing, empty or half made gives a snapshot with fewer parts; it is never
    created or changed. Raises `BackendUnavailable` when the directory cannot be read at all.
    """
    about = _about(run_dir)
    root = run_dir / "record"
    if not root.is_dir():
        return about
    backend = FileBackend(root)
    try:
        return _assemble(about, _Reader(backend))
    finally:
        backend.close()


def attempts(run_dir: Path) -> tuple[record.Attempt, ...]:
    """The starts of the run in `run_dir`, and nothing else of its record: cheap, for a look into many."""
    root = run_dir / "record"
    if not root.is_dir():
        return ()
    backend = FileBackend(root)
    try:
        reader = _Reader(backend)
        found = (reader.get(keys.attempt_key(k), record.Attempt) for k in reader.numbers(keys.ATTEMPTS))
        return tuple(one for one in found if one is not None)
    finally:
        backend.close()


def bell(run_dir: Path) -> bytes:
    """What changes when something new may be in the record: a cheap look before a whole `read`."""
    try:
        return (run_dir / "record" / keys.BELL).read_bytes()
    except OSError:
        return b""


def _assemble(about: RunSnapshot, reader: _Reader) -> RunSnapshot:
    beside = reader.backend.names(keys.ATTEMPTS)
    attempts = tuple(one for k in reader.numbers(keys.ATTEMPTS) if (one := _attempt(reader, k, beside)))
    continued = [reader.get(key, Continued) for key in keys.continuations(beside)]
    rounds: list[RoundSnapshot] = []
    closings: list[record.Closed] = []
    for number in reader.numbers(keys.ROUNDS):
        found = reader.get(keys.round_key(number), (record.Round, record.Closed))
        if isinstance(found, record.Closed):
            closings.append(found)
        elif isinstance(found, record.Round):
            rounds.append(_round(reader, found))
    return replace(
        about,
        attempts=attempts,
        continuations=tuple(one for one in continued if one is not None),
        rounds=tuple(rounds),
        closings=tuple(closings),
        presences=_presences(reader),
        problems=tuple(reader.problems),
    )


def _attempt(reader: _Reader, number: int, beside: frozenset[str]) -> AttemptSnapshot | None:
    start = reader.get(keys.attempt_key(number), record.Attempt)
    if start is None:
        return None
    prefix = f"{number}.requeue."
    claims = sorted(
        int(name.removeprefix(prefix))
        for name in beside
        if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
    )
    asked = (reader.get(keys.requeue_key(number, claim), record.Requeue) for claim in claims)
    return AttemptSnapshot(
        start,
        notice=reader.get(keys.notice_key(number), record.Notice),
        cause=reader.get(keys.cause_key(number), record.Notice),
        requeues=tuple(one for one in asked if one is not None),
        stays_away=reader.get(keys.stays_away_key(number), StaysAway),
    )


def _round(reader: _Reader, proposal: record.Round) -> RoundSnapshot:
    number = proposal.number
    return RoundSnapshot(
        proposal,
        verdict=reader.get(keys.verdict_key(number), record.Verdict),
        drain=reader.get(keys.drain_key(number), record.Drain),
        stop=reader.get(keys.stop_key(number), record.Stop),
        end=reader.get(keys.end_key(number), record.End),
        settled=reader.get(keys.settled_key(number), record.Settled),
    )


def _presences(reader: _Reader) -> tuple[record.Presence, ...]:
    names = sorted(reader.backend.names(keys.NODES))
    found = (reader.get(keys.node_key(name), record.Presence) for name in names)
    present = [one for one in found if one is not None]
    return tuple(sorted(present, key=lambda one: (one.attempt, one.order, one.name)))


def _about(run_dir: Path) -> RunSnapshot:
    """What `run.json` says, as far as it can be read."""
    try:
        body = json.loads((run_dir / "run.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return RunSnapshot(run_dir)
    if not isinstance(body, dict):
        return RunSnapshot(run_dir)
    command = body.get("command")
    return RunSnapshot(
        run_dir,
        run_id=_text(body.get("run_id")),
        name=_text(body.get("name")),
        created_at=_text(body.get("created_at")),
        command=tuple(map(_text, command)) if isinstance(command, list) else (),
        max_restarts=most if isinstance(most := body.get("max_restarts"), int) else None,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
