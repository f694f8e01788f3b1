"""The job record that `scontrol show job -o` prints, and two numbers of the site.

Tolerant: a field that is missing, renamed or unreadable becomes None, and the rest still counts.
Every release from 20.11 to 26.05 prints the fields below before the free text (command, submit line,
comment, paths), so the first match after the job's name is the field itself and not text of the user's.
JSON has no run time, and two of the releases do not offer it (docs/decisions/0010-text-and-not-json.md).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from hpc_elastic.errors import BadEnvironment
from hpc_elastic.slurm import nodelist
from hpc_elastic.values import dataclass

# The name is free text and comes first; user and group follow it in every version seen.
_NAME = re.compile(r"^(JobId=.*?) JobName=.*(?= UserId=\S+\(\d+\) GroupId=)", re.DOTALL)
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_:/]*)=(\S*)")
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,9}):(\d{2})(?::(\d{2}))?")
_GRACE_TIME = re.compile(r"(?:^|\s)GraceTime=(\d{1,9})(?=\s|$)")
_CLUSTER = re.compile(r"^ClusterName\s*=\s*(\S+)", re.MULTILINE)
_KILL_WAIT = re.compile(r"^KillWait\s*=\s*(\d{1,6})\s*sec", re.MULTILINE)
_REQUEUE_EXIT = re.compile(r"^RequeueExit(?:Hold)?\s*=\s*([\d,-]+)\s*$", re.MULTILINE)
_EXIT_RANGE = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
CANCELLED: Final = "CANCELLED"
COMPLETING: Final = "COMPLETING"
TIMEOUT: Final = "TIMEOUT"
PREEMPTED: Final = "PREEMPTED"
_NO_BATCH_SCRIPT: Final = "JobLaunchFailure"
# The controller looks for grace times that are over once in half a minute.
_KILLED_LATE_S: Final = 35.0
# A running job whose processes are being signalled shows a flag in place of its state (22.05.8).
_RUNNING: Final = frozenset({RUNNING, "SIGNALING"})


@dataclass(frozen=True)
class JobRecord:
    """One job as the controller sees it. None where the record does not say.

    Times are the controller's, in its local time without a zone: only differences of two of them
    mean something.
    """

    job_id: str
    array_job_id: str | None
    array_task_id: str | None
    state: str
    reason: str
    requeue: bool | None
    restarts: int | None
    is_batch: bool | None
    run_time_s: float | None
    time_limit_s: float | None
    start_time: datetime | None
    end_time: datetime | None
    preempt_time: datetime | None
    was_suspended: bool
    partition: str
    node_count: int | None

    @property
    def is_running(self) -> bool:
        """Whether the job has its nodes and Slurm has not begun to end it."""
        return self.state in _RUNNING

    @property
    def lost_batch_script(self) -> bool:
        """Whether Slurm ends the job because its batch script was killed, not cancelled (22.05.8)."""
        return self.reason == _NO_BATCH_SCRIPT

    def has_come_back(self, restart_count: int) -> bool:
        """Whether the job waits to be started again, or has been, since its start `restart_count`.

        A requeued job is COMPLETING with one restart more until its last process is gone (22.05.8).
        """
        return self.state == PENDING or (self.restarts is not None and self.restarts > restart_count)

    @property
    def address(self) -> str:
        """What Slurm commands are given for this job: `<array>_<task>` for an element of an array."""
        if self.array_job_id and self.array_task_id:
            return f"{self.array_job_id}_{self.array_task_id}"
        return self.job_id

    def was_taken(self, grace_s: float | None) -> bool:
        """Whether a preemption ended the job, and nobody cancelled it while its grace time ran.

        A cancel leaves `PreemptTime` where it is and sets `EndTime` to its own time (22.05.8). In doubt
        it was a cancel: a QOS may have a grace time of its own, which only the accounting shows.
        """
        if self.is_running or self.state == CANCELLED or self.preempt_time is None:
            return False
        if self.state == PREEMPTED:
            return True
        if grace_s is None or self.end_time is None:
            return False
        late_s = (self.end_time - self.preempt_time).total_seconds() - grace_s
        return 0 <= late_s <= (_KILLED_LATE_S if grace_s else 1.0)

    @property
    def seconds_left(self) -> float | None:
        """The time until EndTime by the controller's own clock at the moment of the query.

        During a preemption EndTime is PreemptTime plus GraceTime, or still unknown for a job without a
        time limit (22.05.8). None where the end is not known,
        and after a suspension, where RunTime no longer tells the controller's time.
        """
        if self.end_time is None or self.start_time is None or self.run_time_s is None or self.was_suspended:
            return None
        return (self.end_time - self.start_time).total_seconds() - self.run_time_s

    @property
    def since_preemption_s(self) -> float | None:
        """How long ago the preemption was decided, likewise; None where there was none."""
        if (
            self.preempt_time is None
            or self.start_time is None
            or self.run_time_s is None
            or self.was_suspended
        ):
            return None
        return self.run_time_s - (self.preempt_time - self.start_time).total_seconds()


def parse(text: str, job_id: str) -> JobRecord | None:
    """Job `job_id` in the output of `scontrol show job -o`, or None where it is not there.

    One element of an array has the array's own id, and asking for that id prints every element.
    """
    found = fields(text, job_id)
    return None if found is None else _record(found)


def fields(text: str, job_id: str) -> dict[str, str] | None:
    """Every field of job `job_id` by its name, as text without blanks."""
    for line in text.splitlines():
        found = _fields(line)
        if found.get("JobId") == job_id and found.get("JobState"):
            return found
    return None


def parse_array(text: str, array: str) -> tuple[JobRecord, ...]:
    """The elements of the array `array` in the same output; those that never started may share a record."""
    found = map(_fields, text.splitlines())
    return tuple(
        _record(fields)
        for fields in found
        if array in (fields.get("ArrayJobId"), fields.get("JobId")) and fields.get("JobState")
    )


def _fields(line: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, value in _FIELD.findall(_NAME.sub(r"\1", line.strip())):
        fields.setdefault(key, value)
    return fields


def _record(fields: dict[str, str]) -> JobRecord:
    return JobRecord(
        job_id=fields["JobId"],
        array_job_id=fields.get("ArrayJobId"),
        array_task_id=fields.get("ArrayTaskId"),
        state=fields["JobState"].partition("+")[0],
        reason=fields.get("Reason", ""),
        requeue=_flag(fields.get("Requeue")),
        restarts=_count(fields.get("Restarts")),
        is_batch=_flag(fields.get("BatchFlag")),
        run_time_s=duration_s(fields.get("RunTime")),
        time_limit_s=duration_s(fields.get("TimeLimit")),
        start_time=_moment(fields.get("StartTime")),
        end_time=_moment(fields.get("EndTime")),
        preempt_time=_moment(fields.get("PreemptTime")),
        was_suspended=_count(fields.get("SecsPreSuspend")) not in (None, 0),
        partition=fields.get("Partition", ""),
        node_count=_node_count(fields.get("NodeList")),
    )


def grace_time_s(partition: str) -> float | None:
    """GraceTime from the output of `scontrol show partition`: how long a preempted job may go on."""
    match = _GRACE_TIME.search(partition)
    return float(match.group(1)) if match else None


def kill_wait_s(config: str) -> float | None:
    """KillWait from the output of `scontrol show config`: the time between TERM and KILL."""
    match = _KILL_WAIT.search(config)
    return float(match.group(1)) if match else None


def cluster(config: str) -> str:
    """ClusterName from the same output; empty where it is not there."""
    match = _CLUSTER.search(config)
    return match.group(1) if match else ""


def requeue_exits(config: str) -> frozenset[int]:
    """The statuses with which Slurm requeues a job, from the output of `scontrol show config`."""
    found: set[int] = set()
    for text in _REQUEUE_EXIT.findall(config):
        for low, high in _EXIT_RANGE.findall(text):
            found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)


def _count(value: str | None) -> int | None:
    return int(value) if value and value.isascii() and value.isdecimal() and len(value) <= 18 else None


def _node_count(value: str | None) -> int | None:
    """How many nodes the job has now: under `--no-kill` a lost one is taken out of the list."""
    if not value or value == "(null)":
        return None
    try:
        return len(nodelist.expand(value))
    except BadEnvironment:
        return None


def _flag(value: str | None) -> bool | None:
    count = _count(value)
    return None if count is None else count != 0


def _moment(value: str | None) -> datetime | None:
    """None also for `Unknown`, `None`, `N/A` and `NONE`, which mean that there is no such time."""
    try:
        return datetime.fromisoformat(value) if value else None
    except ValueError:
        return None


def duration_s(value: str | None) -> float | None:
    """`1-02:03:04`, `02:03:04` or `03:04` in seconds; None for `UNLIMITED` and the like."""
    match = _DURATION.fullmatch(value or "")
    if match is None:
        return None
    days, first, second, third = match.groups()
    if third is None:
        return int(first) * 60.0 + int(second)
    return int(days or 0) * 86400.0 + int(first) * 3600.0 + int(second) * 60.0 + int(third)
