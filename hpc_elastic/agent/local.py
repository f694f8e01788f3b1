"""The agent of one node: the loop that feeds the machine and lets its orders be carried out."""

from __future__ import annotations

import select
import signal
from collections.abc import Iterable
from typing import Final

from hpc_elastic.agent import actions, machine, news, voice
from hpc_elastic.agent.chronicle import Chronicle
from hpc_elastic.agent.inputs import Input, Insisted, SignalHeard
from hpc_elastic.agent.notices import NoticeSource
from hpc_elastic.agent.performer import Performer
from hpc_elastic.agent.plan import Plan
from hpc_elastic.agent.signals import Mailbox
from hpc_elastic.agent.state import Agent, Phase
from hpc_elastic.clock import Clock
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.workers import tree

_JOINING_LOOK_S: Final = 1.0
_CHECKING_LOOK_S: Final = 0.05
# A second Ctrl-C counts once the first has had time to be read; terminals repeat held keys.
_INSIST_S: Final = 1.0


class LocalAgent:
    """Runs one node's part of a run, from joining to leaving. To be used once, in the main thread."""

    def __init__(
        self,
        plan: Plan,
        membership: Membership,
        mailbox: Mailbox,
        source: NoticeSource,
        clock: Clock,
        say: voice.Say,
        *,
        is_watched: bool = False,
    ) -> None:
        self._plan = plan
        self._membership = membership
        self._mailbox = mailbox
        self._source = source
        self._clock = clock
        self._say = say
        self._is_watched = is_watched  # a person sits at a terminal
        self._performer = Performer(plan, membership, mailbox, source, clock, say)
        self._chronicle = Chronicle(plan, clock)
        self._agent = Agent(plan.settings.shutdown_timeout_s)
        self._told = news.NOTHING
        self._interrupted_at_s: float | None = None
        self._waiting = voice.Waiting(say)

    def run(self) -> int:
        """Take part until the run is over or this node has to leave; the exit status."""
        tree.become_subreaper()
        self._say(voice.banner(self._plan, self._membership.standing().attempt))
        self._membership.start()
        try:
            self._performer.perform(actions.Join())
            self._performer.start_guard()
            while True:
                self._turn()
                if self._is_gone():
                    return self._performer.exit_code
                self._wait()
        except BaseException as error:
            self._performer.crash(f"the agent crashed: {error!r}")
            raise
        finally:
            self._performer.end_all()
            self._chronicle.close()

    @property
    def farewell(self) -> str:
        """How this node left, in a sentence; empty where it did not come to that."""
        return self._performer.farewell

    def _is_gone(self) -> bool:
        return self._agent.phase is Phase.GONE

    def _turn(self) -> None:
        """Tell the machine all that is new. Signals first: they explain the ends of workers."""
        self._feed(self._heard())
        self._membership.acknowledge()
        self._told, fresh = news.since(self._told, self._membership.standing())
        self._feed(fresh)
        local = self._performer.round
        if local is not None:
            news_of_workers = local.look(told=self._agent.must_leave or self._agent.order is not None)
            self._chronicle.looked(local, news_of_workers, self._clock.monotonic_s())
            self._feed(news_of_workers)
        if self._performer.is_checking:
            self._performer.look_at_health()
            self._feed(())
        now_s = self._clock.monotonic_s()
        while not self._is_gone() and (due := self._agent.due(now_s)) is not None:
            self._feed((due,))

    def _heard(self) -> Iterable[Input]:
        for signum in self._mailbox.take():
            now_s = self._clock.monotonic_s()
            if signum == signal.SIGINT and self._is_watched:
                if self._interrupted_at_s is not None and now_s - self._interrupted_at_s >= _INSIST_S:
                    yield Insisted()
                    continue
                self._interrupted_at_s = self._interrupted_at_s or now_s
            yield SignalHeard(self._source.read(signum))
        if self._plan.foresee is not None:
            told = self._plan.foresee(self._membership.standing(), self._clock.monotonic_s())
            if told is not None:
                yield SignalHeard(told)

    def _feed(self, inputs: Iterable[Input]) -> None:
        """Tell the machine each input, and what follows from it at once, until it has gone."""
        pending = self._performer.pending
        pending.extend(inputs)
        while pending and not self._is_gone():
            given = pending.popleft()
            self._chronicle.told(self._agent.phase, given)
            step = machine.step(self._agent, given, self._clock.monotonic_s())
            self._agent = step.agent
            for action in step.actions:
                self._chronicle.begins(action, self._membership.standing())
                self._performer.perform(action)
                self._chronicle.done(action, self._performer.round)

    def _wait(self) -> None:
        now_s = self._clock.monotonic_s()
        look_s = self._plan.monitor_interval_s
        local = self._performer.round
        if self._agent.phase is Phase.JOINING:
            self._waiting.go_on(self._membership.standing().waiting_for, now_s)
            look_s = _JOINING_LOOK_S
        else:
            self._waiting.over()
        if local is not None:
            look_s = min(look_s, local.look_within_s())
        if self._performer.is_checking:
            look_s = _CHECKING_LOOK_S
        due_s = self._agent.next_due_s()
        if due_s is not None:
            look_s = min(look_s, max(0.0, due_s - now_s))
        select.select([self._mailbox.fileno(), self._membership.fileno()], [], [], look_s)
