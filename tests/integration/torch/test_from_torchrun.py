"""Every option of the installed torchrun is taken by `hpc-elastic run`, or refused with what to use."""

from __future__ import annotations

import argparse

import pytest

from hpc_elastic.cli import run_options, torchrun
from hpc_elastic.errors import UsageError

SCRIPT = "train.py"


def name_of(action: argparse.Action) -> str:
    return max(action.option_strings, key=len).replace("_", "-")


def options() -> list[argparse.Action]:
    parser = pytest.importorskip("torch.distributed.run").get_args_parser()
    return [each for each in parser._actions if each.option_strings and each.dest != "help"]


def test_the_page_for_people_from_torchrun_has_every_option() -> None:
    assert {name_of(each) for each in options()} == set(torchrun.OPTIONS)


def test_every_spelling_with_torchruns_own_default_is_taken_or_refused_with_what_to_use() -> None:
    refusals: dict[str, str] = {}
    for action in options():
        for spelling in action.option_strings:
            words = [spelling] if action.nargs == 0 else [spelling, given_for(action)]
            try:
                run_options.parse([*words, SCRIPT, spelling])
            except UsageError as refused:
                refusals[name_of(action)] = str(refused)

    assert set(refusals) == {"--rdzv-backend", "--logs-specs", "--numa-binding"}
    for name, said in refusals.items():
        assert name in said
        assert any(way in said for way in ("; use ", "; leave ", "; give ")), said


def test_what_stands_behind_the_script_is_the_scripts() -> None:
    for action in options():
        words = [SCRIPT, *action.option_strings]

        assert list(run_options.parse(words).command) == words


def given_for(action: argparse.Action) -> str:
    """torchrun's default, or what people write where it has none."""
    if isinstance(action.default, str) and action.default:
        return action.default
    written = {
        "--local-ranks-filter": "0,1",
        "--log-dir": "/logs",
        "--logs-specs": "mine",
        "--numa-binding": "node",
        "--rdzv-conf": "timeout=60,keep_alive_interval=5",
        "--shutdown-timeout": "30",
        "--master-port": "29500",
    }
    default = "" if isinstance(action.default, list) else str(action.default)
    return written.get(name_of(action), "host" if default in ("", "None") else default)
