"""Whether `-m NAME` names a module, without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpc_elastic.cli.modules import is_there


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "train.py").touch()
    (tmp_path / "spaces" / "inner").mkdir(parents=True)
    (tmp_path / "spaces" / "inner" / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("name", ["pack", "pack.train", "spaces.inner.train", "json.tool", "sys"])
def test_what_is_there_is_found_and_not_imported(name: str) -> None:
    assert is_there(name)
    assert "pack" not in sys.modules


@pytest.mark.parametrize(
    "name", ["nosuch", "nosuch.train", "pack.nosuch", "pack.train.nosuch", "spaces.nosuch", "", ".pack"]
)
def test_what_is_not_there_is_not_found(name: str) -> None:
    assert not is_there(name)


def test_a_package_that_changes_its_own_path_may_hold_anything(package: Path) -> None:
    (package / "__init__.py").write_text("__path__ = ['elsewhere']")

    assert is_there("pack.elsewhere")
