"""`cluster="local"`: real agents and real workers on this machine, from submit to result."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hpc_elastic
from hpc_elastic.errors import RunCancelled, RunFailed, SubmissionError, UsageError
from hpc_elastic.rendezvous.record import Reason
from hpc_elastic.status import snapshot
from hpc_elastic.submission.files import SubmissionFiles
from hpc_elastic.submission.job import Job
from hpc_elastic.submission.outcome import RemoteTraceback
from hpc_elastic.submission.states import JobState
from hpc_elastic.submission.supervisor_files import SupervisorState
from tests.integration.local import functions
from tests.integration.local.processes_of import processes_of
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
END_S = 180.0


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    """A place for one run; nothing of it may be alive at the end."""
    path = tmp_path / "run"
    yield path
    if (path / "submission" / "job.json").exists():
        Job.attach(path).cancel()
    wait_until(lambda: not processes_of(path), END_S, f"no process of {path} is left")


def submit(run_dir: Path, fn: Any, *args: Any, nodes: Any = 2, **options: Any) -> Job:
    return hpc_elastic.submit(fn, *args, nodes=nodes, cluster="local", run_dir=run_dir, **options)


def python(source: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a small program of a user's prints."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", source, *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )


def wait_for_work(job: Job, sign: str = "step 5\n") -> None:
    """Return once every rank of two has come so far."""

    def works() -> bool:
        outputs = [path.read_text() for path in (job.run_dir / "logs").glob("*/*/[01].out")]
        return len(outputs) == 2 and all(sign in output for output in outputs)

    wait_until(works, END_S, f"{sign.strip()} of both ranks")


def test_a_function_on_four_nodes_returns_its_value_from_every_rank(run_dir: Path) -> None:
    job = submit(run_dir, functions.place, nodes=4, scale=10)

    assert job.result(timeout=END_S) == {"rank": 0, "world": 4}
    assert job.results() == {rank: {"rank": 10 * rank, "world": 4} for rank in range(4)}
    assert job.state is JobState.COMPLETED


def test_nodes_have_several_workers_where_asked_for(run_dir: Path) -> None:
    job = submit(run_dir, functions.place, nproc_per_node=2, scale=1)

    assert sorted(job.results(timeout=END_S)) == [0, 1, 2, 3]


def test_the_exception_of_a_rank_is_raised_with_its_traceback(run_dir: Path) -> None:
    job = submit(run_dir, functions.fail_on, 1, max_restarts=0)

    with pytest.raises(functions.Broken, match="rank 1 has had enough") as failure:
        job.result(timeout=END_S)

    assert isinstance(failure.value.__cause__, RemoteTraceback)
    text = str(failure.value.__cause__)
    assert "rank 1 on local1, round 1" in text
    assert 'raise Broken(f"rank {rank} has had enough")' in text
    assert "submission/call.py" not in text
    assert job.state is JobState.FAILED


def test_a_function_that_fails_once_is_called_again(run_dir: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()

    job = submit(run_dir, functions.fail_first, str(marks), max_restarts=3)

    assert int(job.result(timeout=END_S)) > 1
    assert job.status().failures >= 1


def test_a_preempted_run_saves_comes_back_and_takes_each_step_once(run_dir: Path) -> None:
    job = submit(run_dir, functions.train_twice, 20)
    wait_for_work(job)

    job.preempt()
    results = job.results(timeout=END_S)

    saved, other = (len(json.loads(path.read_text())) for path in (run_dir / "checkpoints").glob("*.json"))
    assert saved == other > 5, "every rank saved at the same step"
    assert [one["took"] for one in results.values()] == [list(range(saved + 20))] * 2
    assert {one["attempt"] for one in results.values()} == {2}
    assert job.status().attempts == 2


def test_a_run_that_lost_an_agent_for_good_is_started_again(run_dir: Path) -> None:
    job = submit(run_dir, functions.train_twice, 20)
    wait_for_work(job)
    said = SupervisorState.read(SubmissionFiles(run_dir))
    assert said is not None

    os.kill(said.agents[1], signal.SIGKILL)

    assert job.wait(timeout=END_S) is JobState.COMPLETED
    first, second = snapshot.read(run_dir).attempts
    assert first.notice is not None
    assert first.notice.reason is Reason.NODE_FAILURE
    assert second.notice is None


def test_a_run_that_may_not_come_back_ends_preempted(run_dir: Path) -> None:
    job = submit(run_dir, functions.train, functions.ENDLESS, requeue=False)
    wait_for_work(job)

    job.preempt()

    assert job.wait(timeout=END_S) is JobState.PREEMPTED
    with pytest.raises(RunFailed, match="ended PREEMPTED"):
        job.result()


def test_a_preempted_run_is_continued_by_submitting_into_its_directory(run_dir: Path) -> None:
    first = submit(run_dir, functions.train_twice, 20, requeue=False)
    wait_for_work(first)
    with pytest.raises(UsageError, match="is RUNNING as job"):
        submit(run_dir, functions.train_twice, 20)
    first.preempt()
    assert first.wait(timeout=END_S) is JobState.PREEMPTED
    saved = len(json.loads((run_dir / "checkpoints" / "0.json").read_text()))

    second = submit(run_dir, functions.train_twice, 20)

    assert second.run_id == first.run_id
    assert second.result(timeout=END_S)["took"] == list(range(saved + 20))


def test_a_cancelled_run_leaves_no_process_also_where_a_thread_submitted_it(run_dir: Path) -> None:
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(submit, run_dir, functions.spin).result(END_S)
    wait_for_work(job, "spinning\n")
    assert processes_of(run_dir)

    job.cancel()

    assert job.wait(timeout=END_S) is JobState.CANCELLED
    with pytest.raises(RunCancelled):
        job.result()
    wait_until(lambda: not processes_of(run_dir), END_S, "no process is left")
    assert job.status().attempts == 1


def test_another_process_attaches_to_a_run_whose_submitter_has_gone(run_dir: Path) -> None:
    source = (
        "import sys, hpc_elastic\n"
        "def train(x):\n"
        "    import threading; threading.Event().wait(0.5); return x * 2\n"
        "hpc_elastic.submit(train, 21, nodes=2, cluster='local', run_dir=sys.argv[1])\n"
    )
    submitted = python(source, str(run_dir))
    assert submitted.returncode == 0, submitted.stderr

    assert Job.attach(run_dir).result(timeout=END_S) == 42
    attached = python(
        "import sys, hpc_elastic; print(hpc_elastic.Job.attach(sys.argv[1]).result(60))", str(run_dir)
    )
    assert attached.stdout == "42\n"


def test_a_script_catches_its_own_exception_by_its_class(run_dir: Path) -> None:
    source = (
        "import sys, hpc_elastic\n"
        "class Mine(Exception): pass\n"
        "def train(): raise Mine('mine')\n"
        "options = dict(nodes=1, cluster='local', max_restarts=0, run_dir=sys.argv[1])\n"
        "try: hpc_elastic.submit(train, **options).result(60)\n"
        "except Mine as caught: print('caught', caught)\n"
    )

    assert python(source, str(run_dir)).stdout == "caught mine\n"


def test_a_run_whose_supervisor_was_killed_has_failed_and_leaves_nothing(run_dir: Path) -> None:
    job = submit(run_dir, functions.spin)
    wait_for_work(job, "spinning\n")
    said = SupervisorState.read(job._files)
    assert said is not None

    os.kill(said.pid, signal.SIGKILL)

    wait_until(lambda: not processes_of(run_dir), END_S, "no process is left")
    with pytest.raises(RunFailed, match="it was killed"):
        job.result(timeout=END_S)


def test_a_run_whose_directory_was_removed_says_so_and_leaves_nothing(run_dir: Path) -> None:
    job = submit(run_dir, functions.train, functions.ENDLESS, rdzv_backend="file")
    wait_until(lambda: job.status().round, END_S, "they train")
    gone = run_dir.rename(run_dir.with_name("gone"))  # at once: they go on to write into what is there
    shutil.rmtree(gone, ignore_errors=True)
    with pytest.raises(RunFailed, match=rf"run directory {run_dir}: removed"):
        job.result(END_S)
    wait_until(lambda: not processes_of(run_dir), END_S, "nobody is left")
    assert not (run_dir / "submission").exists(), "the supervisor has not made it again"


def test_a_value_that_cannot_be_pickled_is_an_error_that_says_so(run_dir: Path) -> None:
    job = submit(run_dir, functions.unpicklable, nodes=1, max_restarts=0)

    with pytest.raises(SubmissionError, match="rank 0: the function returned a lock that cannot be pickled"):
        job.result(timeout=END_S)


def test_what_a_forked_process_returns_is_not_the_value_of_the_worker(run_dir: Path) -> None:
    assert submit(run_dir, functions.fork_and_return, nodes=1).result(END_S) == ("worker", 0)


def test_what_a_forked_process_raises_is_not_why_the_worker_failed(run_dir: Path) -> None:
    with pytest.raises(functions.Broken, match="of the worker"):
        submit(run_dir, functions.fork_and_raise, nodes=1, max_restarts=0).result(END_S)


def test_a_value_that_would_end_its_reader_is_an_error_that_says_where_it_is(run_dir: Path) -> None:
    with pytest.raises(RunFailed, match=r"cannot be loaded here \(SystemExit: 3\).*0\.pkl"):
        submit(run_dir, functions.EndsItsReader, nodes=1).result(END_S)


def test_a_function_that_ends_its_process_has_no_value(run_dir: Path) -> None:
    job = submit(run_dir, functions.exit_quietly, nodes=1)

    with pytest.raises(RunFailed, match="rank 0 ended with status 0 but did not return"):
        job.result(timeout=END_S)


def test_a_script_runs_after_the_setup_lines_with_its_arguments(run_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, sys\nprint(os.environ['FROM_SETUP'], *sys.argv[1:])\n")

    job = submit(run_dir, script, "--lr", 0.1, nodes=1, setup="export FROM_SETUP='a b'")

    assert job.result(timeout=END_S) is None
    assert job.logs() == "a b --lr 0.1\n"


def test_the_command_submits_a_script_and_prints_where_it_is(run_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys; print(*sys.argv[1:])\n")
    words = ["--nodes", "1", "--cluster", "local", "--run-dir", str(run_dir), str(script), "--nodes", "7"]
    command = "import sys; from hpc_elastic.cli.main import main; sys.exit(main(['submit', *sys.argv[1:]]))"

    printed = python(command, *words)

    assert printed.returncode == 0, printed.stderr
    job = Job.attach(run_dir)
    assert printed.stdout == f"job {job.job_id}\nrun {job.run_id}\ndirectory {run_dir}\n"
    assert job.wait(timeout=END_S) is JobState.COMPLETED
    assert job.logs() == "--nodes 7\n"
