"""Three runs of `submit` that have all the trouble there is, and clients that look at them all the time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hpc_elastic.slurm import nodelist
from hpc_elastic.status import snapshot
from hpc_elastic.submission.states import JobState
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ROOT, a_sandbox
from tests.integration.slurm.takers import nodes_taken
from tests.waiting import wait_until

PROGRAM: Final = Path(__file__).with_name("submitter.py")
END_S: Final = 300.0
_PATIENCE_S: Final = 300.0


@dataclass
class Watched:
    """A run, and the clients that wait for its result."""

    sandbox: Sandbox
    run_dir: Path
    job_id: str = ""
    clients: list[subprocess.Popen[str]] = field(default_factory=list)

    def submit(self, **options: Any) -> None:
        """A function that goes on until `let_end`."""
        client = self._client("submit", json.dumps(options), "train", "1", "99")
        self.job_id = json.loads(client.communicate()[0])
        self.attach()

    def attach(self) -> None:
        """Another client begins to wait."""
        self.clients.append(self._client("keep_looking", str(self.record(len(self.clients)))))

    def asks(self, command: str, *words: str) -> Any:
        """What another client is told at once."""
        return json.loads(self._client(command, *words).communicate(timeout=END_S)[0])

    def _client(self, command: str, *words: str) -> subprocess.Popen[str]:
        user = self.sandbox.user
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), command, str(self.run_dir), *words],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.run_dir.parent,
            env=self.sandbox.environment() | {"PYTHONPATH": str(ROOT)},
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
        )

    def record(self, number: int) -> Path:
        return self.run_dir.parent / f"{self.run_dir.name}-{number}.states"

    def states(self) -> list[list[str]]:
        """What each client has seen so far, repetitions left out."""
        records = (self.record(number) for number in range(len(self.clients)))
        return [_changes(one.read_text().split()) if one.exists() else [] for one in records]

    def let_end(self) -> None:
        (self.run_dir / "may_end").touch()

    def wait_for_work(self, attempt: int, step: int = 0) -> None:
        """Return once rank 0 has made some steps in an attempt, at least up to `step`."""
        outputs = self.run_dir / "logs" / str(attempt)
        self.wait_until(
            lambda: any(
                int(found) >= step
                for path in outputs.glob("*/0.out")
                for found in re.findall(r"^step (\d+)$", path.read_text(), re.MULTILINE)
            ),
            f"step {step} of attempt {attempt}",
        )

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        try:
            wait_until(condition, _PATIENCE_S, what)
        except AssertionError as late:
            raise AssertionError(f"{late}; {self.states()}\n{self.story()}") from None

    def story(self) -> str:
        return "\n".join(path.read_text() for path in (self.run_dir / "submission").glob("slurm-*.out"))

    def has_no_false_end(self) -> None:
        """Whatever a client has seen before the last, none of it was an end."""
        final = {state.value for state in JobState if state.is_final}
        for states in self.states():
            assert final.isdisjoint(states[:-1]), states
            assert states[-1] not in final - {"COMPLETED"}, states

    def result(self) -> dict[str, Any]:
        """What the client that came last was given."""
        value: dict[str, Any] = json.loads(self.clients[-1].communicate(timeout=END_S)[0])
        return value


def _changes(states: list[str]) -> list[str]:
    return [state for before, state in zip(["", *states], states, strict=False) if state != before]


@contextmanager
def controller_away(sandbox: Sandbox) -> Iterator[None]:
    """The controller takes calls and answers none."""
    pid = int((sandbox.layout.run / "slurmctld.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def troubled_runs(away_s: float) -> Iterator[dict[str, Watched]]:
    """Three runs at once: one is preempted twice, between them without a controller for `away_s` seconds and
    with its client killed; one comes to its time limit; one loses a node. Without accounting."""
    # A controller that was away must not take nodes for dead that it could not hear.
    with a_sandbox(SandboxOptions(grace_s=20, slurmd_timeout_s=120)) as sandbox:
        folder = sandbox.user_directory()
        found = {name: Watched(sandbox, folder / name) for name in ("bereft", "taken", "limited")}
        try:
            # Each has its nodes for itself: the trouble of one is not to be another's.
            found["bereft"].submit(nodes="1:2", slurm={"time": 20, "exclusive": True})
            found["taken"].submit(nodes=1, slurm={"time": 20, "exclusive": True})
            # Slurm looks at limits twice a minute, ahead: its notice may come from 25 s after the start on.
            found["limited"].submit(nodes=1, slurm={"time": 1, "signal_delay_s": 5, "exclusive": True})
            _trouble(sandbox, away_s, **found)
            yield found
        finally:
            for client in (client for one in found.values() for client in one.clients):
                client.kill()
                client.communicate()


def _trouble(sandbox: Sandbox, away_s: float, *, taken: Watched, limited: Watched, bereft: Watched) -> None:
    bereft.wait_for_work(1, 5)
    # With the node may go the batch shell: then Slurm gives the job another, and it is a new attempt.
    lost = nodelist.expand(sandbox.job(bereft.job_id)["NodeList"])[-1]
    sandbox.kill_node(lost)
    taken.wait_for_work(1, 5)
    limited.wait_for_work(1, 5)
    sandbox.preempt(taken.job_id, seconds=2)
    taken.wait_for_work(2)
    taken.clients[0].kill()
    taken.attach()
    began_s = time.monotonic()
    with controller_away(sandbox):
        wait_until(lambda: time.monotonic() > began_s + away_s, away_s + 30, "it was away for long enough")
    wait_until(lambda: sandbox.run(["scontrol", "ping"]).returncode == 0, 120, "the controller answers")
    with nodes_taken(sandbox, taken.job_id):  # until then: nobody asks Slurm more often than twice a minute
        taken.wait_until(lambda: "REQUEUED" in taken.states()[-1], "its client sees that it waits")
    taken.wait_for_work(3)
    taken.let_end()
    bereft.wait_until(lambda: _goes_on_without(lost, bereft), f"it goes on without {lost}")
    bereft.let_end()
    limited.wait_for_work(2)
    limited.let_end()


def _goes_on_without(lost: str, run: Watched) -> bool:
    last = snapshot.read(run.run_dir).last_round
    return last is not None and lost not in {member.name for member in last.members}
