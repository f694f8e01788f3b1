"""A job on the local cluster, from the submitter's side: start, look, cancel, preempt."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hpc_elastic.clock import Clock
from hpc_elastic.errors import SubmissionError, UsageError
from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.submission.states import JobState, Seen, Sight
from hpc_elastic.submission.supervisor_files import RUNNING, Plan, SupervisorState
from hpc_elastic.workers import tree

START_TIMEOUT_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.02
_LOG_LINES: Final = 20


def start(
    files: SubmissionFiles,
    plan: Plan,
    environment: Mapping[str, str],
    clock: Clock,
    *,
    timeout_s: float = START_TIMEOUT_S,
) -> None:
    """Start the supervisor and return once it has spoken; raises SubmissionError if it does not.

    Where this raises no supervisor is left. The shell in between ends at once, so the supervisor is
    nobody's child here: it neither dies with the submitter nor becomes its zombie.
    """
    plan.write(files)
    files.supervisor.unlink(missing_ok=True)
    log = files.folder / "supervisor.log"
    started = _launch(files, log, environment)
    try:
        _await_first_word(files, started, log, clock, timeout_s)
    except BaseException:
        if started is not None:
            tree.send(started, signal.SIGKILL)  # its agents end with it
        raise


def _launch(files: SubmissionFiles, log: Path, environment: Mapping[str, str]) -> tree.Process | None:
    """Start the supervisor; None where it has ended already."""
    command = (sys.executable, "-m", "hpc_elastic.submission.local", str(files.run_dir))
    shell = subprocess.run(
        ("sh", "-c", 'log=$1; shift; "$@" >>"$log" 2>&1 & echo $!', "sh", str(log), *command),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    return tree.look_at(int(shell.stdout))


def _await_first_word(
    files: SubmissionFiles, started: tree.Process | None, log: Path, clock: Clock, timeout_s: float
) -> None:
    deadline_s = clock.monotonic_s() + timeout_s
    while True:
        is_there = started is not None and _is_alive(started)  # looked at first: it speaks, then ends
        if SupervisorState.read(files) is not None:
            return
        if not is_there or clock.monotonic_s() > deadline_s:
            how = f"has not started in {timeout_s:g} s" if is_there else "ended while starting"
            last = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            said = f":\n{last}" if last else " is empty; is there room to write?"
            raise SubmissionError(f"the local supervisor {how}; {log}{said}")
        clock.sleep_s(_LOOK_EVERY_S)


def _is_alive(process: tree.Process) -> bool:
    now = tree.look_at(process.pid)
    return now is not None and now.is_alive and now.start_ticks == process.start_ticks


class LocalControl:
    """One supervisor, known by what it writes into the run directory."""

    def __init__(self, files: SubmissionFiles) -> None:
        self._files = files

    def look(self) -> Seen:
        """What the supervisor says of itself; where it died without a word, that."""
        said = SupervisorState.read(self._files)
        if said is None and not self._files.job.exists():
            # Agents that went on writing may have made the directory again, with nothing of this in it.
            return Seen(Sight.GONE, "removed", f"run directory {self._files.run_dir}", is_settled=True)
        if said is None:
            return Seen(Sight.GONE, "no supervisor", str(self._files.supervisor), is_settled=True)
        source = f"supervisor {said.pid} on {said.host}"
        if said.state != RUNNING:
            return Seen(Sight.ENDED, said.state, source, is_settled=True, detail=said.why)
        if said.host != socket.gethostname() or said.is_alive():
            return Seen(Sight.ACTIVE, said.state, source, detail=said.why)
        # It may have ended between the two looks.
        again = SupervisorState.read(self._files)
        if again is not None and again.state != RUNNING:
            return Seen(Sight.ENDED, again.state, source, is_settled=True, detail=again.why)
        return Seen(Sight.ENDED, JobState.FAILED.value, source, is_settled=True, detail="it was killed")

    def follow(self, *jobs: str) -> None:
        """Nothing to do: one supervisor starts every attempt."""

    def cancel(self) -> None:
        """End the job now; nothing happens where it has ended."""
        self._signal(signal.SIGTERM)

    def preempt(self) -> None:
        """Give all agents notice; they are started again when they have left."""
        self._signal(signal.SIGUSR2)

    def kill_node(self, node: int | str) -> None:
        """Kill the agent of a node, with which its workers end; raises UsageError where it does not run."""
        said = SupervisorState.read(self._files)
        agents = said.agents if said is not None and said.state == RUNNING else ()
        names = {f"local{index}": pid for index, pid in enumerate(agents)}
        pid = names.get(f"local{node}" if isinstance(node, int) else node)
        agent = tree.look_at(pid) if pid is not None else None
        # A number that is free again may be somebody else's by now.
        if said is None or agent is None or not agent.is_alive or agent.parent != said.pid:
            there = f"nodes are local0 to local{len(agents) - 1}" if agents else "no node runs"
            raise UsageError(f"kill_node({node!r}): that node does not run; {there}")
        tree.send(agent, signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        said = SupervisorState.read(self._files)
        if said is None or said.state != RUNNING:
            return
        here = socket.gethostname()
        if said.host != here:
            raise SubmissionError(f"the job runs on {said.host} and this is {here}; signal it from there")
        if not said.is_alive():
            return
        try:
            os.kill(said.pid, signum)
        except ProcessLookupError:
            return
        except PermissionError as denied:
            raise SubmissionError(f"the supervisor {said.pid} belongs to another user: {denied}") from denied
