"""A private real Slurm on this machine, as an object."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import SandboxError, UsageError
from hpc_elastic.testing.sandbox import account, directory, evidence, jobs, processes, startup, state
from hpc_elastic.testing.sandbox.account import Account
from hpc_elastic.testing.sandbox.configuration import HIGH_PARTITION
from hpc_elastic.testing.sandbox.daemons import START_TIMEOUT_S, Launcher
from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.packages import program
from hpc_elastic.testing.sandbox.state import SandboxState

_CLIENT_TIMEOUT_S = 120.0


class Sandbox:
    """A Slurm that is up. Open one with `up` or `open`; `down` ends it and removes its directory."""

    def __init__(
        self, layout: Layout, found: SandboxState, user: Account, environ: Mapping[str, str]
    ) -> None:
        self.layout = layout
        self.options = found.options
        self.cluster = found.cluster
        self.node_ports = found.node_ports
        self.user = user
        self._environ = environ

    @classmethod
    def up(
        cls, where: Path, options: SandboxOptions | None = None, *, environ: Mapping[str, str] | None = None
    ) -> Sandbox:
        """Start one in a directory that is new or empty; all nodes are idle when this returns.

        Raises `SandboxError` or `UsageError`, and then nothing is left. `environ` is what commands
        inherit; by default this process's own environment.
        """
        layout = Layout(where.absolute().resolve())
        inherited = os.environ if environ is None else environ
        found = startup.bring_up(layout, options or SandboxOptions(), inherited)
        return cls(layout, found, account.of_name(found.user, layout), inherited)

    @classmethod
    def open(cls, where: Path, *, environ: Mapping[str, str] | None = None) -> Sandbox:
        """The sandbox that is up in a directory; raises `SandboxError` where none is."""
        layout = Layout(where.absolute().resolve())
        found = state.read(layout)
        if found is None:
            raise SandboxError(
                f"no sandbox is up in {layout.directory}; "
                f"start one with `hpc-elastic sandbox up --dir {layout.directory}`"
            )
        controller = found.process_of("slurmctld")
        if not found.is_up or controller is None or not processes.is_alive(controller):
            raise SandboxError(
                f"the sandbox in {layout.directory} did not come up, or its controller is gone; "
                f"clear it with `hpc-elastic sandbox down --dir {layout.directory}`"
            )
        inherited = os.environ if environ is None else environ
        return cls(layout, found, account.of_name(found.user, layout), inherited)

    def down(self) -> int:
        """Kill every process and remove every file; returns how many processes there were."""
        return bring_down(self.layout)

    @property
    def directory(self) -> Path:
        """Where it lives."""
        return self.layout.directory

    @property
    def nodes(self) -> tuple[str, ...]:
        """`n1`, `n2`, ... in order."""
        return self.options.node_names

    def environment(self) -> dict[str, str]:
        """What commands of the ordinary user see."""
        return account.environment(self._environ, self.layout, self.user)

    def node_states(self) -> dict[str, str]:
        """Each node's state as sinfo prints it, such as `idle`, `mix`, `down*`."""
        return startup.nodes_in_state(self.layout)

    def user_directory(self) -> Path:
        """A new empty directory that the ordinary user owns; `down` removes it."""
        made = Path(tempfile.mkdtemp(dir=self.layout.work))
        os.chown(made, self.user.uid, self.user.gid)
        return made

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = False,
        timeout_s: float = _CLIENT_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the ordinary user and wait for it; `cwd` is their home by default.

        `env` is added to `environment()`. With `check`, a status other than 0 is a `SandboxError`
        with what the command printed.
        """
        switch = os.geteuid() == 0
        done = subprocess.run(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",  # scontrol shows a job's command line, which may hold any bytes
            check=False,
            cwd=cwd or self.user.home,
            env=self.environment() | dict(env or {}),
            timeout=timeout_s,
            user=self.user.uid if switch else None,
            group=self.user.gid if switch else None,
            extra_groups=self.user.groups if switch else None,
        )
        if check and done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise SandboxError(f"{' '.join(done.args)} ended with status {done.returncode}: {said}")
        return done

    def sbatch(self, *argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
        """Submit a job as the ordinary user; returns its number."""
        done = self.run(["sbatch", "--parsable", *argv], cwd=cwd, env=env, check=True)
        return done.stdout.strip().partition(";")[0]

    def job(self, job_id: str | int) -> dict[str, str]:
        """The job record: fields of `scontrol show job`; of an array, its first line."""
        done = self.run(["scontrol", "show", "job", "-o", str(job_id)])
        if done.returncode != 0 or not done.stdout.strip():
            said = done.stderr.strip() or "no record"
            raise SandboxError(f"job {job_id}: {said}; see `hpc-elastic sandbox exec -- squeue`")
        return jobs.parse(done.stdout.splitlines()[0])

    def wait_for_state(
        self, job_id: str | int, states: str | Collection[str], *, timeout_s: float = 120.0
    ) -> dict[str, str]:
        """The job record as soon as JobState is one of `states`; `SandboxError` when time is up."""
        wanted = {states} if isinstance(states, str) else set(states)
        deadline_s = SYSTEM_CLOCK.monotonic_s() + timeout_s
        while (record := self.job(job_id))["JobState"] not in wanted:
            if SYSTEM_CLOCK.monotonic_s() > deadline_s:
                raise SandboxError(
                    f"job {job_id} is {record['JobState']} ({record.get('Reason', 'None')}) "
                    f"after {timeout_s:g} s; waited for {', '.join(sorted(wanted))}"
                )
            SYSTEM_CLOCK.sleep_s(0.1)
        return record

    def preempt(self, job_id: str | int, *, seconds: int = 5) -> str:
        """Take a running job's nodes by a job of higher priority that holds them for some seconds.

        Returns the number of that job. It waits until the victim's grace time is over, or until
        the victim has left.
        """
        victim = self.job(job_id)
        if victim["JobState"] != "RUNNING":
            raise SandboxError(f"job {job_id} is {victim['JobState']}, not RUNNING; it has no nodes to take")
        nodes = ["--nodes", victim["NumNodes"], "--nodelist", victim["NodeList"], "--exclusive"]
        where = ["--partition", HIGH_PARTITION, "--chdir", "/", "--output", "/dev/null"]
        done = subprocess.run(
            [
                program("sbatch"),
                "--parsable",
                "--job-name",
                "preempt",
                *nodes,
                *where,
                f"--wrap=exec sleep {seconds}",
            ],
            # As root where we are root: another user's job, as in real life.
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_CLIENT_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise SandboxError(f"cannot submit the preempting job: {done.stderr.strip()}")
        return done.stdout.strip().partition(";")[0]

    def kill_node(self, node: str | int) -> int:
        """SIGKILL a node's slurmd, its slurmstepds and all their tasks; returns how many processes.

        Slurm learns of it only after SlurmdTimeout, as with a machine that lost its power.
        """
        startup.refuse_without_root("kill-node")
        name = self._node_name(node)
        with directory.claimed(self.layout):
            killed = processes.kill_all(lambda: evidence.of_node(self.layout, name))
        if killed == 0:
            raise SandboxError(f"node {name} is not running; bring it back with `sandbox start-node {name}`")
        return killed

    def start_node(self, node: str | int, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a killed node again; Slurm has it back when this returns."""
        startup.refuse_without_root("start-node")
        name = self._node_name(node)
        with directory.claimed(self.layout):
            if evidence.slurmd_of(self.layout, name) is not None:
                raise SandboxError(f"node {name} is running; end it with `sandbox kill-node {name}`")
            found = state.read(self.layout)
            if found is None:
                raise SandboxError(f"the sandbox in {self.directory} has gone down meanwhile")
            port = self.node_ports[self.nodes.index(name)]
            startup.restart_node(Launcher(self.layout, found), name, port, timeout_s=timeout_s)

    def _node_name(self, node: str | int) -> str:
        name = f"n{node}" if str(node).isdigit() else str(node)
        if name not in self.nodes:
            raise UsageError(f"node {node}: this sandbox has {self.nodes[0]} to {self.nodes[-1]}")
        return name


def bring_down(layout: Layout) -> int:
    """End the sandbox in a directory, also one whose `up` was killed; returns how many processes.

    Raises `SandboxError` where there is no sandbox.
    """
    startup.refuse_without_root("down")
    if not layout.directory.is_dir() or not directory.holds_only_ours(layout):
        raise SandboxError(f"no sandbox in {layout.directory}; nothing to bring down")
    with directory.claimed(layout):
        return startup.tear_down(layout)
