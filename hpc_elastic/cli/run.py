"""`hpc-elastic run`: the agent of this node."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import Final

from hpc_elastic import events
from hpc_elastic.agent import devices, resources, voice
from hpc_elastic.agent.notices import TERMINATE_SIGNALS, Foresee, NoticeSource, PlainNoticeSource
from hpc_elastic.agent.plan import Plan
from hpc_elastic.agent.rundir import RunDirectory, check_logs
from hpc_elastic.agent.signals import Mailbox
from hpc_elastic.cli import modules, run_arguments, run_backend, run_options
from hpc_elastic.cli.parser import CommandParser
from hpc_elastic.cli.run_options import RunOptions
from hpc_elastic.cli.run_start import Start, resolve
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import UsageError, shown
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous.choice import Meeting, Wanted
from hpc_elastic.rendezvous.record import Scope
from hpc_elastic.rendezvous.standing import Standing
from hpc_elastic.values import dataclass, replace
from hpc_elastic.workers.line_writer import LineWriter
from hpc_elastic.workers.process import Kind, Program

_SCHEMA: Final = 1
_STDERR: Final = 2
_GIVEN_JOB: Final = "HPC_ELASTIC_JOB_ID"  # of whoever starts the agents, and starts them again
_LIMIT: Final = "HPC_ELASTIC_TIME_LIMIT"
_CONSOLE_S: Final = 2.0  # how long a console that takes nothing may hold up the end


@dataclass(frozen=True)
class Ending:
    """How an agent ended: its exit status, why in a sentence, and what it knew of the run by then."""

    status: int
    message: str
    standing: Standing


def add_arguments(parser: CommandParser) -> None:
    """torchrun's options by their names, and ours."""
    run_arguments.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Check everything, then take part until the run is over or this node has to leave."""
    options = run_options.from_args(args)
    # From here on no signal is lost: what arrives while we look around is heard once the loop runs.
    mailbox = Mailbox.open((*options.notice_signals, *TERMINATE_SIGNALS))
    environment = dict(os.environ)
    try:
        start = resolve(options, environment)
        plan = _plan(options, start, environment)
        wanted = run_backend.wanted(options, environment)
        if options.is_guest:
            from hpc_elastic.submission import guests

            guests.require_host(plan.directory.path)
        RunDirectory.prepare(plan.directory.path)
        _describe(plan, options, environment, getattr(args, "words", ()))
        source = _source(options, start, environment)
        if not args.json:
            return _take_part(plan, start, mailbox, source, wanted).status
        from hpc_elastic.cli import run_answer

        return run_answer.alone_on_stdout(plan, lambda: _take_part(plan, start, mailbox, source, wanted))
    finally:
        mailbox.close()


def _plan(options: RunOptions, start: Start, environment: Mapping[str, str]) -> Plan:
    if options.binding.virtual_local_rank:
        devices.own_device(environment, start.seat.slots - 1)  # refused before anything is started
    events.check(options.output.event_log_handler)
    return Plan(
        run_id=start.location.run_id,
        directory=RunDirectory.check(start.location.run_dir),
        program=program_of(options),
        seat=start.seat,
        settings=start.settings,
        environment=environment,
        console=options.output.console,
        cpus=resources.cpus(environment),
        monitor_interval_s=options.monitor_interval_s,
        keeps_slurm=options.keeps_slurm_env,
        master_address=options.master_addr,
        master_port=options.master_port,
        limits=options.limits,
        foresee=_foresee(options, start, environment),
        health=options.health,
        virtual_local_rank=options.binding.virtual_local_rank,
        splits_cpus=options.binding.splits_cpus,
        filters=options.output.filters,
        log_dir=_log_dir(options, start),
        event_log_handler=options.output.event_log_handler,
    )


def _log_dir(options: RunOptions, start: Start) -> Path | None:
    given = options.output.log_dir
    return None if given is None else check_logs(Path(given).absolute() / start.location.run_id)


def program_of(options: RunOptions) -> Program:
    """What workers run. Raises `UsageError` for a script or program that is not there."""
    target, *args = options.command
    if options.is_module:
        if not modules.is_there(target):
            raise UsageError(
                f"-m {shown(target)}: no such module (seen from {Path.cwd()} with {sys.executable}); give "
                "its name, run from the folder it is in, or install it in that Python"
            )
        return Program(Kind.MODULE, target, tuple(args))
    if options.is_program:
        if not _is_program(target):
            raise UsageError(
                f"--no-python {shown(target)}: no such program that you may run (seen from {Path.cwd()}); "
                "give its path, or leave --no-python out for a Python file"
            )
        return Program(Kind.COMMAND, target, tuple(args))
    if (fault := _fault_of(target)) is not None:
        move = "give a Python file, -m with a module, or --no-python with a program"
        if target.rpartition("/")[2].startswith("python"):
            move = f"leave {shown(target)} out: the agent itself starts the script by a Python"
        raise UsageError(
            f"script {shown(target) or '(an empty name)'} {fault} (seen from {Path.cwd()}); {move}"
        )
    return Program(Kind.SCRIPT, target, tuple(args))


def _fault_of(script: str) -> str | None:
    # Not by pathlib, which raises for a name that is longer than any file's.
    if not os.path.isfile(script):  # noqa: PTH113
        return "is a directory" if os.path.isdir(script or ".") else "does not exist"  # noqa: PTH112
    return None if os.access(script, os.R_OK) else "cannot be read by you"


def _is_program(name: str) -> bool:
    places = [name] if "/" in name else [f"{folder}/{name}" for folder in os.get_exec_path()]
    return any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places)  # noqa: PTH113


def _source(options: RunOptions, start: Start, environment: Mapping[str, str]) -> NoticeSource:
    # One element of a pool is taken away alone; of any other job all nodes are.
    scope = Scope.NODE if options.is_pool else Scope.RUN
    if start.job is None:
        return PlainNoticeSource(
            options.shutdown_timeout_s, notice_signals=options.notice_signals, scope=scope
        )
    from hpc_elastic.slurm.environment import grace_s
    from hpc_elastic.slurm.preemption import SlurmNoticeSource

    return SlurmNoticeSource(
        job_id=start.job.job_id,
        restart_count=start.job.restart_count,
        grace_s=grace_s(environment),
        shutdown_timeout_s=options.shutdown_timeout_s,
        notice_signals=options.notice_signals,
        scope=scope,
    )


def _foresee(options: RunOptions, start: Start, environment: Mapping[str, str]) -> Foresee | None:
    """An element of a pool leaves before its time limit; the batch shell has read that, if there is one."""
    limit = environment.get(_LIMIT, "")
    if not (options.is_pool and limit):
        return None
    from datetime import datetime

    from hpc_elastic.slurm import relay

    now, epoch_s = SYSTEM_CLOCK.monotonic_s(), datetime.fromisoformat(SYSTEM_CLOCK.utc_now()).timestamp()
    found = relay.of_limit(limit, epoch_s, now, start.settings.min_nodes)
    return None if found is None else found.look


def _describe(plan: Plan, options: RunOptions, environment: Mapping[str, str], words: Sequence[str]) -> None:
    """Leave `run.json` where no earlier start has; whoever comes second keeps the first's.

    By `line`, `cwd` and `python` another job can start agents for the same run.
    """
    body = {
        "schema": _SCHEMA,
        "run_id": plan.run_id,
        "name": environment.get("SLURM_JOB_NAME", ""),
        "command": list(options.command),
        "line": list(words),
        "cwd": str(Path.cwd()),
        "python": sys.executable,
        "max_restarts": plan.settings.max_restarts,
        "created_at": SYSTEM_CLOCK.utc_now(),
    }
    temporary = plan.directory.path / f".run.json.{plan.seat.name}.{os.getpid()}"
    with suppress(OSError):  # it is only for people
        temporary.write_text(json.dumps(body), encoding="utf-8")
        _name_first(temporary, plan.directory.description)
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def _name_first(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # no hard links here: of two that come at once the later one counts
        if not path.exists():
            temporary.replace(path)


def _may_go_on(code: int, environment: Mapping[str, str]) -> bool:
    """Whether it is for the one who typed the command to start a run again that has ended with `code`."""
    return code in (ExitCode.SAVED, ExitCode.UNSAVED) and not environment.get(_GIVEN_JOB)


def _open_meeting(plan: Plan, start: Start, mailbox: Mailbox, wanted: Wanted, say: voice.Say) -> Meeting:
    from hpc_elastic.backends.file import FileBackend
    from hpc_elastic.rendezvous import choice
    from hpc_elastic.rendezvous.patience import insist

    return insist(
        lambda: choice.open_meeting(
            wanted,
            FileBackend(plan.directory.record),
            start.start,
            run_id=plan.run_id,
            name=plan.seat.name,
            clock=SYSTEM_CLOCK,
            patience_s=min(choice.PATIENCE_S, plan.settings.join_timeout_s),
        ),
        budget_s=plan.settings.store_lost_s,
        clock=SYSTEM_CLOCK,
        is_wanted=lambda: not select([mailbox], [], [], 0)[0],
        say=say,
    )


def _take_part(plan: Plan, start: Start, mailbox: Mailbox, source: NoticeSource, wanted: Wanted) -> Ending:
    from hpc_elastic.agent.local import LocalAgent
    from hpc_elastic.agent.speaker import Speaker
    from hpc_elastic.rendezvous import choice
    from hpc_elastic.rendezvous.membership import Membership

    speaker = Speaker(LineWriter(_STDERR), f"hpc-elastic [{plan.seat.name}]: ")
    meeting = _open_meeting(plan, start, mailbox, wanted, speaker.say)
    if wanted.etcd is not None or meeting.choice.backend != choice.FILE:
        speaker.say(f"meets in {meeting}")
    membership = Membership.open(meeting.backend, start.start, start.seat, start.settings, SYSTEM_CLOCK)
    is_watched = os.isatty(_STDERR)
    plan = replace(plan, backend=str(meeting.choice.backend))
    agent = LocalAgent(plan, membership, mailbox, source, SYSTEM_CLOCK, speaker.say, is_watched=is_watched)
    try:
        code = agent.run()
        if start.job is not None:
            from hpc_elastic.cli.run_last_out import see_to_the_job

            see_to_the_job(start, membership.standing(), meeting.backend, code, mailbox, speaker.say)
        elif _may_go_on(code, plan.environment):
            speaker.say(f"to go on, start it again with --run-dir {plan.directory.path}")
        return Ending(code, agent.farewell, membership.standing())
    finally:
        speaker.finish(_CONSOLE_S)
        meeting.backend.close()
