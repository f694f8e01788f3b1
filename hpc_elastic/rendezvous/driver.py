"""The one place where a node's decisions meet its backend: look, decide, act, tell."""

from __future__ import annotations

from typing import Final, Protocol

from hpc_elastic.backends.base import Backend
from hpc_elastic.errors import BackendGone, BackendRefused, BackendUnavailable, HpcElasticError, RecordLost
from hpc_elastic.rendezvous import forming, keys, knocking, machine, watching
from hpc_elastic.rendezvous.actions import Action, Fail, Make, Publish
from hpc_elastic.rendezvous.codec import encode
from hpc_elastic.rendezvous.entry import SeatTaking
from hpc_elastic.rendezvous.observer import BELL_EVERY_S, Observer
from hpc_elastic.rendezvous.operations import Create, Overwrite, Trip, finish
from hpc_elastic.rendezvous.pacing import FASTEST_LOOK_S, PATIENT_LOOK_S, Pace
from hpc_elastic.rendezvous.record import Attempt, NodeState, Notice, Presence
from hpc_elastic.rendezvous.seen import Wish
from hpc_elastic.rendezvous.situation import Phase, Situation
from hpc_elastic.rendezvous.standing import Seat, Settings, Standing
from hpc_elastic.rendezvous.telling import standing_of
from hpc_elastic.rendezvous.tidying import Tidying
from hpc_elastic.values import replace

FIRST_RETRY_S: Final = 0.02
GONE_FOR_GOOD_S: Final = 2.0
OUTAGE_TOLD_AFTER_S: Final = 2.0
MOST_ACTIONS_IN_A_TURN: Final = 64


class Ports(Protocol):
    """The port a node holds open for a master of the next round."""

    def hold(self) -> int:
        """A port that is bound until `release`; the same one again while it is held."""
        ...

    def release(self) -> None:
        """Give the port free for the master."""
        ...


class Driver:
    """One node's part in a run. `step` is called again after at most the time that it returned.

    `trip` is the same turn as a generator of single operations: a simulation comes between them.
    `standing` is the newest snapshot for the agent.
    """

    def __init__(self, node: str, attempt: Attempt, seat: Seat, settings: Settings, ports: Ports) -> None:
        self.standing = Standing(attempt.number, node)
        self.error: HpcElasticError | None = None
        self.has_left = False
        self._node = node
        self._seat = seat
        self._settings = settings
        self._ports = ports
        self._observer = Observer(node, attempt, settings)
        self._seat_taking = SeatTaking(attempt, seat, settings, node)
        self._is_seated = False
        self._tidying = Tidying()
        self._own: Presence | None = None
        self._beat = 0
        self._written_at_s = 0.0
        self._due_since_s: float | None = None
        self._last_turn_s: float | None = None
        self._lost_since_s: float | None = None
        self._outage = ""
        self._acknowledged_s: float | None = None
        self._pace = Pace(settings.heartbeat_s)
        self._port = 0
        self._rings = 0
        self._news: str | None = None

    def step(self, backend: Backend, wish: Wish, now_s: float, wall: str) -> float:
        """One turn; in how many seconds the next one is due, unless the agent wishes something new."""
        return finish(self.trip(wish, now_s, wall), backend)

    def trip(self, wish: Wish, now_s: float, wall: str) -> Trip[float]:
        """One turn, as operations on the backend; never raises but for a fault in this code."""
        before = self._observer.seen
        self._notice_pause(now_s)
        try:
            if self._pace.allows_a_glance(wish, now_s) and not (yield from self._observer.glance(now_s)):
                self._note_success(now_s)
                return self._pace.after_glance(now_s)
            self._pace.forbid_glances()
            yield from self._turn(wish, now_s, wall)
        except BackendUnavailable as failed:
            self._note_outage(failed, now_s)
        except HpcElasticError as fatal:
            self.error = self.error or fatal
        else:
            self._note_success(now_s)
        s = self._situation(wish, now_s, wall)
        self._let_port_go(s)
        self.has_left = watching.has_said_goodbye(s) or (self.error is not None and s.has_left(self._node))
        self.standing = standing_of(s, self.error, self._outage)
        if self._observer.seen is not before:
            self._pace.note_change(now_s)
        return self._rest_s(s)

    @property
    def rings(self) -> int:
        """How often this node has rung the bell."""
        return self._rings

    def ears(self) -> frozenset[knocking.Ear]:
        """Where the others can be told to look at the bell."""
        return knocking.ears_of(self._observer.seen, self._node)

    def look_soon(self) -> None:
        """Somebody says that the bell was rung: the next turn looks at it."""
        self._observer.look_soon()

    def decide(self, s: Situation) -> tuple[Action, ...]:
        """What follows from a situation."""
        return machine.decide(s)

    def _turn(self, wish: Wish, now_s: float, wall: str) -> Trip[None]:
        if not self._is_seated and not (yield from self._take_seat(now_s)):
            if self.error is None and (yield from self._observer.fence(now_s)):
                self.error = machine.replaced(self._situation(wish, now_s, wall))
            return
        if self.error is None:
            yield from self._observer.look(self._situation(wish, now_s, wall))
        for _ in range(MOST_ACTIONS_IN_A_TURN):
            s = self._remembering(self._situation(wish, now_s, wall))
            actions = self.decide(s)
            if self.error is not None:
                actions = tuple(one for one in actions if isinstance(one, Publish))
            if not actions or not (yield from self._carry_out(actions, s)):
                break
        yield from self._ring(now_s)
        if self._tidying.is_due(self._observer.seen.front, self._node, now_s):
            yield from self._tidying.tidy(self._situation(wish, now_s, wall))

    def _take_seat(self, now_s: float) -> Trip[bool]:
        if self.error is None and (yield from self._seat_taking.attempt_claim(now_s)):
            yield from self._observer.find_front(now_s)
            self._is_seated = True
        return self._is_seated

    def _carry_out(self, actions: tuple[Action, ...], s: Situation) -> Trip[bool]:
        """Whether there may be more to do in this turn."""
        for action in actions:
            match action:
                case Publish(presence, is_news):
                    yield from self._publish(presence, is_news, s)
                case Make(key, record):
                    if not isinstance(record, Notice) and (yield from self._observer.fence(s.now_s)):
                        continue
                    stored = yield Create(key, encode(record))
                    self._observer.absorb(key, stored, s.now_s)
                    self._observer.announced.own(key, s.now_s)
                case Fail(error):
                    self.error = error
                    return False
        return True

    def _publish(self, presence: Presence, is_news: bool, s: Situation) -> Trip[None]:
        self._beat = presence.beat
        yield Overwrite(keys.node_key(self._node), encode(presence))
        self._own = presence
        self._written_at_s = s.now_s
        self._observer.absorb_presence(presence, s.now_s)
        self._observer.announced.own(keys.node_key(self._node), s.now_s)
        # While a round forms its first node lists and reads presences by itself; else it waits for the bell.
        if is_news and (s.front.is_running or presence.state is NodeState.LEFT):
            self._news = keys.node_key(self._node)

    def _ring(self, now_s: float) -> Trip[None]:
        """Say what is new, on top of what the bell says at this moment."""
        announced, seen = self._observer.announced, self._observer.seen
        if self._news is None and not announced.is_due(seen, now_s):
            return
        yield from self._observer.hear_bell()
        if self._news is not None or not announced.holds_all(seen, now_s):
            self._rings += 1
            writer = f"{self._node}#{self._rings}"
            bell = announced.ring(seen, self._news or "", writer, now_s)
            yield Overwrite(keys.BELL, bell)
            announced.hear(bell)
        self._news = None

    def _situation(self, wish: Wish, now_s: float, wall: str) -> Situation:
        s = Situation(
            node=self._node,
            seat=self._seat,
            settings=self._settings,
            wish=wish,
            seen=self._observer.seen,
            now_s=now_s,
            wall=wall,
            port=self._port,
            own=self._own,
            beat=self._beat,
            claim=self._seat_taking.claim,
            written_at_s=self._written_at_s,
            due_since_s=self._due_since_s,
        )
        if s.phase is Phase.JOINING and wish.leave is None:
            self._port = self._ports.hold()
        return s if s.port == self._port else replace(s, port=self._port)

    def _remembering(self, s: Situation) -> Situation:
        is_due = s.phase is Phase.JOINING and forming.is_due(s)
        if not is_due:
            self._due_since_s = None
        elif self._due_since_s is None:
            self._due_since_s = s.now_s
        return s if s.due_since_s == self._due_since_s else replace(s, due_since_s=self._due_since_s)

    def _let_port_go(self, s: Situation) -> None:
        """The master may bind its port as soon as its round has started."""
        if s.phase not in (Phase.JOINING, Phase.CONFIRMING):
            self._ports.release()

    def _notice_pause(self, now_s: float) -> None:
        """This node stood still, with its machine or alone: it has watched nobody meanwhile."""
        last_s, self._last_turn_s = self._last_turn_s, now_s
        if last_s is not None and now_s - last_s > self._settings.heartbeat_s:
            self._observer.restart_windows(now_s)
            self._observer.list_soon()
            self._seat_taking.restart_watch()

    def _note_success(self, now_s: float) -> None:
        if self._lost_since_s is not None:
            self._discount(now_s)
        self._lost_since_s, self._acknowledged_s, self._outage = None, now_s, ""

    def _discount(self, now_s: float) -> None:
        """Only time in which everything was acknowledged counts for the silence of others.

        An outage of half a heartbeat may have kept the others from writing, so all windows start
        anew after it.
        """
        lost_s = now_s - (self._lost_since_s if self._lost_since_s is not None else now_s)
        if lost_s > self._settings.heartbeat_s / 2:
            self._observer.restart_windows(now_s)
            self._seat_taking.restart_watch()
        elif self._acknowledged_s is not None:
            self._observer.move_windows(now_s - self._acknowledged_s)
        self._acknowledged_s = now_s

    def _note_outage(self, failed: BackendUnavailable, now_s: float) -> None:
        if isinstance(failed, BackendRefused) and self._acknowledged_s is None:
            self.error = self.error or failed  # it was never different, and will not be
            return
        if self._lost_since_s is None:
            self._lost_since_s = now_s
        self._discount(now_s)
        lost_s = now_s - self._lost_since_s
        if lost_s >= OUTAGE_TOLD_AFTER_S:
            self._outage = f"the run record is out of reach: {failed}"
        is_over = lost_s > self._settings.store_lost_s
        if is_over or (isinstance(failed, BackendGone) and lost_s > GONE_FOR_GOOD_S):
            lost = RecordLost(f"the run record has been out of reach for {lost_s:.0f} s: {failed}")
            lost.__cause__ = failed
            self.error = self.error or lost

    def _rest_s(self, s: Situation) -> float:
        """In how many seconds the next turn is due."""
        # Well below a heartbeat, or each turn would look like the end of a pause of this node.
        longest_s = self._settings.heartbeat_s / 4
        if self._lost_since_s is not None:
            return min(longest_s, max(FIRST_RETRY_S, (s.now_s - self._lost_since_s) / 2))
        if not self._is_seated:
            return min(PATIENT_LOOK_S, longest_s)
        plan = watching.plan(s)
        if self.error is None and plan.is_hot:
            return self._pace.after_hot_look(s, plan)
        beat_due_s = max(FASTEST_LOOK_S, self._written_at_s + self._settings.heartbeat_s - s.now_s)
        bell_due_s = max(FASTEST_LOOK_S, self._observer.bell_at_s + BELL_EVERY_S - s.now_s)
        # One turn for several presences: who leads a large round watches all of them.
        presence_due_s = max(self._settings.heartbeat_s / 20, self._observer.presence_due_s - s.now_s)
        return min(bell_due_s, beat_due_s, presence_due_s, self._settings.heartbeat_s / 2)
