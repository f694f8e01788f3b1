"""What is measured of agents: restarts, a node that joins or is lost, the end, a crowd, idleness."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from benchmarks.launched import Launched, Launcher, Told, launched, until

_BETWEEN_S: Final = 0.5  # until what a start leaves to do is over
_RESTART_PATIENCE_S: Final = 120.0
_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Restarts:
    """The restarts of `nodes` agents, each from a worker's exit with 1.

    `own_s`: until the replacement's first line; `all_s`: until the first line of the last rank. `stop_s`: in
    the end, from SIGTERM until nothing is left.
    """

    nodes: int
    own_s: tuple[float, ...]
    all_s: tuple[float, ...]
    stop_s: float


@dataclass(frozen=True)
class Change:
    """Seconds until all ranks of the new world have begun; None where that did not happen in `bound_s`."""

    join_s: float | None
    loss_s: float | None
    bound_s: float


@dataclass(frozen=True)
class Idle:
    """One agent with whatever it keeps beside its worker: share of a core, and memory in MiB."""

    seconds: float
    core_share: float
    pss_mib: float
    rss_mib: float


def restarts(launcher: Launcher, folder: Path, nodes: int, repetitions: int) -> Restarts:
    """A run of `nodes` agents whose workers fail one after the other, each of another rank."""
    own_s, all_s = [], []
    with launched(launcher, folder, str(nodes), nodes) as run:
        ranks = _began(run, nodes)
        for repetition in range(repetitions):
            time.sleep(_BETWEEN_S)
            failed = _fail(run, ranks, repetition % nodes)
            ranks = _of_world(run, nodes, failed.at_s)
            own_s.append(next(one.at_s for one in ranks if one.rank == failed.rank) - failed.at_s)
            all_s.append(max(one.at_s for one in ranks) - failed.at_s)
        time.sleep(_BETWEEN_S)
        stop_s = _stop(run)
    return Restarts(nodes, _rounded(own_s), _rounded(all_s), round(stop_s, 3))


def membership(launcher: Launcher, folder: Path, bound_s: float, *, is_killed: bool = True) -> Change:
    """Two agents of two to three: a third is started, then killed together with its worker, or stopped."""
    with launched(launcher, folder, "2:3", 2) as run:
        _began(run, 2)
        time.sleep(_BETWEEN_S)
        began_s = time.monotonic()
        run.start(2)
        joined = run.wait_for_world(3, began_s, bound_s)
        if joined is None:
            return Change(None, None, bound_s)
        time.sleep(_BETWEEN_S)
        lost_s = time.monotonic()
        for pid in (run.agents[2].pid, *run.family(2)) if is_killed else (run.agents[2].pid,):
            os.kill(pid, signal.SIGKILL if is_killed else signal.SIGSTOP)
        left = run.wait_for_world(2, lost_s, bound_s)
        return Change(_since(joined, began_s), _since(left, lost_s), bound_s)


def crowd(launcher: Launcher, folder: Path, nodes: int) -> float:
    """Seconds from launching `nodes` agents at once until the workers of all have begun."""
    with launched(launcher, folder, str(nodes), nodes) as run:
        began_s = time.monotonic()
        found = _since(_began(run, nodes), began_s)
        assert found is not None
        return found


def idle(launchers: Sequence[Launcher], folder: Path, seconds: float) -> dict[str, list[Idle]]:
    """Two agents of each launcher, all at once: that they share the machine changes no processor time."""
    with ExitStack() as stack:
        runs = [stack.enter_context(launched(one, folder / one.name, "2", 2)) for one in launchers]
        for run in runs:
            _began(run, 2)
        time.sleep(_BETWEEN_S)
        kept = {run.launcher.name: [_kept_by(run, index) for index in run.agents] for run in runs}
        before = {name: [_cpu_s(pids) for pids in agents] for name, agents in kept.items()}
        time.sleep(seconds)
        return {
            name: [
                Idle(
                    seconds,
                    round((_cpu_s(pids) - spent_s) / seconds, 5),
                    _mib(pids, "Pss:"),
                    _mib(pids, "Rss:"),
                )
                for pids, spent_s in zip(agents, before[name], strict=True)
            ]
            for name, agents in kept.items()
        }


def _kept_by(run: Launched, index: int) -> list[int]:
    """The processes of one agent without its workers."""
    workers = {one.pid for one in run.told()}
    return [run.agents[index].pid, *(pid for pid in run.family(index) if pid not in workers)]


def _began(run: Launched, nodes: int) -> list[Told]:
    began_s = time.monotonic()
    for index in range(nodes):
        run.start(index)
    return _of_world(run, nodes, began_s)


def _of_world(run: Launched, nodes: int, since_s: float) -> list[Told]:
    found = run.wait_for_world(nodes, since_s)
    if found is None:
        raise RuntimeError(f"{nodes} agents of {run.launcher.name} ran no worker: {run.log(0)[-2000:]}")
    return found


def _fail(run: Launched, ranks: Sequence[Told], rank: int) -> Told:
    victim = next(one for one in ranks if one.rank == rank)
    (run.folder / f"fail-{victim.pid}").touch()

    def said() -> Told | None:
        return next((one for one in run.told() if (one.what, one.pid) == ("fails", victim.pid)), None)

    failed = until(said, _RESTART_PATIENCE_S)
    if failed is None:
        raise RuntimeError(f"the worker of rank {rank} does not fail when it is told to")
    return cast("Told", failed)


def _stop(run: Launched) -> float:
    began_s = time.monotonic()
    for agent in run.agents.values():
        agent.send_signal(signal.SIGTERM)
    for agent in run.agents.values():
        agent.wait()
    if until(lambda: not run.pids() or None, _RESTART_PATIENCE_S) is None:
        raise RuntimeError(f"{run.launcher.name} left {run.pids()} behind")
    return time.monotonic() - began_s


def _since(found: Sequence[Told] | None, began_s: float) -> float | None:
    return None if found is None else round(max(one.at_s for one in found) - began_s, 3)


def _rounded(times_s: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(one, 4) for one in times_s)


def _cpu_s(pids: Sequence[int]) -> float:
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(words[11]) + int(words[12]) for words in stats) / _CLOCK_TICKS


def _mib(pids: Sequence[int], name: str) -> float:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return round(sum(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024, 1)
