"""Submitting: nothing exists before everything was checked, and nothing stays of what was refused."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.errors import RunDirectoryError, SubmissionError, UsageError
from hpc_elastic.submission import claim
from hpc_elastic.submission.request import Options, SubmitRequest
from hpc_elastic.submission.submit import Submission, submit
from tests.unit.submission.run_records import HandClock, RunRecord


def train() -> None:
    """Something to submit."""


def prepare(run_dir: Path | None = None, home: Path | None = None, **options: Any) -> Submission:
    asked = Options(**{"nodes": 2, "cluster": "local", "run_dir": run_dir, **options})
    request = SubmitRequest.parse(train, (), {}, asked)
    around = {} if home is None else {"HPC_ELASTIC_HOME": str(home)}
    return Submission.prepare(request, around, HandClock())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nodes": 0}, "nodes=0"),
        ({"nodes": "x"}, "nodes='x'"),
        ({"nodes": "4:2"}, "nodes='4:2'"),
        ({"nodes": 1, "pool": 2}, "pool=2"),
    ],
)
def test_bad_values_are_refused_and_nothing_is_created(
    given: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=says):
        submit(train, cluster="local", run_dir=tmp_path / "run", **given)

    assert list(tmp_path.iterdir()) == []


def test_a_function_that_cannot_be_pickled_is_refused_and_nothing_is_created(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"argument 1 of train, .* cannot be pickled"):
        submit(train, threading.Lock(), nodes=1, cluster="local", run_dir=tmp_path / "run")

    assert list(tmp_path.iterdir()) == []


def test_a_run_directory_on_a_file_is_refused_and_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")

    with pytest.raises(RunDirectoryError, match="is not a directory"):
        submit(train, nodes=1, cluster="local", run_dir=tmp_path / "run")

    assert (tmp_path / "run").read_text() == "mine"


def test_what_slurm_refuses_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "srun"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: gpu' >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    home = Path("/tmp") / f"hpc-elastic-{os.urandom(6).hex()}"
    monkeypatch.setenv("HPC_ELASTIC_HOME", str(home))
    monkeypatch.delenv("HPC_ELASTIC_ALLOW_LOOPBACK", raising=False)

    refused = pytest.raises(Exception, match=r"Slurm did not take the job: .*partition specified: gpu")
    with refused, pytest.warns(RuntimeWarning, match="lies below /tmp, which each node has for itself"):
        submit(train, nodes=1, cluster="slurm", slurm={"partition": "gpu"})

    assert not home.exists()


def test_a_controller_that_is_away_is_waited_for_and_what_the_site_changed_is_set_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = "JobId=71 JobName=a UserId=u(1) GroupId=g(1) JobState=PENDING Requeue=0 NumNodes=1"
    programs = {
        "sbatch": f"""if mkdir {tmp_path}/tried 2>/dev/null
            then echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1
            else echo Submitted batch job 71; fi""",
        "scontrol": f"echo $* >>{tmp_path}/asked; echo '{record}'",
        "srun": "",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = SubmitRequest.parse(train, (), {}, Options(nodes=1, cluster="slurm", run_dir=tmp_path / "run"))

    one_machine = {"HPC_ELASTIC_ALLOW_LOOPBACK": "1"}
    with pytest.warns(RuntimeWarning) as said:
        job = Submission.prepare(asked, one_machine, HandClock()).start()

    assert job.job_id == "71"
    first, second = (str(one.message) for one in said if one.category is RuntimeWarning)
    assert "out of reach" in first
    assert "it is set to 1" in second
    assert "update JobId=71 Requeue=1" in (tmp_path / "asked").read_text()
    assert len(list((tmp_path / "run" / "submission").glob("job-*.sh"))) == 1


def test_of_two_submissions_into_one_directory_the_second_leaves_the_firsts_alone(tmp_path: Path) -> None:
    first, second = prepare(tmp_path / "run"), prepare(tmp_path / "run")
    folder = first.files.folder
    folder.mkdir(parents=True)

    with claim.held(folder), pytest.raises(UsageError, match="is under way; wait for it"):
        second.start()
    assert folder.exists()

    run = RunRecord(tmp_path / "run")
    run.begin()
    run.submitted()
    run.close(succeeded=True)
    with pytest.raises(UsageError, match="is done; read it with"):
        second.start()
    assert folder.exists()


def test_where_there_is_no_room_nothing_is_submitted_and_no_half_file_stays(tmp_path: Path) -> None:
    (run_dir := tmp_path / "run").mkdir(mode=0o700)
    asked = prepare(run_dir=run_dir, cluster="local")
    asked.files.folder.mkdir()
    payload = asked.files.payload
    payload.with_name(f".{payload.name}.{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(SubmissionError, match=r"nothing is submitted.*No space left.*make room in"):
        asked.start()
    assert list(asked.files.folder.iterdir()) == []


def test_a_run_lies_in_the_home_under_an_id_of_its_own(tmp_path: Path) -> None:
    one, other = prepare(home=tmp_path), prepare(home=tmp_path)

    assert one.files.run_dir == tmp_path / one.run_id
    assert one.run_id.startswith("train-20260101-000000-")
    assert one.run_id != other.run_id
    assert prepare(home=tmp_path, run_id="mine").files.run_dir == tmp_path / "mine"


def test_a_failed_run_is_continued_under_its_own_id(tmp_path: Path) -> None:
    run = RunRecord(tmp_path)
    run.begin()
    run.submitted()
    run.fail(1, 1)

    again = prepare(tmp_path)

    assert (again.run_id, again.after_attempt) == ("run", 1)
    with pytest.raises(UsageError, match="holds the run 'run'; leave it out"):
        prepare(tmp_path, run_id="other")


def test_a_run_that_is_done_is_not_run_again(tmp_path: Path) -> None:
    run = RunRecord(tmp_path)
    run.begin()
    run.submitted()
    run.close(succeeded=True)

    with pytest.raises(UsageError, match=r"is done; read it with Job\.attach, or give another run_dir"):
        prepare(tmp_path)


def test_a_script_is_handed_to_the_agents_with_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    request = SubmitRequest.parse(
        script, ("--lr", 1), {}, Options(nodes="2:4", cluster="local", nproc_per_node=3)
    )

    words = Submission.prepare(request, {}, HandClock()).arguments()

    assert words[:3] == ("--nnodes=2:4", "--nproc-per-node=3", "--max-restarts=3")
    assert words[-3:] == (str(script), "--lr", "1")


def test_a_function_is_called_by_a_module_that_knows_the_run_directory(tmp_path: Path) -> None:
    words = prepare(tmp_path / "run").arguments()

    assert words[-3:] == ("--module", "hpc_elastic.submission.call", str(tmp_path / "run"))
    assert f"--run-dir={tmp_path / 'run'}" in words
