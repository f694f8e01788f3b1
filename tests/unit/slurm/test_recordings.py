"""The readers against what several releases of Slurm printed."""

from __future__ import annotations

import pytest

from hpc_elastic.agent.notices import Kind
from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.slurm import job_record, nodelist
from hpc_elastic.slurm.commands import Answer
from hpc_elastic.slurm.environment import JobEnvironment
from hpc_elastic.slurm.job_record import JobRecord
from hpc_elastic.slurm.preemption import reason_of, time_left_s
from tests.unit.slurm import recorded
from tests.unit.slurm.recorded import RELEASES

GRACE_S = 20.0

# State, reason, restarts, nodes that it has (0: those that are not cleaned up yet), whether it runs, and
# whether it has come back since start 0.
STATES = {
    "held": ("PENDING", "JobHeldUser", 0, None, False, True),
    "pending": ("PENDING", "Resources", 0, None, False, True),
    "running": ("RUNNING", "None", 0, 2, True, False),
    "suspended": ("SUSPENDED", "None", 0, 2, False, False),
    "resumed": ("RUNNING", "None", 0, 2, True, False),
    "preempted": ("RUNNING", "None", 0, 2, True, False),
    "waiting": ("PENDING", "BeginTime", 1, None, False, True),
    "requeued": ("COMPLETING", "None", 2, 0, False, True),
    "cancelled": ("CANCELLED", "None", 0, 2, False, False),
    "cancelled-in-grace": ("CANCELLED", "None", 0, 1, False, False),
    "taken": ("PREEMPTED", "None", 0, 1, False, False),
    "completed": ("COMPLETED", "None", 0, 1, False, False),
    "failed": ("FAILED", "NonZeroExitCode", 0, 1, False, False),
    "timeout": ("TIMEOUT", "TimeLimit", 0, 1, False, False),
}

each_release = pytest.mark.parametrize("release", RELEASES)


def test_there_are_recordings_of_four_releases_at_least() -> None:
    assert len(RELEASES) >= 4


@each_release
def test_a_recording_is_of_the_release_that_its_folder_names(release: str) -> None:
    assert f"SLURM_VERSION           = {release}\n" in recorded.text(release, "config.txt")
    assert f"slurm-wlm {release}, " in recorded.text(release, "source.txt")


@each_release
@pytest.mark.parametrize("name", STATES)
def test_a_job_in_any_state_is_read_field_by_field(release: str, name: str) -> None:
    record = recorded.job(release, name)
    state, reason, restarts, nodes, is_running, has_come_back = STATES[name]

    assert (record.state, record.reason, record.restarts) == (state, reason, restarts)
    assert nodes == 0 or record.node_count == nodes
    assert record.is_running is is_running
    assert record.has_come_back(0) is has_come_back
    assert (record.is_batch, record.requeue, record.partition) == (True, name != "taken", "low")
    assert record.address == record.job_id
    assert record.was_suspended is (name in ("suspended", "resumed", "cancelled"))


@each_release
def test_the_times_of_a_running_job_add_up_to_its_limit(release: str) -> None:
    record = recorded.job(release, "running")

    assert record.time_limit_s == 600.0
    assert record.run_time_s is not None
    assert record.seconds_left == pytest.approx(600.0 - record.run_time_s, abs=1.0)
    assert (record.preempt_time, record.since_preemption_s) == (None, None)


@each_release
def test_after_a_suspension_no_time_is_told_from_the_run_time(release: str) -> None:
    assert recorded.job(release, "resumed").seconds_left is None


@each_release
def test_a_preempted_job_says_since_when_and_until_when(release: str) -> None:
    record = recorded.job(release, "preempted")

    assert record.since_preemption_s == pytest.approx(0.0, abs=2.0)
    assert record.seconds_left == pytest.approx(GRACE_S, abs=2.0)


# Reason, and how long after TERM there is time; with a KillWait of 5 s.
EXPLAINED = {
    "running": (Reason.UNKNOWN, 30.0),
    "preempted": (Reason.PREEMPTED, GRACE_S),
    "preempted-without-limit": (Reason.PREEMPTED, GRACE_S),
    "requeued": (Reason.REQUEUED, 5.0),
    "cancelled": (Reason.CANCELLED, 5.0),
}


@each_release
@pytest.mark.parametrize("name", EXPLAINED)
def test_a_terminate_signal_is_explained_by_the_record_slurm_printed(release: str, name: str) -> None:
    record = recorded.job(release, name)
    kill_wait_s = job_record.kill_wait_s(recorded.text(release, "config.txt"))
    assert kill_wait_s is not None
    reason, seconds = EXPLAINED[name]

    assert reason_of(Kind.TERMINATE, record, restart_count=0) is reason
    left_s = time_left_s(reason, record, kill_wait_s, shutdown_timeout_s=30.0)
    assert left_s == pytest.approx(seconds, abs=2.0)


@each_release
def test_a_job_that_a_preemption_ended_is_told_from_one_that_was_cancelled_meanwhile(release: str) -> None:
    assert recorded.job(release, "taken").was_taken(GRACE_S)
    assert not recorded.job(release, "cancelled-in-grace").was_taken(GRACE_S)
    assert not recorded.job(release, "cancelled").was_taken(GRACE_S)


@each_release
def test_grace_time_kill_wait_and_statuses_of_the_site_are_found(release: str) -> None:
    config = recorded.text(release, "config.txt")

    assert job_record.grace_time_s(recorded.text(release, "partition.txt")) == GRACE_S
    assert job_record.kill_wait_s(config) == 5.0
    assert job_record.requeue_exits(config) == frozenset()


def array_of(release: str, name: str) -> tuple[JobRecord, ...]:
    text = recorded.text(release, name)
    (array,) = {word.split("=")[1] for word in text.split() if word.startswith("ArrayJobId=")}
    return job_record.parse_array(text, array)


@each_release
def test_the_elements_of_an_array_are_told_apart_also_the_one_with_the_arrays_own_id(release: str) -> None:
    elements = array_of(release, "array.txt")
    array = elements[0].array_job_id

    running = {one.address for one in elements if one.is_running}
    assert running == {f"{array}_0", f"{array}_1"}
    assert {one.state for one in elements if not one.is_running} == {"PENDING"}
    tasks = [line.split() for line in recorded.text(release, "array-tasks.txt").splitlines()]
    assert sorted((whole, index) for _, whole, index in tasks) == [(array, str(n)) for n in range(4)]


@each_release
def test_elements_taken_out_of_the_queue_are_cancelled_and_the_others_run(release: str) -> None:
    states = {one.address: one.state for one in array_of(release, "array-released.txt")}

    assert sorted(states.values()).count("RUNNING") == 2
    assert set(states.values()) == {"RUNNING", "CANCELLED"}


@each_release
def test_the_comment_of_a_job_is_found_by_its_number(release: str) -> None:
    job = recorded.job(release, "running").job_id

    assert f"{job} of JobState=FAILED y=2" in recorded.text(release, "comments.txt").splitlines()


@each_release
def test_a_node_list_means_what_slurm_makes_of_it(release: str) -> None:
    pairs = recorded.json_of(release, "hostnames.json")

    understood = {text: names for text, names in pairs.items() if names and "]" not in "".join(names)}
    assert len(understood) >= 13
    for text, names in understood.items():
        assert list(nodelist.expand(text)) == names, text


@each_release
def test_a_node_list_that_slurm_refuses_or_garbles_is_refused_but_for_what_newer_releases_take(
    release: str,
) -> None:
    pairs = recorded.json_of(release, "hostnames.json")
    # 24.11 takes text behind the last bracket, 22.05 does not; `n1]` is a name with a bracket to all.
    newer = {"n[1-2]-ib", "a[1,2]x[3]y"}

    for text in {text for text, names in pairs.items() if not names or "]" in "".join(names)} - newer:
        with pytest.raises(nodelist.BadNodeList):
            nodelist.expand(text)


@each_release
@pytest.mark.parametrize("where", ["batch", "step"])
def test_the_environment_of_a_job_is_read(release: str, where: str) -> None:
    found = JobEnvironment.parse(recorded.environment(release, where))

    assert found is not None
    assert found.job_id == recorded.job(release, "running").job_id
    assert found.cluster.startswith("sandbox_")
    assert (found.restart_count, found.tasks_per_node, found.gpus) == (0, 1, 0)
    assert found.node_names == (("n1", "n2") if where == "batch" else ("n1",))
    assert (found.node_name, found.node_index, found.is_step) == ("n1", 0, where == "step")
    assert found.cpus_on_node == 2
    assert (found.address, found.is_array_task) == (found.job_id, False)


@each_release
def test_a_controller_out_of_reach_is_told_from_one_that_refuses(release: str) -> None:
    for name, said in recorded.json_of(release, "complaints.json").items():
        answer = Answer((said["command"],), said["status"], said["output"], said["complaint"])

        assert answer.may_work_later is name.endswith("without a controller"), (name, answer)
        assert not (answer.is_refused and answer.may_work_later)


# Quoted from pages that name the release (tests/recordings/README.md): job, seconds until its end.
QUOTED = {"19.05.5": ("2935316", 3600 - 1.0), "23.02.6": ("24", 14 * 86400 - 120.0)}


@pytest.mark.parametrize("release", QUOTED)
def test_records_of_releases_that_do_not_run_here_say_the_same_things(release: str) -> None:
    job_id, left_s = QUOTED[release]
    record = job_record.parse(recorded.text(release, "job.txt"), job_id)

    assert record is not None
    assert (record.address, record.state, record.node_count) == (job_id, "RUNNING", 1)
    assert (record.seconds_left, record.requeue) == (left_s, True)
    assert (record.restarts, record.preempt_time, record.was_suspended) == (0, None, False)
