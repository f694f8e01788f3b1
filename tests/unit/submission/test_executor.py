"""What is given to sbatch: checked by submitit, ours where the run's life depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.errors import UsageError
from hpc_elastic.submission import executor, script
from hpc_elastic.submission.request import Options, SubmitRequest


@pytest.fixture(autouse=True)
def _client_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "srun"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def options(
    slurm: dict[str, Any] | None = None, *, nodes: object = 4, requeue: bool = True
) -> tuple[str, ...]:
    asked = Options(nodes=nodes, cluster="slurm", requeue=requeue, slurm=slurm)
    request = SubmitRequest.parse(print, (), {}, asked)
    return executor.options_of(request, script.locate().read_text(), Path("/run/submission"))


def test_a_plain_request_gives_what_the_run_needs_and_leaves_the_rest_to_the_site() -> None:
    assert sorted(options()) == [
        "--job-name=print",
        "--no-kill",
        "--nodes=4",
        "--open-mode=append",
        "--output=/run/submission/slurm-%j.out",
        "--requeue",
        "--signal=USR2@60",
    ]


def test_a_range_of_nodes_and_no_requeue_are_said_to_slurm() -> None:
    given = options(nodes="2:8", requeue=False)

    assert "--nodes=2-8" in given
    assert given[-1] == "--no-requeue"
    assert "--requeue" not in given


def test_options_go_by_sbatchs_names_and_by_submitits() -> None:
    asked = {"partition": "gpu", "timeout_min": 90, "mem_gb": 1.5, "gpus_per_node": 2}
    given = options({**asked, "reservation": "r 1", "exclusive": True})

    assert {"--partition=gpu", "--time=90", "--mem=1536MB", "--gpus-per-node=2"} <= set(given)
    assert {"--reservation=r 1", "--exclusive"} <= set(given)


def test_the_notice_may_come_earlier_but_stays_the_agents_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBMITIT_PREEMPT_SIGNAL", "KILL")

    assert "--signal=USR2@300" in options({"signal_delay_s": 300})


def test_additional_parameters_of_submitit_are_options_like_others() -> None:
    assert "--licenses=a:1" in options({"additional_parameters": {"licenses": "a:1"}})
    with pytest.raises(UsageError, match="is set by submit itself"):
        options({"additional_parameters": {"open-mode": "truncate"}})


@pytest.mark.parametrize(
    ("slurm", "says"),
    [
        (
            {"partitoin": "gpu"},
            "slurm has no option 'partitoin'; did you mean 'partition'?",
        ),
        ({"nodes": 2}, "slurm={'nodes': 2} is set by submit itself; give submit(nodes=...)"),
        (
            {"signal": "TERM@9"},
            "slurm={'signal': 'TERM@9'} is set by submit itself; the notice comes as USR2",
        ),
        ({"array": "0-3"}, "slurm={'array': '0-3'} is set by submit itself"),
        ({"qos": ["a"]}, "slurm={'qos': ['a']} has no value that sbatch takes"),
        ({"qos": "a\nb"}, "slurm={'qos': 'a\\nb'} has no value that sbatch takes"),
        ({"exclusive": False}, "slurm={'exclusive': False} has no meaning for sbatch"),
    ],
)
def test_an_option_that_cannot_be_given_is_named(slurm: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        options(slurm)

    assert str(refused.value).startswith(says)


def test_slurm_without_srun_is_refused(tmp_path: Path) -> None:
    (tmp_path / "srun").unlink()

    with pytest.raises(UsageError, match="srun is not"):
        options()
