"""A handler whose rounds come from the run record, by the same keeper that serves an agent."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, NoReturn

from hpc_elastic.backends.base import Backend
from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import (
    BackendUnavailable,
    HpcElasticError,
    RecordLost,
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.api import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from hpc_elastic.rendezvous.codec import decode_as, decode_if_sound
from hpc_elastic.rendezvous.explaining import Explained
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Cause, Closed, NodeState, Outcome, Presence, Reason, Round
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings, Standing
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.rounds import open_store, space_of
from hpc_elastic.stores.values import Text, Time
from hpc_elastic.values import dataclass, replace

_LOOK_S: Final = 0.25
_LEAVE_S: Final = 5.0


@dataclass(frozen=True)
class Part:
    """What one node brings: which run and start of it, which seat, by which rules."""

    backend: str
    run_id: str
    start: JobStart
    seat: Seat
    settings: Settings
    close_timeout: timedelta


class RecordRendezvousHandler(RendezvousHandler):
    """The handler of every backend but `static`. It connects with the first call that needs it.

    Between rounds it keeps this node alive in the run by a thread of its own, until `shutdown`. After
    an error of `next_rendezvous` this node has left; a further call comes anew.
    """

    def __init__(self, part: Part, open_backend: Callable[[], Backend], clock: Clock = SYSTEM_CLOCK) -> None:
        self._part = part
        self._open_backend = open_backend
        self._clock = clock
        self._backend: Backend | None = None
        self._membership: Membership | None = None
        self._is_shut_down = False
        self._entering = threading.Lock()
        self._lock = threading.Lock()
        self._stores: dict[int, Store] = {}
        self._failed_round = 0

    def get_backend(self) -> str:
        return self._part.backend

    def get_run_id(self) -> str:
        return self._part.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """The next round, once it has started.

        A round that this node is in ends with this call: its other members see `num_nodes_waiting` above
        0, and the next round waits until they have asked for it too, or are gone.
        """
        with self._entering:
            self._refuse_after_shutdown()
            known = self._membership
            membership = known or self._enter(Membership.join)
        last = 0 if known is None else self._ask_anew(known)
        standing = self._await(membership, lambda s: s.round is not None and s.round.number > last)
        agreed, rank = standing.round, standing.rank
        if agreed is None or rank is None:
            raise RendezvousStateError(f"run {self.get_run_id()}: a round without this node; report this")
        if rank == 0:
            self._clear_stores(agreed.number)
        return self._describe(agreed, rank)

    def is_closed(self) -> bool:
        """Whether the run is closed, by a look at the record."""
        membership = self._member()
        if membership.standing().closed is not None:
            return True
        with self._explained():
            return self._find_closing(membership) is not None

    def set_closed(self) -> None:
        """Close the run for this start of it; returns once that is recorded.

        Raises `RendezvousTimeoutError` when it is not within the close timeout.
        """
        membership = self._member()
        if self.is_closed():
            return
        membership.close_run(
            int(ExitCode.FAILED), f"closed by node {self._part.seat.name} through its handler"
        )
        self._await_closing(membership)

    def set_done(self) -> None:
        """Close the run as done, once every member of this round has called this; returns once it is.

        Nodes that wait for a place then leave by a `RendezvousGracefulExitError`. Raises
        `RendezvousTimeoutError` when the closing is not recorded within the close timeout.
        """
        membership = self._member()
        membership.mark_done()
        self._await_closing(membership)

    def _await_closing(self, membership: Membership) -> None:
        limit_s = self._part.close_timeout.total_seconds()
        give_up_at_s = self._clock.monotonic_s() + limit_s
        while membership.standing().closed is None:
            error = membership.standing().error
            if error is not None:
                self._fail(error)
            if self._clock.monotonic_s() >= give_up_at_s:
                raise RendezvousTimeoutError(
                    f"run {self.get_run_id()}: the closing was not recorded in {limit_s:g} s; "
                    "look whether the backend can be reached"
                )
            self._watch(membership)

    def note_failure(self, node_rank: int, rank: int, exit_code: int, message: str) -> None:
        """End this round by a failure; the first cause that is recorded counts, whoever tells of it."""
        membership = self._member()
        agreed = membership.standing().round
        if agreed is None or not 0 <= node_rank < len(agreed.members):
            return
        self._failed_round = agreed.number
        node = agreed.members[node_rank].node
        membership.end_round(Cause.WORKER_FAILED, rank=rank, exit_code=exit_code, message=message, node=node)

    def num_nodes_waiting(self) -> int:
        """Nodes that wait for a new round and would get a place in it, newcomers and former members.

        It reads nothing: what the keeper has seen, at most about a second old. The first member looks after
        newcomers and asks all to let them in, and the others may know of nobody but by that. Raises what has
        ended this node's part: the record is lost, or a newer attempt has taken over.
        """
        standing = self._member().standing()
        if standing.error is not None:
            self._fail(standing.error)
        is_over = standing.end is not None and standing.end.cause is not Cause.SUCCESS
        is_asked = standing.drain is not None and standing.drain.reason is Reason.MEMBERSHIP
        return max(standing.waiting, 1 if (is_over or is_asked) and standing.closed is None else 0)

    def shutdown(self) -> bool:
        self._is_shut_down = True
        written = self._leave("its handler was shut down")
        for store in self._stores.values():
            store.close()
        self._stores.clear()
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()
        return written

    def store_extra_data(self, round_number: int, key: Text, value: Text) -> None:
        """Keep something about a round, for whoever asks for it by round and key."""
        self._extra(round_number).set(key, value)

    def load_extra_data(self, round_number: int, key: Text, timeout: Time | None = None) -> bytes:
        """What was stored about a round, once it is there. Raises `StoreTimedOut`, a `LookupError`."""
        return self._extra(round_number).get(key, timeout)

    def _extra(self, round_number: int) -> Store:
        from hpc_elastic.stores.prefixed import PrefixedStore

        return PrefixedStore("extra data", self._store(round_number))

    def _store(self, round_number: int) -> Store:
        self._member()
        if round_number not in self._stores:
            self._stores[round_number] = open_store(self._live(), round_number, clock=self._clock)
        return self._stores[round_number]

    def _describe(self, agreed: Round, rank: int) -> RendezvousInfo:
        store = self._store(agreed.number)
        endpoint = RendezvousStoreInfo(agreed.master_address, agreed.master_port)
        store.master_addr_port = (endpoint.master_addr, endpoint.port)
        names = tuple(member.name for member in agreed.members)
        return RendezvousInfo(
            store,
            rank,
            len(agreed.members),
            endpoint,
            participants=names,
            wait_list=lambda: self._waiting_beside(agreed),
            round_number=agreed.number,
            failures=agreed.failures,
        )

    def _waiting_beside(self, agreed: Round) -> tuple[str, ...]:
        """The nodes that want a place and are not in this round."""
        members = {member.node for member in agreed.members}
        with self._explained():
            backend = self._live()
            raws = {key: backend.read(key) for key in map(keys.node_key, backend.names(keys.NODES) - members)}
        found = [decode_if_sound(raw, Presence, key=key) for key, raw in raws.items()]
        waiting = [one for one in found if one is not None and one.state is NodeState.JOINING]
        return tuple(one.name for one in sorted(waiting, key=lambda one: (one.order, one.name)))

    def _member(self) -> Membership:
        """This node's membership."""
        with self._entering:
            self._refuse_after_shutdown()
            return self._membership or self._enter()

    def _enter(self, begin: Callable[[Membership], None] | None = None) -> Membership:
        """A new membership; `begin` says what it wants before its first look."""
        with self._explained():
            backend = self._backend = self._backend or self._open_backend()
            seat = replace(self._part.seat, name=f"{self._part.seat.name}-{os.urandom(3).hex()}")
            entered = Membership.open(backend, self._part.start, seat, self._part.settings, self._clock)
        if begin is not None:
            begin(entered)
        entered.start()
        with self._lock:
            self._membership = entered
        if self._is_shut_down:
            self._leave("its handler was shut down while it entered")
        self._refuse_after_shutdown()
        return entered

    def _refuse_after_shutdown(self) -> None:
        if self._is_shut_down:
            raise RendezvousStateError(f"run {self.get_run_id()}: this handler was shut down; create another")

    def _live(self) -> Backend:
        if self._backend is None:
            raise RendezvousStateError(f"run {self.get_run_id()}: this handler is not connected")
        return self._backend

    def _ask_anew(self, membership: Membership) -> int:
        """Let go of the round that this node is in, and ask for the next; the number of the former, or 0.

        Not for a membership that has just begun: the round that it is in by now is the one it asked for.
        """
        standing = membership.standing()
        last = 0 if standing.round is None else standing.round.number
        if last not in (0, self._failed_round) and standing.end is None and standing.closed is None:
            message = f"node {self._part.seat.name} asks for the next round"
            membership.end_round(Cause.MEMBERS_JOINING, message=message)
        membership.join()
        return last

    def _await(self, membership: Membership, is_there: Callable[[Standing], bool]) -> Standing:
        while True:
            standing = membership.standing()
            if standing.error is not None:
                self._fail(standing.error)
            if standing.closed is not None and standing.closed.succeeded:
                raise RendezvousGracefulExitError(f"run {self.get_run_id()} is done; nothing is left to do")
            if standing.closed is not None:
                raise RendezvousClosedError(
                    f"run {self.get_run_id()} is closed: {standing.closed.message or 'no reason was given'}; "
                    "start it again under another run id, or as another attempt"
                )
            if is_there(standing):
                return standing
            self._watch(membership)

    def _watch(self, membership: Membership) -> None:
        try:
            select.select([membership.fileno()], [], [], _LOOK_S)
            membership.acknowledge()
        except (OSError, ValueError) as closed:
            self._refuse_after_shutdown()
            raise RendezvousStateError(
                f"run {self.get_run_id()}: another call of this handler has left the run; call again"
            ) from closed
        self._refuse_after_shutdown()

    def _fail(self, error: HpcElasticError) -> NoReturn:
        """This node can take no further part as it is: leave, and say why by an error of the rendezvous."""
        self._leave(str(error))
        if isinstance(error, RendezvousError):
            raise error
        if isinstance(error, (BackendUnavailable, RecordLost)):
            raise RendezvousConnectionError(f"run {self.get_run_id()}: {error}") from error
        raise RendezvousStateError(f"run {self.get_run_id()}: {error}") from error

    def _leave(self, reason: str) -> bool:
        with self._lock:
            membership, self._membership = self._membership, None
        if membership is None:
            return True
        standing = membership.standing()
        is_done = standing.closed is not None and standing.closed.succeeded
        written = membership.leave(Outcome.DONE if is_done else Outcome.UNSAVED, reason, _LEAVE_S)
        membership.close()
        return written

    def _find_closing(self, membership: Membership) -> Closed | None:
        """The closing that binds this attempt, from the newest round on."""
        backend, standing = self._live(), membership.standing()
        number = standing.round.number if standing.round else 0
        number = number or max(keys.numbers(backend.names(keys.ROUNDS)), default=1)
        while (raw := backend.read(keys.round_key(number))) is not None:
            found = decode_as(raw, (Round, Closed), key=keys.round_key(number))
            binds = isinstance(found, Closed) and (found.succeeded or found.attempt >= standing.attempt)
            if isinstance(found, Closed) and binds:
                return found
            number += 1
        return None

    def _clear_stores(self, number: int) -> None:
        """Remove what nobody can need any more: the stores before that of the last round."""
        with suppress(BackendUnavailable):
            if number > 2:
                self._live().remove(space_of(number - 2))

    def _explained(self) -> Explained:
        return Explained(self.get_run_id())


class EtcdRendezvousHandler(RecordRendezvousHandler):
    """The handler whose rounds are in etcd, v3 or v2."""
