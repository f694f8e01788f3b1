"""Hostile names in a submission: each is carried as it was given, or refused in one line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.errors import UsageError
from hpc_elastic.submission import executor, script, texts
from hpc_elastic.submission.request import Options, SubmitRequest
from hpc_elastic.submission.submit import Submission
from tests.hostile import TEXTS
from tests.unit.submission.run_records import HandClock

each_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())


@pytest.fixture(autouse=True)
def _client_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "srun"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def request(fn: Any = print, *args: Any, **options: Any) -> SubmitRequest:
    return SubmitRequest.parse(fn, args, {}, Options(**{"nodes": 1, "cluster": "slurm", **options}))


def refusal(fn: Any = print, *args: Any, **options: Any) -> str:
    with pytest.raises(UsageError) as refused:
        request(fn, *args, **options)
    said = str(refused.value)
    assert said.isprintable()
    assert len(said) < 800
    return said


@each_text
def test_a_script_may_have_any_name_and_any_arguments(tmp_path: Path, text: str) -> None:
    path = tmp_path / f"{text}.py"
    path.touch()

    asked = request(path, text, run_dir=tmp_path / "run")

    assert Submission.prepare(asked, {}, HandClock()).arguments()[-2:] == (str(path), text)


@each_text
def test_a_script_that_is_not_there_is_named_in_one_line(text: str) -> None:
    assert "does not exist" in refusal(f"/nowhere/{text}")


@each_text
def test_a_run_directory_may_have_any_name_that_slurm_can_write_to(tmp_path: Path, text: str) -> None:
    asked = request(run_dir=tmp_path / text)

    if "\\" in text:
        with pytest.raises(UsageError, match=r"has a backslash, .* choose another"):
            Submission.prepare(asked, {}, HandClock())
    else:
        words = Submission.prepare(asked, {}, HandClock()).arguments()
        assert f"--run-dir={tmp_path / text}" in words
        output = f"--output={str(tmp_path).replace('%', '%%')}/{text.replace('%', '%%')}/slurm-%j.out"
        assert output in executor.options_of(asked, script.locate().read_text(), tmp_path / text)


def words(**options: Any) -> tuple[str, ...] | str:
    """What sbatch is given, or the refusal."""
    try:
        return executor.options_of(request(**options), script.locate().read_text(), Path("/run"))
    except UsageError as refused:
        return str(refused)


@each_text
def test_a_job_name_and_a_value_for_sbatch_are_one_word_or_refused(text: str) -> None:
    for options, word in (
        ({"name": text}, f"--job-name={text.strip()}"),
        ({"slurm": {"comment": text}}, f"--comment={text}"),
    ):
        given = words(**options)
        if text.isprintable():
            assert word in given
        else:
            assert isinstance(given, str)
            assert given.isprintable()


@each_text
def test_a_run_id_is_a_plain_name_or_refused(text: str) -> None:
    if text == TEXTS["very long"]:
        assert request(run_id=text).run_id == text
    else:
        assert "cannot be a directory name; use letters" in refusal(run_id=text)


@each_text
def test_an_option_of_sbatch_with_such_a_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="slurm has no option"):
        executor.check(request(slurm={text: 1}))


@each_text
def test_variables_of_the_script_are_quoted(text: str) -> None:
    made = script.compose(f"\n{script.SETUP_MARK}\n", {"NAME": text}, ())

    assert shlex.split(made, comments=True) == ["export", f"NAME={text}"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"run_dir": "/tmp/a\0b"}, "run_dir '/tmp/a\\x00b' has a zero byte"),
        ({"run_dir": "/tmp/\ud800"}, "run_dir '/tmp/\\ud800' cannot be encoded"),
        ({"setup": "a\0b"}, "setup 'a\\x00b' has a zero byte"),
        ({"setup": ["x" * 200_000]}, "has 200000 bytes, and one word of a command line takes 131071"),
        ({"python": "a\0b"}, "python 'a\\x00b' has a zero byte"),
        ({"python": "/no such; touch x", "cluster": "local"}, "is no program that you may run here"),
        ({"name": "n" * 5000}, "cannot be a job name; give printable text of 1 to 200 characters"),
        ({"run_id": "r" * 5000}, "cannot be a directory name"),
    ],
)
def test_what_no_command_line_can_hold_is_refused(given: dict[str, Any], says: str) -> None:
    assert says in refusal(**given)


def test_arguments_that_no_command_line_can_hold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.touch()

    assert "argument of train.py 'a\\x00b' has a zero byte" in refusal(path, "a\0b")
    assert "write it to a file and give its path" in refusal(path, "x" * (texts.MOST_BYTES + 1))
    assert "argument of train.py: 1100 of 1101100 bytes together" in refusal(path, *["x" * 1000] * 1100)
    assert request(path, "x" * texts.MOST_BYTES).args == ("x" * texts.MOST_BYTES,)


def test_names_that_no_file_can_have_are_refused() -> None:
    assert "does not exist" in refusal("x" * 5000)
    assert "does not exist" in refusal("a\0b")
    assert "a script with an empty name does not exist" in refusal("")
