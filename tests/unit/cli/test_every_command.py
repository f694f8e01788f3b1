"""Every command: words that it cannot use end it with one line that names them, and nothing is made."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.cli.main import COMMANDS, main

_NO_RUN: Final = "there is no run 'nowhere', neither as a directory nor in "
_MISSING: Final = "the following arguments are required: "
# Of each command: words, and what the line says of them.
BAD: Final[dict[str, list[tuple[list[str], str]]]] = {
    "run": [
        ([], "no script given; usage: hpc-elastic run"),
        (["--nnodes=4:2", __file__], "--nnodes 4:2: the minimum is above the maximum; write 2:4"),
        (["--nproc-per-node=x", __file__], "--nproc-per-node x: expected a number"),
        (["--max-restarts=-1", __file__], "--max-restarts -1: expected 0 or more"),
    ],
    "submit": [
        ([__file__], f"{_MISSING}--nodes"),
        (["--nodes=1", "--json", "-f", __file__], "--json with --follow"),
        (["--nodes=1", "--max-restarts=x", __file__], "--max-restarts: invalid int value: 'x'"),
        (["--nodes=1", "--cluster=moon", __file__], "cluster='moon' is unknown; use 'slurm', 'local'"),
    ],
    "join": [
        ([], "no run given; usage: hpc-elastic join RUN"),
        (["nowhere"], _NO_RUN),
        (["."], "does not say how the run was started"),
    ],
    "status": [
        (["nowhere"], _NO_RUN),
        (["a", "b"], "unexpected argument 'b'"),
        (["--nonsense"], "unknown option '--nonsense'"),
    ],
    "logs": [
        ([], f"{_MISSING}RUN"),
        (["nowhere"], _NO_RUN),
        ([".", "--rank=x"], "--rank x: give a number from 0 on, or all"),
        ([".", "--json", "-f"], "--json with --follow"),
    ],
    "report": [
        ([], f"{_MISSING}RUN"),
        (["nowhere"], _NO_RUN),
        ([".", "-o"], "-o/--output: expected one argument"),
    ],
    "drain": [
        ([], f"{_MISSING}RUN"),
        (["nowhere"], _NO_RUN),
        ([".", "--seconds=0"], "--seconds 0: expected a number of seconds above 0"),
    ],
    "preempt": [
        ([], f"{_MISSING}RUN"),
        (["nowhere"], _NO_RUN),
        ([".", "--nonsense"], "unknown option '--nonsense'"),
    ],
    "cancel": [
        ([], f"{_MISSING}RUN"),
        (["nowhere"], _NO_RUN),
        (["."], "nothing has started in "),
    ],
    "requeue": [
        (["--step-status=x", "--", __file__], "--step-status: invalid int value: 'x'"),
        (["--nonsense"], "unknown option '--nonsense'"),
        (["--step-status=1", "--", __file__], "no Slurm job here (SLURM_JOB_ID is not set)"),
    ],
    "doctor": [
        (["--nonsense"], "unknown option '--nonsense'"),
        (["--nodes=x"], "--nodes: invalid int value: 'x'"),
        (["here"], "unexpected argument 'here'"),
    ],
    "completion": [
        ([], f"{_MISSING}bash|zsh"),
        (["tcsh"], "invalid choice: 'tcsh'"),
        (["bash", "zsh"], "unexpected argument 'zsh'"),
    ],
    "sandbox": [
        ([], f"{_MISSING}SUBCOMMAND"),
        (["sideways"], "invalid choice: 'sideways'"),
        (["up", "--nodes=0", "--dir=none"], "--nodes 0: a sandbox has 1 to 64 nodes"),
        (["up", "--grace=soon", "--dir=none"], "--grace: invalid int value: 'soon'"),
        (["up", "--preempt-mode=stop"], "--preempt-mode: invalid choice: 'stop'"),
        (["down", "now"], "unexpected argument 'now'"),
        (["down", "--dir"], "--dir: expected one argument"),
        (["down", "--jsn"], "unknown option '--jsn'; did you mean --json?"),
        (["status", "1"], "unexpected argument '1'"),
        (["status", "--dir"], "--dir: expected one argument"),
        (["status", "--jsn"], "unknown option '--jsn'; did you mean --json?"),
        (["exec", "--dir=none"], "exec: no command given; for example"),
        (["exec", "--dir"], "--dir: expected one argument"),
        (["exec", "--dri=none", "--", "squeue"], "unknown option '--dri'; did you mean --dir?"),
        (["kill-node", "--dir=none"], f"{_MISSING}N"),
        (["kill-node", "1", "2"], "unexpected argument '2'"),
        (["kill-node", "1", "--jsn"], "unknown option '--jsn'; did you mean --json?"),
        (["start-node", "--dir=none"], f"{_MISSING}N"),
        (["start-node", "1", "2"], "unexpected argument '2'"),
        (["start-node", "1", "--jsn"], "unknown option '--jsn'; did you mean --json?"),
        (["preempt"], f"{_MISSING}JOB"),
        (["preempt", "1", "--seconds=x"], "--seconds: invalid int value: 'x'"),
        (["preempt", "1", "--seconds=0", "--dir=none"], "--seconds 0: the nodes are held for at least one"),
    ],
}


@pytest.mark.parametrize(
    ("command", "words", "says"),
    [(command, words, says) for command, rows in BAD.items() for words, says in rows],
    ids=[
        f"{command} {Path(words[-1]).name if words else 'alone'}"
        for command in BAD
        for words, _ in BAD[command]
    ],
)
def test_a_bad_command_line_is_one_line_and_makes_nothing(
    command: str,
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HPC_ELASTIC_HOME", "SLURM_JOB_ID", "HPC_ELASTIC_SANDBOX"):
        monkeypatch.delenv(name, raising=False)

    assert main([command, *words]) == 64

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("hpc-elastic: ")
    assert says in err
    assert list(tmp_path.iterdir()) == []


def test_each_command_has_three_of_them() -> None:
    assert set(BAD) == set(COMMANDS)
    assert [command for command, rows in BAD.items() if len(rows) < 3] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: hpc-elastic {command}" in capsys.readouterr().out
