"""Signals to agents at random, and the whole grace of a minute: no orphan, one report, the right status.

    python -m benchmarks.signals [--trials 200] [--seed 1] [--grace 60] [--write]

Each trial sends an agent 1, 2, 3 or 20 signals at random moments; its worker saves, ends, fails or hears
nothing. A trial is the same for the same seed. Beside them a worker that saves for three quarters of the
grace, which has to be left alone, and one that ignores everything, which has to be killed and reported within
it (`--grace 0`: without these two). Ends with status 1 when something went wrong, and says with which seed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks import measured
from hpc_elastic.status import snapshot
from tests.integration.agent import signal_trials
from tests.integration.agent.agents import Agents, agents_in
from tests.integration.agent.signal_trials import DEAF, SAVER, Trial

_SAVING_SHARE: Final = 0.75


@dataclass(frozen=True)
class Grace:
    """What became of two workers whose agents were told to end within `grace_s`."""

    grace_s: float
    saver_status: int
    saver_has_saved: bool
    saver_s: float
    deaf_status: int
    deaf_s: float
    deaf_report: str

    def faults(self) -> list[str]:
        """What is not as promised."""
        found = []
        if (self.saver_status, self.saver_has_saved) != (80, True):
            found.append(f"a save of {_SAVING_SHARE:.0%} of the grace ended with {self.saver_status}")
        if self.deaf_status != 81 or not self.deaf_report:
            found.append(f"a deaf worker ended its agent with {self.deaf_status} ({self.deaf_report!r})")
        if self.deaf_s > self.grace_s:
            found.append(f"a deaf worker was reported after {self.deaf_s:.1f} s of {self.grace_s:g}")
        return found


def grace(folder: Path, grace_s: float) -> Grace:
    """Both at once."""
    for name in ("saver", "deaf"):
        (folder / name).mkdir()
    with agents_in(folder / "saver") as saver, agents_in(folder / "deaf") as deaf:
        option = ("--shutdown-timeout", str(grace_s))
        saver.start(0, *option, saver.script(SAVER), str(_SAVING_SHARE * grace_s))
        deaf.start(0, *option, deaf.script(DEAF))
        for agents in (saver, deaf):
            agents.wait_for_line("started", 0, 1)
        ends = [_Ending(agents) for agents in (saver, deaf)]
        for end in ends:
            end.join()
        (left,) = snapshot.read(deaf.run_dir).presences
        return Grace(
            grace_s,
            saver_status=saver.status("n0"),
            saver_has_saved=(saver.run_dir / "checkpoints" / "whole").exists(),
            saver_s=ends[0].took_s,
            deaf_status=deaf.status("n0"),
            deaf_s=ends[1].took_s,
            deaf_report=left.reason,
        )


class _Ending(threading.Thread):
    """Tells an agent to end, and waits for it."""

    def __init__(self, agents: Agents) -> None:
        super().__init__()
        self.took_s = 0.0
        self._agents = agents
        self.start()

    def run(self) -> None:
        began_s = time.monotonic()
        self._agents.signal("n0", signal.SIGTERM)
        self._agents.processes["n0"].wait()
        self.took_s = round(time.monotonic() - began_s, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    parser.add_argument("--grace", type=float, default=60.0, help="seconds; 0: without these")
    parser.add_argument("--write", action="store_true", help="keep the result in docs/measured/signals.json")
    options = parser.parse_args()

    trials = [Trial.of(seed) for seed in range(options.seed, options.seed + options.trials)]
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="signals-") as scratch:
        found = grace(Path(scratch), options.grace) if options.grace else None
        wrong = signal_trials.run(trials, Path(scratch))
    took_s = round(time.monotonic() - began_s, 1)
    wrong += found.faults() if found else []
    sent = sum(len(trial.signals) for trial in trials)
    print(f"{len(trials)} trials with {sent} signals in {took_s} s, {len(wrong)} faults; {found}")
    for sentence in wrong:
        print(sentence)
    if options.write:
        result = {
            "what": "agents that get signals at random moments, each with one worker; what did not end right",
            "trials": len(trials),
            "first_seed": options.seed,
            "signals": sent,
            "seconds": took_s,
            "faults": wrong,
            "grace": asdict(found) if found else None,
        }
        print(f"written to {measured.write('signals', result)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
