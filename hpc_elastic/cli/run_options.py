"""What `hpc-elastic run` was asked for: its options, each checked by itself; read by `requeue` too."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_elastic.cli import option_values, run_arguments, run_binding, run_output, run_watching
from hpc_elastic.cli.parser import CommandParser
from hpc_elastic.cli.run_binding import BindingOptions
from hpc_elastic.cli.run_output import OutputOptions
from hpc_elastic.errors import UsageError
from hpc_elastic.values import dataclass

if TYPE_CHECKING:
    from hpc_elastic.agent.health import HealthCommand
    from hpc_elastic.agent.overdue import Limits


@dataclass(frozen=True)
class RunOptions:
    """The options as given, each checked by itself. None means not given."""

    command: tuple[str, ...]
    is_module: bool
    is_program: bool
    nnodes: tuple[int, int] | None
    nproc_per_node: str
    is_standalone: bool
    is_pool: bool
    pool_id: str
    is_guest: bool
    node_rank: int | None
    role: str
    max_restarts: int
    restart_backoff_s: float
    same_failures: int
    node_failures: int
    exclude_bad_nodes: int
    monitor_interval_s: float
    shutdown_timeout_s: float
    notice_signals: tuple[int, ...]
    rdzv_id: str | None
    run_dir: str | None
    rdzv_backend: str
    rdzv_endpoint: str
    conf: Mapping[str, float]
    etcd_settings: Mapping[str, str]
    local_addr: str
    master_addr: str
    master_port: int
    output: OutputOptions
    binding: BindingOptions
    keeps_slurm_env: bool
    limits: Limits | None
    health: HealthCommand | None


def parse(line: Sequence[str]) -> RunOptions:
    """The options in the words of a command line, its SCRIPT included. Raises `UsageError`."""
    parser = CommandParser(prog="hpc-elastic run")
    run_arguments.add_arguments(parser)
    return from_args(parser.parse_args(list(line)))


def run_directory(line: Sequence[str], env: Mapping[str, str]) -> Path:
    """Where `run` with these words keeps its run, in this environment. Nothing is created."""
    from hpc_elastic.cli.run_start import locate

    return locate(parse(line), env).run_dir


def from_args(args: argparse.Namespace) -> RunOptions:
    """The options that argparse has read, each checked. Raises `UsageError`."""
    if not args.command:
        raise UsageError("no script given; usage: hpc-elastic run [options] SCRIPT [ARGS...]")
    if args.module and args.no_python:
        raise UsageError("-m and --no-python exclude each other; drop one")
    return RunOptions(
        command=tuple(args.command),
        is_module=args.module,
        is_program=args.no_python and not args.run_path,
        nnodes=None if args.nnodes is None else option_values.nodes(args.nnodes),
        nproc_per_node=args.nproc_per_node,
        is_standalone=args.standalone,
        is_pool=args.pool and not args.guest,
        pool_id=args.pool_id or "",
        is_guest=args.guest,
        node_rank=_node_rank(args.node_rank),
        role=option_values.name(args.role, "--role"),
        max_restarts=option_values.at_least(args.max_restarts, 0, "--max-restarts"),
        restart_backoff_s=option_values.not_negative(args.restart_backoff, "--restart-backoff"),
        same_failures=option_values.at_least(args.same_failures, 0, "--same-failures"),
        node_failures=option_values.at_least(args.node_failures, 0, "--node-failures"),
        exclude_bad_nodes=option_values.at_least(args.exclude_bad_nodes, 0, "--exclude-bad-nodes"),
        monitor_interval_s=option_values.positive(args.monitor_interval, "--monitor-interval"),
        shutdown_timeout_s=option_values.positive(args.shutdown_timeout, "--shutdown-timeout"),
        notice_signals=option_values.signals(args.notice_signal),
        rdzv_id=args.rdzv_id,
        run_dir=args.run_dir,
        rdzv_backend=args.rdzv_backend,
        rdzv_endpoint=args.rdzv_endpoint,
        conf=option_values.conf(args.rdzv_conf),
        etcd_settings=option_values.etcd_settings(args.rdzv_conf),
        local_addr=option_values.address(args.local_addr, "--local-addr"),
        master_addr=option_values.address(args.master_addr, "--master-addr"),
        master_port=option_values.port(args.master_port),
        output=run_output.options_of(args),
        binding=run_binding.options_of(args),
        keeps_slurm_env=args.keep_slurm_env,
        limits=run_watching.limits(args),
        health=run_watching.health(args),
    )


def _node_rank(given: int | None) -> int | None:
    return None if given is None else option_values.at_least(given, 0, "--node-rank")
