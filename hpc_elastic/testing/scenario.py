"""Scenario scripts: what happens to a run, and what an operator sees of it.

A script is a list of blocks, each with commands, a line `----`, and what they are to show:

    # A spare takes the seat of a node that goes silent.
    nodes a b c  min=2 max=2 last_call=1s
    start a b c
    advance 3s
    show
    ----
    round 1 started  members a b
    c waits: round 1 is running; a place in the next one

Commands: `nodes NAMES RULES`, `start NAMES`, `advance 3s`, `done NAMES`, `fail NAME step=7 ran=3s says=Oops`,
`crash NAMES`, `pause NAME 20s`, `notice NAME scope=run left=30s`, `requeue [NAMES]`, `close NAME`, `show`,
`story`. With `guests=1` the last of the nodes is that of a job which joins the run of the others.
A second agent on node a is called a2. Errors are shown like anything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.record import Attempt, Closed, End, Reason, Round, Scope, Settled, Verdict
from hpc_elastic.rendezvous.seen import CloseWish
from hpc_elastic.rendezvous.standing import Settings
from hpc_elastic.testing.simulated_agent import SimulatedAgent
from hpc_elastic.testing.simulated_job import Element
from hpc_elastic.testing.simulated_setting import Habits, Setting
from hpc_elastic.testing.simulation import Simulation

_RULES = {
    "min": "min_nodes",
    "max": "max_nodes",
    "expected": "expected_nodes",
    "restarts": "max_restarts",
    "backoff": "restart_backoff_s",
    "same_failures": "same_failures",
    "node_failures": "node_failures",
    "last_call": "last_call_s",
    "join_window": "join_window_s",
    "join_timeout": "join_timeout_s",
    "heartbeat": "heartbeat_s",
}
_NODE = re.compile(r"\b\d+-[a-z]+-[0-9a-f]+\b")
_WRITER = re.compile(r", by \w+")  # whoever came first; it does not matter
_QUIET = Habits(work_s=1e9, stop_s=1.0, save_s=2.0, steps_per_s=0.0, infection=0.0)


def play(text: str) -> str:
    """The script with what its commands really show."""
    scenario = Scenario()
    return "\n\n".join(_with_output(block, scenario) for block in blocks(text)) + "\n"


def rewrite(path: Path) -> None:
    """Put into a script what its commands show now."""
    path.write_text(play(path.read_text(encoding="utf-8")), encoding="utf-8")


def blocks(text: str) -> Iterator[str]:
    """The commands of each block; what they showed is left out."""
    for block in re.split(r"\n\n+(?=\S)", text.strip()):
        commands, _, _ = block.partition("\n----")
        yield commands


def _with_output(commands: str, scenario: Scenario) -> str:
    shown = [line for command in commands.splitlines() for line in scenario.perform(command)]
    return "\n".join([commands, "----", *shown]) if shown else commands


class Scenario:
    """One script's run. It has no chance but that of one seed, and no faults but those it is told."""

    def __init__(self) -> None:
        self._sim = Simulation(Setting(1, Settings(1, 1, 1)), Random(1))
        self._names: dict[str, str] = {}
        self._agents: dict[str, SimulatedAgent] = {}
        self._attempts: dict[int, Attempt] = {}
        self._told = 0

    def perform(self, line: str) -> list[str]:
        """Carry out one command; what it shows. A broken promise is shown at once."""
        words = line.partition("#")[0].split()
        if not words:
            return []
        act: Callable[[list[str]], list[str]] | None = getattr(self, f"_on_{words[0]}", None)
        if act is None:
            return [f"error: {words[0]!r} is no command"]
        try:
            shown = act(words[1:])
        except (KeyError, ValueError, IndexError) as bad:
            shown = [f"error: {line.strip()}: {bad}"]
        broken, self._sim.broken = self._sim.broken, []
        return [*shown, *(f"broken: {self._short(what)}" for what in broken)]

    def _on_nodes(self, words: list[str]) -> list[str]:
        names = tuple(word for word in words if "=" not in word and word != "pool")
        plain = {"min": "1", "max": str(len(names)), "expected": str(len(names))}
        given = plain | dict(word.split("=") for word in words if "=" in word)
        guests = int(given.pop("guests", "0"))  # the last ones are of jobs that have joined
        rules = {_RULES[name]: _number(value) for name, value in given.items()}
        whole = {
            "min_nodes",
            "max_nodes",
            "expected_nodes",
            "max_restarts",
            "same_failures",
            "node_failures",
        }
        values = {name: int(value) if name in whole else value for name, value in rules.items()}
        settings = Settings(**values, pool="pool" in words, allow_loopback=True)  # type: ignore[arg-type]
        own = len(names) - guests
        setting = Setting(own, settings, names=names, guests=guests, habits=_QUIET, starts_within_s=0.0)
        self._sim = Simulation(replace(setting, trouble_s=1e9), Random(1))
        return []

    def _on_start(self, words: list[str]) -> list[str]:
        for name in words:
            index = self._sim.setting.names.index(name)
            job = self._job_of(name)
            if job.number not in self._attempts:
                self._open(job.number)
            agent = self._sim.seat(self._attempts[job.number], job, index)
            count = sum(1 for known in self._agents if known.rstrip("0123456789") == name)
            label = name if count == 0 else f"{name}{count + 1}"
            self._agents[label], self._names[agent.node] = agent, label
            self._sim.advance_to(self._sim.now_s + 0.01)
        return []

    def _open(self, element: int) -> None:
        job = self._sim.job.elements[element]
        job.starts += 1
        job.attempt = self._attempts[element] = self._sim.open_attempt(job)
        job.is_waiting = True  # nothing starts but by a command

    def _on_advance(self, words: list[str]) -> list[str]:
        self._sim.advance_to(self._sim.now_s + _number(words[0]))
        return []

    def _on_done(self, words: list[str]) -> list[str]:
        for agent in map(self._agents.__getitem__, words):
            agent.wish = replace(agent.wish, done=self._round_of(agent))
        return []

    def _on_fail(self, words: list[str]) -> list[str]:
        """With `step=N`, or after `ran=3s`; `says=WORD` is what it failed with."""
        agent = self._agents[words[0]]
        given = dict(word.split("=") for word in words[1:])
        step, ran_s = int(given.get("step", "-1")), _number(given.get("ran", "-1s"))
        agent.fail(self._round_of(agent), message=given.get("says", ""), step=step, ran_s=ran_s)
        return []

    def _on_crash(self, words: list[str]) -> list[str]:
        for agent in map(self._agents.__getitem__, words):
            self._sim.kill(agent, "crashes")
        return []

    def _on_pause(self, words: list[str]) -> list[str]:
        self._sim.pause(self._agents[words[0]], _number(words[1]))
        return []

    def _on_notice(self, words: list[str]) -> list[str]:
        given = dict(word.split("=") for word in words[1:])
        scope, left_s = Scope(given.get("scope", "run")), _number(given.get("left", "30s"))
        self._agents[words[0]].announce(Reason.PREEMPTED, scope, left_s, self._sim.now_s)
        return []

    def _on_requeue(self, words: list[str]) -> list[str]:
        """The job, or those of these nodes, start anew; agents still there are left alone."""
        for job in [self._job_of(name) for name in words] or self._sim.job.elements[:1]:
            self._open(job.number)
        return []

    def _job_of(self, name: str) -> Element:
        index = self._sim.setting.names.index(name)
        return next(one for one in self._sim.job.elements if index in one.seats)

    def _on_close(self, words: list[str]) -> list[str]:
        agent = self._agents[words[0]]
        agent.wish = replace(agent.wish, close=CloseWish(82, "no progress"))
        return []

    def _on_story(self, _: list[str]) -> list[str]:
        """What has been recorded since the story was told last."""
        new, self._told = self._sim.story[self._told :], len(self._sim.story)
        lines = [line.partition("  ")[2].strip() for line in (one.lstrip() for one in new)]
        records = (line for line in lines if line.startswith(("rounds/", "attempts/")))
        return [_WRITER.sub("", self._short(line)).rstrip(": ") for line in records]

    def _on_show(self, _: list[str]) -> list[str]:
        ledger = self._sim.backend.ledger
        numbers = [one.number for one in ledger.values() if isinstance(one, Round | Closed)]
        newest = ledger.get(keys.round_key(max(numbers, default=0)))
        shown = ["no round yet"] if newest is None else []
        if isinstance(newest, Closed):
            how = "done" if newest.succeeded else f"exit code {newest.exit_code}"
            shown = [f"run closed: {how}, {newest.message}"]
        elif isinstance(newest, Round):
            shown = [self._round_line(newest)]
        shown += [f"{label} {self._state_of(agent)}" for label, agent in self._agents.items()]
        return [self._short(line) for line in shown if not line.endswith(" is in it")]

    def _round_line(self, proposal: Round) -> str:
        ledger, number = self._sim.backend.ledger, proposal.number
        verdict, end = ledger.get(keys.verdict_key(number)), ledger.get(keys.end_key(number))
        settled = ledger.get(keys.settled_key(number))
        state = "proposed"
        if isinstance(verdict, Verdict):
            state = "started" if verdict.started else f"abandoned ({verdict.why})"
        if isinstance(end, End):
            state = f"ended: {end.cause.value}"
        if isinstance(settled, Settled):
            state = f"settled: {settled.cause.value}"
        members = " ".join(member.node for member in proposal.members)
        spent = f"  failures {proposal.failures}" if proposal.failures else ""
        without = f"  without {' '.join(proposal.left_out)}" if proposal.left_out else ""
        return f"round {number} {state}  members {members}{spent}{without}"

    def _state_of(self, agent: SimulatedAgent) -> str:
        standing = agent.driver.standing
        if agent.crashed_at_s is not None:
            return "has crashed"
        if agent.is_gone or agent.wish.leave is not None:
            outcome = agent.wish.leave.outcome.value if agent.wish.leave else "?"
            return f"has left: {outcome}{f', {standing.error}' if standing.error else ''}"
        if agent.paused_until_s > self._sim.now_s:
            return "stands still"
        if standing.waiting_for:
            return f"waits: {standing.waiting_for}"
        if agent.present_round() is not None:
            return "is in it"
        return "stops its workers" if standing.end is not None else "has confirmed"

    def _round_of(self, agent: SimulatedAgent) -> int:
        number = agent.present_round()
        if number is None:
            raise ValueError("it is in no round")
        return number

    def _short(self, text: str) -> str:
        return _NODE.sub(lambda found: self._names.get(found.group(), found.group()), text)


def _number(text: str) -> float:
    return float(text.removesuffix("s"))
