"""The policy of a site's Slurm, from `scontrol show config` and `show partition`. Pure.

What each setting does was measured: docs/slurm-facts.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from hpc_elastic.doctor.finding import Finding, Level
from hpc_elastic.exit_codes import MEANINGS

SHORT_GRACE_S: Final = 10.0
_SETTING: Final = re.compile(r"^(\w+)\s*=\s?(.*?)\s*$", re.MULTILINE)
_FIELD: Final = re.compile(r"(\w+)=(\S*)")
_NUMBER: Final = re.compile(r"(\d+)")
_NOTICE: Final = "--signal=USR2@60"


def of_site(config: str, partitions: str, variables: Mapping[str, str]) -> list[Finding]:
    """What the policy means for runs. `variables` are those of the submitting shell."""
    settings = dict(_SETTING.findall(config))
    if "SLURM_VERSION" not in settings:
        return [
            Finding(
                "Slurm",
                Level.PROBLEM,
                "the controller does not show its configuration",
                "nothing is known of preemption here, and jobs may not be submitted either",
                "scontrol ping; scontrol show config",
            )
        ]
    return [
        Finding(
            "Slurm",
            Level.FINE,
            f"version {settings['SLURM_VERSION']}",
            "measured on 20.11, 22.05, 24.11 and 26.05",
        ),
        *_preempted_twice(settings["SLURM_VERSION"]),
        *_preemption(settings),
        *_requeue(settings, variables),
        *(one for line in partitions.splitlines() if line.strip() for one in _partition(line, settings)),
    ]


def _preempted_twice(version: str) -> Iterator[Finding]:
    """A fault of Slurm, seen in 24.11.5 and no longer in 26.05.5; 24.05 began to mark such jobs."""
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is None or not (24, 5) <= (int(number[1]), int(number[2])) < (26, 5):
        return
    yield Finding(
        "Slurm",
        Level.NOTE,
        f"a job requeued in its grace time counts as preempted at its next end too ({version})",
        "a run that is done may be started once more, and leaves at once; with PreemptMode=CANCEL its job "
        "ends as PREEMPTED: go by `hpc-elastic status`, and not by afterok",
    )


def _preemption(settings: Mapping[str, str]) -> Iterator[Finding]:
    kill_wait_s = seconds(settings.get("KillWait", "")) or 30.0
    if settings.get("PreemptType", "preempt/none") == "preempt/none":
        yield Finding(
            "preemption",
            Level.FINE,
            "PreemptType=preempt/none",
            "no job takes another's nodes; a run ends at its time limit, or when too many nodes are lost",
        )
    elif sends_user_signal(settings):
        yield Finding(
            "preemption",
            Level.FINE,
            "the user's signal is sent to a preempted job",
            f"with {_NOTICE} the agents get USR2 as notice; the template asks for it",
        )
    else:
        yield Finding(
            "preemption",
            Level.NOTE,
            "a preempted job gets TERM in all its processes",
            "agents and ranks with a context hold it; helpers that a script starts itself end at once",
            "start data loaders after worker.context(), or let them ignore SIGTERM",
        )
    yield Finding(
        "preemption", Level.FINE, f"KillWait={kill_wait_s:g} s", "the time between TERM and KILL at every end"
    )
    lost_s = seconds(settings.get("SlurmdTimeout", ""))
    if lost_s:
        yield Finding(
            "node loss",
            Level.FINE,
            f"SlurmdTimeout={lost_s:g} s",
            "Slurm takes a silent node for dead after that; the agents notice in 15 s and go on without it",
        )


def sends_user_signal(settings: Mapping[str, str]) -> bool:
    """Whether a preemption sends what `--signal` names. The option has moved with 23.11."""
    return "send_user_signal" in settings.get(
        "PreemptParameters", ""
    ) or "preempt_send_user_signal" in settings.get("SlurmctldParameters", "")


def _requeue(settings: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[Finding]:
    if settings.get("JobRequeue") == "0" or "SBATCH_NO_REQUEUE" in variables:
        by = "JobRequeue=0" if settings.get("JobRequeue") == "0" else "SBATCH_NO_REQUEUE in the environment"
        yield Finding(
            "requeue",
            Level.NOTE,
            by,
            "jobs come back only if they ask for it; the batch side switches Requeue on when it has to",
            "sbatch --requeue elastic.sh ...",
        )
    else:
        yield Finding("requeue", Level.FINE, "JobRequeue=1", "a job may be started again under its own id")
    for name in ("RequeueExit", "RequeueExitHold"):
        codes = settings.get(name, "(null)")
        if codes in ("(null)", ""):
            continue
        ours = ", ".join(str(int(code)) for code in MEANINGS if str(int(code)) in re.split(r"[,\s-]", codes))
        yield Finding(
            "requeue",
            Level.PROBLEM if ours else Level.NOTE,
            f"{name}={codes}",
            (
                f"Slurm itself starts jobs again that end with {ours}, also a run that has failed"
                if ours
                else "Slurm itself starts jobs again that end with these; one that is done leaves at once"
            ),
            "ask the administrators to leave 64 and 80 to 85 out" if ours else "",
        )


def _partition(line: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    fields = dict(_FIELD.findall(line))
    name = fields.get("PartitionName")
    if not name:
        return
    mode = fields.get("PreemptMode") or settings.get("PreemptMode", "OFF")
    if settings.get("PreemptType", "preempt/none") == "preempt/none":
        mode = "OFF"
    grace_s = seconds(fields.get("GraceTime", "")) or 0.0
    limit = fields.get("MaxTime", "UNLIMITED")
    fact = (
        f"PreemptMode={mode}, GraceTime={grace_s:g} s, MaxTime={limit}, {fields.get('TotalNodes', '?')} nodes"
    )
    level, meaning = _meaning(mode, grace_s, seconds(settings.get("KillWait", "")) or 30.0)
    do = "" if mode == "OFF" else f"sbatch -p {name} --requeue {_NOTICE} elastic.sh ..."
    yield Finding(f"partition {name}", level, fact, meaning, do)


def _meaning(mode: str, grace_s: float, kill_wait_s: float) -> tuple[Level, str]:
    modes = set(mode.split(","))
    if "OFF" in modes:
        return Level.FINE, "jobs here are not preempted"
    if modes & {"SUSPEND", "GANG"}:
        return Level.NOTE, "preempted jobs are stopped and stay in memory; agents that wake up meet again"
    time = f"{grace_s:g} s from the notice to TERM, {kill_wait_s:g} s more to KILL"
    if "CANCEL" in modes:
        level = Level.NOTE if grace_s >= SHORT_GRACE_S else Level.PROBLEM
        return level, f"Slurm ends preempted jobs for good; the batch side asks for a requeue before ({time})"
    if grace_s >= SHORT_GRACE_S:
        return Level.FINE, f"preempted jobs come back ({time})"
    return (
        Level.NOTE,
        f"preempted jobs come back, and a save has to be quick ({time}); save now and then as well",
    )


def seconds(text: str) -> float | None:
    """The number that a setting begins with; None where it has none."""
    match = _NUMBER.match(text)
    return float(match.group(1)) if match else None
