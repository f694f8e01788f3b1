"""What `submit` takes, and the one message for each value that it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.errors import UsageError
from hpc_elastic.submission.request import NodeRange, Options, SubmitRequest


def train() -> None:
    """Something to submit."""


def parse(fn: object = train, *args: Any, **options: Any) -> SubmitRequest:
    kwargs = options.pop("kwargs", {})
    return SubmitRequest.parse(fn, args, kwargs, Options(**{"nodes": 1, "cluster": "local", **options}))


@pytest.mark.parametrize(
    ("given", "low", "high", "text"),
    [(4, 4, 4, "4"), ("4", 4, 4, "4"), ("2:8", 2, 8, "2:8"), (" 3:3 ", 3, 3, "3")],
)
def test_nodes_are_a_number_or_a_range(given: object, low: int, high: int, text: str) -> None:
    parsed = NodeRange.parse(given)

    assert parsed == NodeRange(low, high)
    assert parsed.text() == text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (0, "nodes=0 asks for 0 nodes"),
        (-1, "nodes=-1 asks for -1 nodes"),
        ("x", "nodes='x' is no number of nodes"),
        ("4:2", "nodes='4:2' has more minimum than maximum; write it as \"2:4\""),
        ("0:2", "nodes='0:2' asks for 0 nodes"),
        ("1:2:3", "nodes='1:2:3' is no number of nodes"),
        (2.0, "nodes=2.0 is no number of nodes"),
        (True, "nodes=True is no number of nodes"),
        (None, "nodes=None is no number of nodes"),
        (10**6, "nodes=1000000 asks for more than 999999 nodes"),
        (
            "2:300",
            "nodes='2:300' on cluster='local' would start 300 agents on this machine; give at most 256",
        ),
    ],
)
def test_other_nodes_are_refused_with_their_value(given: object, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(nodes=given)

    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("nproc_per_node", 0, "nproc_per_node=0 is no number of workers"),
        ("nproc_per_node", "many", "nproc_per_node='many' is no number of workers"),
        ("cluster", "pbs", "cluster='pbs' is unknown; use 'slurm', 'local' or 'auto'"),
        ("run_id", "../x", "run_id='../x' cannot be a directory name"),
        ("run_dir", 3, "run_dir=3 is no path"),
        ("name", "a\nb", "name='a\\nb' cannot be a job name"),
        ("max_restarts", -1, "max_restarts=-1 is no number of restarts"),
        ("requeue", "no", "requeue='no' is neither True nor False"),
        ("pool", "yes", "pool='yes' is neither True nor False"),
        ("rdzv_backend", "c10d", "rdzv_backend='c10d' is unknown; use one of auto, file, etcd"),
        ("rdzv_endpoint", 1, "rdzv_endpoint=1 has no use"),
        ("rdzv_endpoint", "h:x", "etcd endpoint h:x: 'x' is no port"),
        ("slurm", "gpu", "slurm='gpu' is no dictionary of options"),
        ("slurm", {"qos": "x"}, "slurm={'qos': 'x'} has no use with cluster='local'"),
        ("setup", 3, "setup=3 is no list of shell lines"),
        ("python", "", "python='' is no path of an interpreter"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(option: str, value: object, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(**{option: value})

    assert str(refused.value).startswith(says)


def test_slurm_without_sbatch_is_refused_and_auto_takes_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="sbatch is not on the PATH; submit from a login node"):
        parse(cluster="slurm")
    assert parse(cluster="auto").cluster == "local"


def test_auto_takes_slurm_where_sbatch_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sbatch").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert parse(cluster="auto").cluster == "slurm"


def test_a_script_is_an_existing_file_with_text_for_arguments(tmp_path: Path) -> None:
    script = tmp_path / "my train.py"
    script.touch()

    request = parse(str(script), "--epochs", 3)

    assert (request.function, request.script, request.args) == (None, script, ("--epochs", 3))
    assert request.name == "my-train"
    with pytest.raises(UsageError, match=r"nowhere\.py does not exist"):
        parse(tmp_path / "nowhere.py")
    with pytest.raises(UsageError, match="takes no keyword arguments, but lr was given"):
        parse(script, kwargs={"lr": 1})
    with pytest.raises(UsageError, match=r"argument \[1\] of the script"):
        parse(script, [1])
    with pytest.raises(UsageError, match="fn=3 is neither a function nor the path of a script"):
        parse(3)


def test_a_function_names_its_job_and_keeps_its_arguments() -> None:
    request = parse(train, 1, kwargs={"lr": 2}, setup="module load x\nexport A=1")

    assert (request.name, request.args, request.kwargs) == ("train", (1,), {"lr": 2})
    assert request.setup == ("module load x", "export A=1")
    assert parse(lambda: None).name == "lambda"


def test_slurm_options_may_be_written_as_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sbatch").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert parse(cluster="slurm", slurm={"--gpus-per-node": 2}).slurm == {"gpus_per_node": 2}
