"""Where the agents of an attempt meet: chosen once, by the first of them, and written in the ledger.

`auto` is etcd where one is configured and answers, else the run directory. Whoever comes later goes
where the first one went, or fails by name: two halves of an attempt must not wait for each other in
two places.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from hpc_elastic.backends.base import Backend
from hpc_elastic.clock import Clock
from hpc_elastic.errors import BackendRefused, BackendUnavailable, RendezvousConnectionError, UsageError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.entry import find_attempt
from hpc_elastic.rendezvous.mirrored import MirroredBackend
from hpc_elastic.rendezvous.operations import finish
from hpc_elastic.rendezvous.record import GUESTS, Attempt, BackendChoice
from hpc_elastic.rendezvous.standing import JobStart
from hpc_elastic.values import dataclass, replace

if TYPE_CHECKING:
    from hpc_elastic.backends.etcd_endpoints import EtcdAddress

AUTO: Final = "auto"
FILE: Final = "file"
ETCD: Final = "etcd"
ETCD_V3: Final = "etcd-v3"
ETCD_V2: Final = "etcd-v2"
NAMES: Final = (AUTO, FILE, ETCD, ETCD_V3, ETCD_V2)
PATIENCE_S: Final = 15.0
_TRY_EVERY_S: Final = 0.5


class Live(Backend, Protocol):
    """A backend that is not the run directory."""

    cluster: str


@dataclass(frozen=True)
class Wanted:
    """What one node was told: a name out of `NAMES`, and the etcd, if one is configured.

    `address_of` parses an endpoint with this node's settings, for one that only the ledger names.
    """

    name: str
    etcd: EtcdAddress | None
    address_of: Callable[[str], EtcdAddress]


@dataclass(frozen=True)
class Meeting:
    """The backend of an attempt, and the record of its choice."""

    backend: Backend
    choice: BackendChoice

    def __str__(self) -> str:
        return f"{self.choice.backend}{_at(self.choice)} ({self.choice.why})"


def open_meeting(
    wanted: Wanted,
    ledger: Backend,
    start: JobStart,
    *,
    run_id: str,
    name: str,
    clock: Clock,
    patience_s: float = PATIENCE_S,
) -> Meeting:
    """The backend of this start of the run, for node `name`. `ledger` is the run directory's.

    Raises `RendezvousConnectionError` when the chosen etcd stays out of reach for `patience_s`,
    `BackendRefused` when it answers that it will not do, `UsageError` when another backend than this
    node was told has been chosen.
    """
    writer = f"{name}-{os.urandom(4).hex()}"
    attempt = finish(find_attempt(start, writer, clock.utc_now()), ledger)
    key = keys.backend_key(attempt.number)
    raw = ledger.read(key)
    opener = _Opener(ledger, run_id, clock, patience_s)
    if raw is None:
        first_key = keys.backend_key(_first_to_choose(attempt, ledger))
        raw = ledger.read(first_key) if first_key != key else None
        if raw is None:
            proposal = opener.propose(wanted)
            choice = replace(proposal, attempt=attempt.number, chosen_at=clock.utc_now(), writer=writer)
            raw = ledger.create(first_key, encode(choice))
        if first_key != key:
            choice = replace(decode_as(raw, BackendChoice, key=first_key), attempt=attempt.number)
            raw = ledger.create(key, encode(choice))
    choice = decode_as(raw, BackendChoice, key=key)
    _check_agreement(wanted, choice, name)
    if choice.backend == FILE:
        return Meeting(ledger, choice)
    return Meeting(MirroredBackend.open(opener.open_chosen(wanted, choice, name), ledger), choice)


def open_from_outside(
    wanted: Wanted, chosen: BackendChoice, ledger: Backend, *, run_id: str, name: str, clock: Clock
) -> Live:
    """The etcd of an attempt, for somebody on host `name` who is no member of it. Tried once.

    Raises `RendezvousConnectionError`, `BackendRefused` or `UsageError`, as `open_meeting` does.
    """
    return _Opener(ledger, run_id, clock, patience_s=0.0).open_chosen(wanted, chosen, name)


def _first_to_choose(attempt: Attempt, ledger: Backend) -> int:
    """The attempt whose choice counts: jobs that share a run have to meet in one place.

    Of a pool that is the first of its array, for a guest that of the newest job it joins.
    """
    if not attempt.share:
        return attempt.number
    earlier = (_attempt(ledger, number) for number in range(1, attempt.number))
    known = [one for one in (*earlier, attempt) if one is not None]
    if attempt.share == GUESTS:
        host = next((one for one in reversed(known) if one.share != GUESTS), None)
        if host is None:
            return attempt.number
        attempt = host
    return next((one.number for one in known if attempt.share and one.share == attempt.share), attempt.number)


def _attempt(ledger: Backend, number: int) -> Attempt | None:
    key = keys.attempt_key(number)
    raw = ledger.read(key)
    return None if raw is None else decode_as(raw, Attempt, key=key)


def _check_agreement(wanted: Wanted, choice: BackendChoice, name: str) -> None:
    told = wanted.name
    agreed = {AUTO: NAMES, ETCD: (ETCD_V3, ETCD_V2)}.get(told, (told,))
    if choice.backend not in agreed:
        raise UsageError(
            f"node {name} was told --rdzv-backend {told}, and attempt {choice.attempt} meets in "
            f"{choice.backend}{_at(choice)}, as {choice.writer} chose; give all nodes the same"
        )


@dataclass(frozen=True)
class _Opener:
    ledger: Backend
    run_id: str
    clock: Clock
    patience_s: float

    def propose(self, wanted: Wanted) -> BackendChoice:
        """What this node would choose."""
        nowhere = BackendChoice(0, FILE, "", "", "", "", "", "")
        if wanted.name == FILE:
            return replace(nowhere, why="as told")
        if wanted.etcd is None:
            return replace(nowhere, why="no etcd is configured")
        try:
            patience_s = 0.0 if wanted.name == AUTO else self.patience_s
            name, live = self._find(wanted.name, wanted.etcd, patience_s)
        except BackendRefused:
            raise
        except BackendUnavailable as silent:
            if wanted.name != AUTO:
                raise RendezvousConnectionError(str(silent)) from silent
            return replace(nowhere, why=f"the etcd that is configured does not answer: {silent}")
        live.close()
        why = "it answers" if wanted.name == AUTO else "as told"
        return replace(
            nowhere,
            backend=name,
            endpoint=str(wanted.etcd),
            prefix=wanted.etcd.prefix,
            cluster=live.cluster,
            why=why,
        )

    def open_chosen(self, wanted: Wanted, choice: BackendChoice, name: str) -> Live:
        """The chosen etcd, reached by this node's own endpoints where it has some."""
        address = replace(wanted.etcd or wanted.address_of(choice.endpoint), prefix=choice.prefix)
        try:
            _, live = self._find(choice.backend, address, self.patience_s)
        except BackendUnavailable as failed:
            text = (
                f"attempt {choice.attempt} meets in {choice.backend}{_at(choice)}, as {choice.writer} chose, "
                f"and node {name} cannot: {failed}"
            )
            if isinstance(failed, BackendRefused):
                raise BackendRefused(text) from failed
            raise RendezvousConnectionError(text) from failed
        if live.cluster != choice.cluster:
            live.close()
            raise UsageError(
                f"node {name} reaches another etcd ({address}, cluster {live.cluster}) than the one where "
                f"attempt {choice.attempt} meets ({choice.endpoint}, cluster {choice.cluster}); give all "
                "nodes the same --rdzv-endpoint"
            )
        return live

    def _find(self, name: str, address: EtcdAddress, patience_s: float) -> tuple[str, Live]:
        """The etcd of that name, tried again for a while."""
        nonce = self.ledger.create(keys.SPACE, os.urandom(8).hex().encode()).decode("ascii", "replace")
        space = f"{self.run_id}/{nonce}"
        give_up_at_s = self.clock.monotonic_s() + patience_s
        while True:
            try:
                return open_etcd(name, address, space, self.clock)
            except BackendRefused:
                raise
            except BackendUnavailable:
                if self.clock.monotonic_s() >= give_up_at_s:
                    raise
            self.clock.sleep_s(_TRY_EVERY_S)


def open_etcd(name: str, address: EtcdAddress, space: str, clock: Clock) -> tuple[str, Live]:
    """The record below `space`: by v3, and by v2 where the server speaks nothing else and v2 is allowed."""
    from hpc_elastic.backends.etcd_client import NoV3
    from hpc_elastic.backends.etcd_v3 import EtcdV3Backend

    if name != ETCD_V2:
        try:
            return ETCD_V3, EtcdV3Backend.open(address, space, clock)
        except NoV3:
            if name == ETCD_V3:
                raise
    from hpc_elastic.backends.etcd_v2 import EtcdV2Backend

    return ETCD_V2, EtcdV2Backend.open(address, space, clock)


def _at(choice: BackendChoice) -> str:
    return f" at {choice.endpoint}" if choice.endpoint else ""
