"""What a site's policy means, from recorded and changed output of its Slurm."""

from __future__ import annotations

import pytest

from hpc_elastic.doctor import site
from hpc_elastic.doctor.finding import Finding, Level, merged
from tests.unit.slurm import recorded

CONFIG = recorded.text("22.05.8", "config.txt")
PARTITION = recorded.text("22.05.8", "partition.txt")


def set_to(name: str, value: str) -> str:
    """The recorded configuration with one setting changed."""
    lines = [
        f"{name} = {value}" if line.split("=")[0].strip() == name else line for line in CONFIG.splitlines()
    ]
    return "\n".join(lines)


def named(findings: list[Finding], check: str) -> list[Finding]:
    return [one for one in findings if one.check == check]


def only(findings: list[Finding], check: str) -> Finding:
    (found,) = named(findings, check)
    return found


@pytest.mark.parametrize("release", recorded.RELEASES)
def test_a_recorded_site_is_told_fact_by_fact(release: str) -> None:
    config, partition = (recorded.text(release, f"{name}.txt") for name in ("config", "partition"))
    found = site.of_site(config, partition, {})

    assert named(found, "Slurm")[0].fact == f"version {release}"
    low = only(found, "partition low")
    assert low.fact == "PreemptMode=REQUEUE, GraceTime=20 s, MaxTime=UNLIMITED, 4 nodes"
    assert low.level is Level.FINE
    assert "20 s from the notice to TERM, 5 s more to KILL" in low.meaning
    assert low.do == "sbatch -p low --requeue --signal=USR2@60 elastic.sh ..."
    assert only(found, "requeue").level is Level.FINE
    assert "SlurmdTimeout=10 s" in only(found, "node loss").fact


@pytest.mark.parametrize(
    ("version", "is_told"),
    [("23.11.10", False), ("24.05.0", True), ("24.11.5", True), ("25.11.3", True), ("26.05.5", False)],
)
def test_releases_that_start_a_done_job_once_more_are_told(version: str, is_told: bool) -> None:
    found = named(site.of_site(set_to("SLURM_VERSION", version), PARTITION, {}), "Slurm")

    assert any("leaves at once" in one.meaning for one in found) is is_told


@pytest.mark.parametrize(
    ("changed", "level", "meaning"),
    [
        (("GraceTime=20", "GraceTime=0"), Level.NOTE, "a save has to be quick"),
        (("PreemptMode=REQUEUE", "PreemptMode=CANCEL"), Level.NOTE, "asks for a requeue before"),
        (("PreemptMode=REQUEUE", "PreemptMode=OFF"), Level.FINE, "are not preempted"),
        (("PreemptMode=REQUEUE", "PreemptMode=GANG,SUSPEND"), Level.NOTE, "stay in memory"),
    ],
)
def test_each_way_of_preempting_has_its_meaning(changed: tuple[str, str], level: Level, meaning: str) -> None:
    low = only(site.of_site(CONFIG, PARTITION.replace(*changed), {}), "partition low")

    assert low.level is level
    assert meaning in low.meaning


def test_cancelling_without_grace_is_a_problem() -> None:
    partition = PARTITION.replace("GraceTime=20", "GraceTime=0").replace("Mode=REQUEUE", "Mode=CANCEL")

    assert only(site.of_site(CONFIG, partition, {}), "partition low").level is Level.PROBLEM


def test_without_preemption_no_partition_preempts() -> None:
    found = site.of_site(set_to("PreemptType", "preempt/none"), PARTITION, {})

    assert only(found, "partition low").meaning == "jobs here are not preempted"
    assert named(found, "preemption")[0].fact == "PreemptType=preempt/none"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SlurmctldParameters", "preempt_send_user_signal"),
        ("PreemptParameters", "send_user_signal,youngest_first"),
    ],
)
def test_a_site_that_sends_the_users_signal_is_recognised_by_either_name(name: str, value: str) -> None:
    config = f"{CONFIG}\n{name} = {value}\n"  # of two lines the later one counts

    assert "the user's signal" in named(site.of_site(config, PARTITION, {}), "preemption")[0].fact
    assert "TERM in all" in named(site.of_site(CONFIG, PARTITION, {}), "preemption")[0].fact


def test_what_keeps_jobs_from_coming_back_is_named() -> None:
    assert only(site.of_site(set_to("JobRequeue", "0"), PARTITION, {}), "requeue").fact == "JobRequeue=0"
    by_shell = site.of_site(CONFIG, PARTITION, {"SBATCH_NO_REQUEUE": "1"})
    assert "SBATCH_NO_REQUEUE" in only(by_shell, "requeue").fact


@pytest.mark.parametrize(("codes", "level"), [("82,99", Level.PROBLEM), ("99", Level.NOTE)])
def test_exit_codes_that_make_slurm_requeue_are_a_problem_where_they_are_ours(
    codes: str, level: Level
) -> None:
    found = named(site.of_site(set_to("RequeueExit", codes), PARTITION, {}), "requeue")[-1]

    assert found.level is level
    assert found.fact == f"RequeueExit={codes}"


@pytest.mark.parametrize("config", ["", "slurm_load_ctl_conf error: Unable to contact slurm controller"])
def test_a_controller_that_does_not_answer_is_a_problem(config: str) -> None:
    (found,) = site.of_site(config, "", {})

    assert (found.level, found.do) == (Level.PROBLEM, "scontrol ping; scontrol show config")


def test_what_all_nodes_say_is_told_once_and_names_them() -> None:
    same = Finding("a", Level.FINE, "same", "m")
    other = Finding("b", Level.NOTE, "other", "m")

    found = merged([("n1", [same, other]), ("n2", [same])])

    assert [(one.fact, one.nodes) for one in found] == [("same", ("n1", "n2")), ("other", ("n1",))]
