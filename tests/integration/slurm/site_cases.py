"""Jobs under what sites and people do to them beside a plain preemption, all at once on one sandbox.

JobRequeue=0 in the configuration, a prolog that fails on one node, a mail program that is counted; a limit
that is changed while the job runs, none at all, an early signal that a rank resets, a save that comes too
late, and a life of several ends.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import Any, Final

from hpc_elastic.slurm.holds import explain
from hpc_elastic.status import snapshot
from tests.integration.slurm.bench import ENDED, ROOT, TEMPLATE, Bench
from tests.waiting import wait_until

JOB: Final = str(ROOT / "tests" / "integration" / "slurm" / "matrix_job.py")
ODD: Final = str(ROOT / "tests" / "integration" / "slurm" / "odd_job.py")
GRACE_S: Final = 20
NODES: Final = 11
PREEMPTED: Final = ("JobRequeue=0", "no time limit", "a rank that looks up too late", "several ends")
_LONG_S: Final = 240.0
_CONFIGURATION: Final = """
JobRequeue=0
Prolog={folder}/prolog
MailProg={folder}/mail
"""
# As root on the node, before the first process of a job there.
_PROLOG: Final = '#!/bin/sh\n[ "$SLURMD_NODENAME" != n8 ] || [ -e {folder}/repaired ]\n'
_MAIL: Final = "#!/bin/sh\necho sent >>{folder}/mails\n"


@dataclass
class Cases:
    """The jobs by what is done to them."""

    bench: Bench
    jobs: dict[str, str] = field(default_factory=dict)

    def submit(self, kind: str, node: str, *options: str, words: tuple[str, ...], **env: str) -> None:
        where = (f"--nodelist={node}",) if node else ()
        self.jobs[kind] = self.bench.submit(*where, "-N1", *options, words=words, env=env)

    def record(self, kind: str) -> dict[str, str]:
        return self.bench.sandbox.job(self.jobs[kind])

    def run(self, kind: str) -> snapshot.RunSnapshot:
        return self.bench.run(self.jobs[kind])

    def text(self, kind: str, life: int) -> str:
        folder = self.bench.run_dir(self.jobs[kind]) / "logs" / str(life)
        return "".join(path.read_text() for path in sorted(folder.glob("*/0.out")))

    def wait_for_steps(self, kind: str, life: int = 1, words: str = "step ", times: int = 8) -> None:
        wait_until(
            lambda: self.text(kind, life).count(words) >= times,
            _LONG_S,
            f"life {life} of the job that has {kind}:\n{self.bench.output(self.jobs[kind])}",
        )

    def root(self, *words: str) -> None:
        """Something that only an administrator may."""
        environment = self.bench.sandbox.environment()
        subprocess.run(["scontrol", *words], env=environment, check=True, timeout=30)

    def tell(self, kind: str, signal_name: str) -> None:
        self.bench.sandbox.run(["scancel", f"--signal={signal_name}", self.jobs[kind]], check=True)

    def end(self, kind: str) -> dict[str, Any]:
        """What became of it, as JSON values."""
        record = self.bench.sandbox.wait_for_state(self.jobs[kind], ENDED, timeout_s=_LONG_S)
        run = self.run(kind)
        last, why = run.last_round, run.attempts[0].why_stopped if run.attempts else None
        return {
            "seconds_left": round(why.seconds_left, 1) if why else None,
            "excluded": record["ExcNodeList"],
            "left_out": sorted({name for one in run.rounds for name in one.proposal.left_out}),
            "resumed_at": self.text(kind, 2).partition("\n")[0],
            "causes": [one.why_stopped.reason.value if one.why_stopped else "" for one in run.attempts],
            "saved": [one.outcome.value if one.outcome else "" for one in run.presences],
            "failures": last.proposal.failures if last else 0,
            "state": record["JobState"],
            "restarts": int(record["Restarts"]),
        }


def prepare(bench: Bench) -> None:
    """Make the site what it is to be. Prolog and mail program run as root, on what is one machine here."""
    folder = bench.folder
    for name, text in (("prolog", _PROLOG), ("mail", _MAIL)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(0o755)
    conf = bench.sandbox.layout.slurm_conf
    lines = (line for line in conf.read_text().splitlines() if not line.startswith("MailProg="))
    conf.write_text("\n".join((*lines, _CONFIGURATION.format(folder=folder))))
    subprocess.run(["scontrol", "reconfigure"], env=bench.sandbox.environment(), check=True, timeout=60)


def submit(cases: Cases) -> None:
    """Every job, each on a node of its own but the one that loses a bad one."""
    bench = cases.bench
    plain = bench.folder / "plain.sh"
    lines = TEMPLATE.read_text().splitlines(True)
    plain.write_text("".join(line for line in lines if line != "#SBATCH --requeue\n"))
    cases.jobs["JobRequeue=0"] = bench.sandbox.sbatch(
        "--nodelist=n1", "-N1", plain, JOB, cwd=bench.folder, env=bench.variables
    )
    cases.submit("no time limit", "n2", "--time=UNLIMITED", words=(JOB,))
    cases.submit("its limit changed while it runs", "n3", "--time=1", words=(JOB,))
    for kind, node in (("a rank that keeps USR1 for itself", "n4"), ("a rank that USR1 kills", "n5")):
        words = ("--notice-signal", "USR1", ODD, "handles" if node == "n4" else "dies")
        cases.submit(kind, node, "--signal=USR1@60", words=words)
    cases.submit("several ends", "n6", words=(ODD, "fails once"), LIVES="3")
    cases.submit("a rank that looks up too late", "n7", words=(ODD, "evaluates"))
    cases.submit("a prolog that fails", "n8", words=(JOB,), LIVES="0")
    cases.jobs["a bad node"] = bench.submit(
        "-N2", "--exclude=n[1-8]", words=("--nnodes", "1:2", *_BAD, ODD, "has a bad node")
    )


_BAD: Final = ("--exclude-bad-nodes", "1", "--node-failures", "2", "--max-restarts", "5")


def act(cases: Cases) -> dict[str, dict[str, Any]]:
    """Do to each job what it is there for, and wait for all ends."""
    limited = "its limit changed while it runs"
    cases.wait_for_steps(limited)
    cases.root("update", f"JobId={cases.jobs[limited]}", "TimeLimit=30")
    for kind in PREEMPTED:
        cases.wait_for_steps(kind)
    cases.wait_for_steps("a rank that looks up too late", words="evaluates", times=1)
    for kind in PREEMPTED:
        cases.bench.sandbox.preempt(cases.jobs[kind], seconds=1)
    for kind in ("a rank that keeps USR1 for itself", "a rank that USR1 kills"):
        cases.wait_for_steps(kind)
        cases.tell(kind, "USR1")
    held = hold(cases)
    lose_the_bad_node(cases)
    end_in_several_ways(cases)
    wait_until(lambda: cases.record(limited)["RunTime"] > "00:01:10", 120.0, "it is over its first limit")
    (cases.bench.run_dir(cases.jobs[limited]) / "finish").touch()
    found = {kind: cases.end(kind) for kind in cases.jobs}
    found["a prolog that fails"] |= held
    return found | {"mails": {"sent": _mails(cases)}}


def hold(cases: Cases) -> dict[str, Any]:
    """What is said of a job that Slurm holds, before somebody repairs the node and lets it go."""
    job, folder = cases.jobs["a prolog that fails"], cases.bench.folder
    wait_until(
        lambda: cases.bench.sandbox.job(job)["Reason"] not in ("None", "BeginTime"), 60.0, "it is held"
    )
    reason = cases.bench.sandbox.job(job)["Reason"]
    attempts = len(cases.bench.run(job).attempts)
    (folder / "repaired").touch()
    cases.root("update", "NodeName=n8", "State=RESUME")
    cases.bench.sandbox.run(["scontrol", "release", job], check=True)
    return {"reason": reason, "explained": explain(reason, job), "attempts_while_held": attempts}


def lose_the_bad_node(cases: Cases) -> None:
    """The run goes on without the node; then it is told to stop, and may choose other nodes."""
    kind = "a bad node"

    def goes_on_without_it() -> bool:
        last = cases.run(kind).last_round
        return last is not None and bool(last.proposal.left_out) and len(last.members) == 1

    wait_until(goes_on_without_it, _LONG_S, f"a node is left out\n{cases.bench.output(cases.jobs[kind])}")
    cases.wait_for_steps(kind, times=8)
    cases.tell(kind, "USR2")


def end_in_several_ways(cases: Cases) -> None:
    """It was preempted; in its second life it fails once and is requeued by root; then it is preempted."""
    kind = "several ends"
    cases.wait_for_steps(kind, life=2)
    cases.root("requeue", cases.jobs[kind])
    cases.wait_for_steps(kind, life=3)
    cases.bench.sandbox.preempt(cases.jobs[kind], seconds=1)


def _mails(cases: Cases) -> int:
    sent = cases.bench.folder / "mails"
    return sent.read_text().count("sent") if sent.exists() else 0
