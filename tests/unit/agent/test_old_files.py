"""Files of ours do not pile up over the lives of a run; what is a user's stays."""

from __future__ import annotations

from pathlib import Path

from hpc_elastic import settings
from hpc_elastic.agent import old_files
from hpc_elastic.agent.rundir import RunDirectory


def test_of_many_attempts_the_files_of_the_last_ones_stay_and_all_logs(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for attempt in range(1, 61):
        logs, errors = directory.logs(attempt, 1), directory.errors(attempt, 1)
        for folder in (logs, errors, directory.notice(attempt, 1, "n1").parent):
            folder.mkdir(parents=True)
            (folder / "0.json").touch()
        old_files.remove(directory, attempt - settings.KEPT_ATTEMPTS)

    last = {str(attempt) for attempt in range(11, 61)}
    assert {each.name for each in (tmp_path / "errors").iterdir()} == last
    assert {each.name for each in (tmp_path / "notices").iterdir()} == last
    assert len(list(tmp_path.glob("logs/*/1/0.json"))) == 60


def test_a_run_without_files_has_none_to_remove(tmp_path: Path) -> None:
    (tmp_path / "errors").mkdir()
    (tmp_path / "errors" / "notes").touch()

    old_files.remove(RunDirectory(tmp_path), 1000)

    assert (tmp_path / "errors" / "notes").exists()
