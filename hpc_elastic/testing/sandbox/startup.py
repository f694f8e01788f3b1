"""From nothing to a Slurm whose nodes are all idle, or back to nothing."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Mapping
from typing import Final

from hpc_elastic.errors import SandboxError
from hpc_elastic.testing.sandbox import (
    account,
    accounting,
    configuration,
    daemons,
    directory,
    evidence,
    packages,
    ports,
    processes,
)
from hpc_elastic.testing.sandbox.account import Account
from hpc_elastic.testing.sandbox.configuration import LOW_PARTITION, Ports, Site
from hpc_elastic.testing.sandbox.daemons import Launcher
from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.ports import PortTaken
from hpc_elastic.testing.sandbox.state import SandboxState

_ATTEMPTS: Final = 3
_MOST_MEMORY_MB: Final = 4_000_000
_ANSWER_TIMEOUT_S: Final = 30.0


def bring_up(layout: Layout, options: SandboxOptions, environ: Mapping[str, str]) -> SandboxState:
    """Start everything; on any failure, nothing is left and the error says why."""
    options.check()
    refuse_without_root("up")
    if missing := packages.missing_programs(accounting=options.accounting):
        raise SandboxError(packages.describe_missing(missing))
    user = account.choose(options.user, layout, environ)
    directory.check(layout, user)
    directory.make(layout)
    with directory.claimed(layout):
        if evidence.daemons_of(layout):
            raise SandboxError(
                f"the sandbox in {layout.directory} is up; use it, or end it with "
                f"`hpc-elastic sandbox down --dir {layout.directory}`"
            )
        try:
            return _start_with_retries(layout, options, user)
        except BaseException:
            tear_down(layout)
            raise


def tear_down(layout: Layout) -> int:
    """Kill every process and remove every file; returns how many processes there were."""
    killed = processes.kill_all(lambda: evidence.of_sandbox(layout))
    directory.remove(layout)
    return killed


def refuse_without_root(command: str) -> None:
    """Raise `SandboxError` unless we are root."""
    if os.geteuid() != 0:
        raise SandboxError(
            f"not root (user id {os.geteuid()}): `sandbox {command}` deals with slurmd, which starts jobs "
            f"as their owners; use `sudo hpc-elastic sandbox {command}`"
        )


def nodes_in_state(layout: Layout) -> dict[str, str]:
    """Each node's state as sinfo prints it (`idle`, `alloc`, `down*`); empty while nobody answers."""
    try:
        done = subprocess.run(
            [packages.program("sinfo"), "-h", "-N", "-p", LOW_PARTITION, "-o", "%N %t"],
            env={"PATH": packages.SEARCH_PATH, "SLURM_CONF": str(layout.slurm_conf)},
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return {}
    lines = (line.split() for line in done.stdout.splitlines() if done.returncode == 0)
    return {fields[0]: fields[1] for fields in lines if len(fields) == 2}


def _start_with_retries(layout: Layout, options: SandboxOptions, user: Account) -> SandboxState:
    for _ in range(_ATTEMPTS - 1):
        try:
            return _start(layout, options, user)
        except PortTaken:
            if options.port is not None:
                raise
            # Somebody else was quicker between our look at the port and the daemon's bind.
    return _start(layout, options, user)


def _start(layout: Layout, options: SandboxOptions, user: Account) -> SandboxState:
    # An `up` that was killed, or the attempt before this one, may have left something.
    processes.kill_all(lambda: evidence.of_sandbox(layout))
    directory.clear(layout)
    site = _site(layout, options)
    launcher = Launcher(
        layout,
        SandboxState(site.cluster, user.name, options, site.ports.controller, site.ports.nodes),
    )
    launcher.record(launcher.state)
    _write_files(site, user)
    daemons.start_munge(launcher)
    if options.accounting:
        accounting.start(launcher, site)
    daemons.start_slurmctld(launcher)
    for node in options.node_names:
        daemons.start_slurmd(launcher, node)
    launcher.wait(lambda: _all_idle(layout, options), what="all nodes idle")
    launcher.record(launcher.state.brought_up())
    return launcher.state


def _site(layout: Layout, options: SandboxOptions) -> Site:
    count = options.ports_needed
    if options.port is not None:
        row = ports.fixed_row(options.port, count)
    else:
        row = ports.choose_row(count, draw=secrets.randbelow)
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return Site(
        layout=layout,
        options=options,
        ports=Ports.from_row(row, options),
        # Job numbers begin at 1 in every sandbox; the name tells their runs apart.
        cluster=f"sandbox_{secrets.token_hex(3)}",
        memory_mb=min(memory_mb, _MOST_MEMORY_MB),
        keeps_to_loopback=ports.name_is_loopback(socket.gethostname()),
    )


def _write_files(site: Site, user: Account) -> None:
    layout = site.layout
    for folder, mode in (
        (layout.munge, 0o755),
        (layout.log, 0o755),
        (layout.run, 0o755),
        (layout.controller_state, 0o700),
        (layout.spool, 0o755),
        (layout.home, 0o755),
        (layout.work, 0o755),
        *((layout.spool / node, 0o755) for node in site.options.node_names),
    ):
        folder.mkdir()
        folder.chmod(mode)
    os.chown(layout.home, user.uid, user.gid)
    os.chown(layout.work, user.uid, user.gid)
    layout.slurm_conf.write_text(configuration.slurm_conf(site))
    layout.slurm_conf.chmod(0o644)
    layout.task_prolog.write_text(configuration.task_prolog(layout))
    layout.task_prolog.chmod(0o755)


def _all_idle(layout: Layout, options: SandboxOptions) -> bool:
    states = nodes_in_state(layout)
    return set(states) == set(options.node_names) and set(states.values()) == {"idle"}


def restart_node(launcher: Launcher, node: str, port: int, *, timeout_s: float) -> None:
    """Start one node's slurmd and wait until it listens and the controller has it back."""
    daemons.start_slurmd(launcher, node)
    launcher.wait(
        lambda: daemons.listens(port) and _is_back(nodes_in_state(launcher.layout).get(node, "unk*")),
        what=f"node {node} back",
        timeout_s=timeout_s,
    )


def _is_back(node_state: str) -> bool:
    # sinfo(1): `*` marks a node that does not answer.
    return not node_state.endswith("*") and not node_state.startswith(("down", "unk", "drain"))
