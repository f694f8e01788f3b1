"""`status`, `logs` and `report` need the run's directory and nothing else, and leave it as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpc_elastic.cli.main import main
from tests.unit.submission.run_records import RunRecord


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A failed run, brought to another machine: no Slurm, no other place where it was."""
    run = RunRecord(tmp_path / "there" / "run")
    run.begin()
    run.submitted()
    run.fail(1, 3)
    logs = run.files.run_dir / "logs" / "1" / "1"
    logs.mkdir(parents=True)
    (logs / "1.out").write_text("step 7\n")
    shutil.move(run.files.run_dir, tmp_path / "here")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "here"


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below a folder, with the time of its last change and what is in it."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("status",), "failed with status 1: it broke"),
        (("status", "--json"), '"summary": "failed with status 1: it broke"'),
        (("logs", "--rank", "1"), "step 7"),
        (("logs", "--rank", "1", "--json"), '"size_bytes": 7'),
        (("report",), "of it useful"),
        (("report", "--json"), '"elapsed_s"'),
        (("report", "-o", "page.html"), "written to page.html"),
    ],
)
def test_a_copy_of_a_run_tells_all_and_stays_as_it_is(
    words: tuple[str, ...], says: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(copy)

    assert main([words[0], str(copy), *words[1:]]) == 0

    assert says in capsys.readouterr().out
    assert content(copy) == before
