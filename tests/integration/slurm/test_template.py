"""The batch script on a real Slurm, with a stand-in for the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.sandbox import Sandbox
from tests.integration.slurm.bench import ENDED, TEMPLATE, Bench, a_sandbox
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_slurm, pytest.mark.timeout(600)]

STAND_IN = Path(__file__).with_name("stand_in.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    """Whose KillWait does not end on a busy machine before the batch script has had its last word."""
    with a_sandbox(SandboxOptions(kill_wait_s=120, slurmd_timeout_s=60)) as sandbox:
        yield sandbox


@pytest.fixture
def bench(cluster: Sandbox) -> Bench:
    folder = cluster.user_directory()
    package = folder / "lib" / "hpc_elastic"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(STAND_IN, package / "__main__.py")
    wait_until(lambda: set(cluster.node_states().values()) == {"idle"}, 120.0, "every node is idle")
    return Bench(cluster, folder, package.parent)


WORDS = ("train.py", "a b")


def wait_for_agents(bench: Bench, job: str, count: int) -> None:
    wait_until(lambda: bench.output(job).count("CPUs") == count, 120.0, f"{count} agents start in job {job}")


def agents(lines: list[str]) -> list[str]:
    return sorted(line for line in lines if line.startswith("agent") and "CPUs" in line)


def test_there_is_one_agent_per_node_with_all_its_cpus_and_then_the_requeue_has_the_last_word(
    bench: Bench,
) -> None:
    state, code, lines = bench.end_of(bench.submit("-N", "4", words=WORDS))

    assert agents(lines) == [f"agent n{n} of ['train.py', 'a b'] with 2 CPUs" for n in (1, 2, 3, 4)]
    assert lines[0] == "requeue ['--check', '--', 'train.py', 'a b']"
    assert lines[-1] == "requeue ['--step-status', '0', '--', 'train.py', 'a b']"
    assert "start 0, 4 node(s) n[1-4]" in lines[1]
    assert (state, code) == ("FAILED", "42:0"), "the status of the job is that of the requeue"


def test_a_range_of_nodes_gets_all_that_are_free(bench: Bench) -> None:
    _, _, lines = bench.end_of(bench.submit("-N", "2-4", words=WORDS))

    assert agents(lines) == [f"agent n{n} of ['train.py', 'a b'] with 2 CPUs" for n in (1, 2, 3, 4)]


def test_a_second_agent_on_a_node_is_refused_with_the_fix_and_nothing_starts(bench: Bench) -> None:
    state, code, lines = bench.end_of(bench.submit("-N", "2", "--ntasks-per-node=2", words=WORDS))

    assert (state, code) == ("FAILED", "64:0")
    assert len(lines) == 1
    assert "--ntasks-per-node=2" in lines[0]
    assert "--ntasks-per-node=1" in lines[0]


def test_tasks_that_somebody_takes_for_workers_are_spoken_of(bench: Bench) -> None:
    _, _, lines = bench.end_of(bench.submit("-N", "1", "-n", "2", words=WORDS))

    assert lines[0].startswith("hpc-elastic: 2 tasks are no workers: one agent on each node starts as many")
    assert agents(lines) == ["agent n1 of ['train.py', 'a b'] with 2 CPUs"]
    assert "no workers" not in "".join(bench.end_of(bench.submit("-N", "2", "-n", "2", words=WORDS))[2])


def test_without_a_script_the_usage_is_shown(bench: Bench) -> None:
    state, code, lines = bench.end_of(bench.submit("-N", "2", words=()))

    assert (state, code) == ("FAILED", "64:0")
    assert [line.startswith("hpc-elastic: no script given; usage: sbatch") for line in lines] == [True]


def test_a_command_line_that_the_check_refuses_starts_no_agent(bench: Bench) -> None:
    state, code, lines = bench.end_of(bench.submit("-N", "2", words=WORDS, env={"CHECKED": "64"}))

    assert (state, code) == ("FAILED", "64:0")
    assert agents(lines) == []


def test_a_signal_that_ends_the_check_starts_no_agent_and_the_requeue_decides(bench: Bench) -> None:
    _, code, lines = bench.end_of(bench.submit("-N", "1", words=WORDS, env={"CHECKED": "143"}))

    assert code == "42:0"
    assert agents(lines) == []
    assert any("a signal ended the check" in line for line in lines)
    assert lines[-1].startswith("requeue ['--step-status', '143'")


def test_a_python_that_is_not_there_is_named(bench: Bench) -> None:
    _, code, lines = bench.end_of(
        bench.submit("-N", "1", words=WORDS, env={"HPC_ELASTIC_PYTHON": "/no/python"})
    )

    assert code == "64:0"
    assert "/no/python" in lines[0]
    assert "HPC_ELASTIC_PYTHON" in lines[0]


def test_a_python_without_the_package_is_named_with_the_next_move(bench: Bench) -> None:
    bare = str(Path(sys.executable).resolve())  # the interpreter behind our environment, without its packages
    env = {"HPC_ELASTIC_PYTHON": bare, "PYTHONPATH": "/nowhere"}

    _, code, lines = bench.end_of(bench.submit("-N", "1", words=WORDS, env=env))

    assert code == "1:0"
    assert "No module named hpc_elastic" in lines[0]
    assert f"{bare} -m hpc_elastic` does not work (status 1)" in lines[1]


@pytest.mark.parametrize(
    "options", [("-N", "2", "-n", "2"), ("-N", "2", "--exclusive"), ("-N", "2", "-c", "2")]
)
def test_other_ways_to_ask_for_two_nodes_give_one_agent_on_each_too(
    bench: Bench, options: tuple[str, ...]
) -> None:
    _, _, lines = bench.end_of(bench.submit(*options, words=WORDS))

    assert agents(lines) == [f"agent n{n} of ['train.py', 'a b'] with 2 CPUs" for n in (1, 2)], "\n".join(
        lines
    )


@pytest.mark.parametrize("asked", ["B:TERM@30", "KILL"])
def test_a_signal_that_loses_the_save_is_refused_at_the_start(bench: Bench, asked: str) -> None:
    state, code, lines = bench.end_of(bench.submit("-N", "1", words=WORDS, env={"SBATCH_SIGNAL": asked}))

    assert (state, code) == ("FAILED", "64:0")
    assert [f"--signal={asked}" in line and "use --signal=" in line for line in lines] == [True]


def test_a_term_that_only_the_shell_got_is_a_notice_to_the_agents(bench: Bench) -> None:
    job = bench.submit("-N", "2", words=WORDS, env={"NAP_S": "600"})
    wait_for_agents(bench, job, 2)

    bench.sandbox.run(["scancel", "-b", "--signal=TERM", job], check=True)

    _, _, lines = bench.end_of(job)
    assert {"agent n1 heard SIGUSR2", "agent n2 heard SIGUSR2"} <= set(lines)


@pytest.mark.parametrize("to_whom", ["-b", "-f"])
def test_a_notice_that_reaches_the_shell_reaches_the_agents(bench: Bench, to_whom: str) -> None:
    job = bench.submit("-N", "2", words=WORDS, env={"NAP_S": "600"})
    wait_for_agents(bench, job, 2)

    bench.sandbox.run(["scancel", to_whom, "--signal=USR2", job], check=True)

    _, code, lines = bench.end_of(job)
    assert {"agent n1 heard SIGUSR2", "agent n2 heard SIGUSR2"} <= set(lines)
    assert lines[-1].startswith("requeue ['--step-status', '80'")
    assert code == "42:0"


@pytest.mark.parametrize("signal_name", ["USR2", "TERM"])
def test_a_signal_to_an_agent_that_still_loads_neither_ends_it_nor_is_lost(
    bench: Bench, signal_name: str
) -> None:
    job = bench.submit("-N", "2", words=WORDS, env={"LOAD_S": "600", "NAP_S": "600"})
    wait_until(lambda: bench.output(job).count("loads") == 2, 120.0, "both agents load")

    bench.sandbox.run(["scancel", f"--signal={signal_name}", job], check=True)

    _, _, lines = bench.end_of(job)
    assert {f"agent n{n} heard SIG{signal_name}" for n in (1, 2)} <= set(lines)


def test_after_a_cancel_the_shell_waits_until_its_agents_have_left(bench: Bench) -> None:
    job = bench.submit("-N", "2", words=WORDS, env={"NAP_S": "600"})
    wait_for_agents(bench, job, 2)

    bench.sandbox.run(["scancel", job], check=True)

    state, _, lines = bench.end_of(job)
    assert state == "CANCELLED"
    assert {"agent n1 heard SIGTERM", "agent n2 heard SIGTERM", "agent n1 leaves", "agent n2 leaves"} <= set(
        lines
    )
    assert lines[-1].startswith("requeue ['--step-status', '80'")


def test_an_srun_that_goes_on_when_all_agents_are_gone_is_ended_and_the_requeue_decides(bench: Bench) -> None:
    job = bench.submit("-N", "2", words=WORDS, env={"NAP_S": "600", "ALL_GONE": "yes"})

    _, code, lines = bench.end_of(job)

    assert any("its step is ended" in line for line in lines), "\n".join(lines)
    assert lines[-1].startswith("requeue ['--step-status', '")
    assert code == "42:0"


def test_an_empty_environment_does_not_keep_the_agents_from_starting(bench: Bench) -> None:
    given = ",".join(f"{name}={value}" for name, value in bench.variables.items())

    _, code, lines = bench.end_of(bench.submit("-N", "2", f"--export=NONE,{given}", words=WORDS))

    assert len(agents(lines)) == 2
    assert code == "42:0"


def test_what_was_inherited_from_another_job_is_no_longer_there(bench: Bench) -> None:
    foreign = {
        "SLURM_ARRAY_JOB_ID": "99",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_RESTART_COUNT": "4",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x40",
        "SLURM_CPU_BIND_LIST": "0x40",
        "SRUN_CPUS_PER_TASK": "9",
        "SLURM_STEP_NODELIST": "x1",
    }

    _, _, lines = bench.end_of(bench.submit("-N", "1", words=WORDS, env=foreign))

    assert agents(lines) == ["agent n1 of ['train.py', 'a b'] with 2 CPUs"]


def test_elements_of_an_array_are_told_apart_and_named_by_their_index(bench: Bench) -> None:
    job = bench.submit("-N", "1", "--array=0-1", words=WORDS)

    outputs = []
    for index in (0, 1):
        bench.sandbox.wait_for_state(f"{job}_{index}", ENDED, timeout_s=180.0)
        outputs.append(bench.output(f"{job}_{index}"))

    assert all(f"job {job}_{index} " in text for index, text in enumerate(outputs))
    assert all(f"SLURM_ARRAY_JOB_ID={job}" in text for text in outputs)


def test_a_launch_prefix_stands_in_front_of_python_on_every_node(bench: Bench) -> None:
    _, _, lines = bench.end_of(
        bench.submit("-N", "2", words=WORDS, env={"HPC_ELASTIC_LAUNCH_PREFIX": "env PREFIXED=yes"})
    )

    assert [line.endswith("PREFIXED=yes") for line in agents(lines)] == [True, True]


def test_a_job_that_may_not_be_requeued_is_said_so_at_its_start(bench: Bench) -> None:
    _, _, lines = bench.end_of(bench.submit("-N", "1", words=WORDS, env={"SBATCH_NO_REQUEUE": "1"}))

    assert any("Requeue=0" in line for line in lines[:2])


def test_without_slurm_the_same_script_trains_on_this_machine(tmp_path: Path) -> None:
    package = tmp_path / "hpc_elastic"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(STAND_IN, package / "__main__.py")
    variables = {"HPC_ELASTIC_PYTHON": sys.executable, "PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}

    ended = subprocess.run(
        ["bash", TEMPLATE, "--nnodes", "1", "train.py"],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.stdout.splitlines()[1].startswith(
        "agent here of ['--standalone', '--nnodes', '1', 'train.py']"
    )
    assert ended.returncode == 0


def test_shellcheck_has_nothing_to_say() -> None:
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("shellcheck not installed: apt-get install shellcheck")

    ended = subprocess.run([checker, TEMPLATE], capture_output=True, text=True, check=False)

    assert ended.stdout == ""
