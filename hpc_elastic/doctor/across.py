"""The same look on every node of an allocation, and whether they see each other's files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from hpc_elastic.clock import Clock
from hpc_elastic.doctor.finding import Finding, Level
from hpc_elastic.errors import SubmissionError, UsageError
from hpc_elastic.slurm import commands

START_S: Final = 120.0
MEET_S: Final = 70.0  # an NFS client may hide a new name for up to a minute
_LOOK_EVERY_S: Final = 0.1
_MARK: Final = "hpc-elastic-doctor "


def ask_nodes(
    count: int, folder: Path, home: Path, variables: Mapping[str, str]
) -> list[tuple[str, list[Finding]]]:
    """What each of `count` nodes finds, through one `srun`; `folder` is new, and they meet in it.

    With the interpreter that agents would have: by `variables`, those of the submitting shell. Raises
    `SubmissionError` where the step does not run, with what `srun` said.
    """
    one_on_each = (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1")
    python = (
        *variables.get("HPC_ELASTIC_LAUNCH_PREFIX", "").split(),
        variables.get("HPC_ELASTIC_PYTHON") or sys.executable,
    )
    look = ("-m", "hpc_elastic", "doctor", "--run-dir", str(home), "--meet", f"{count}:{folder}")
    command = ("srun", *one_on_each, "--mpi=none", "--input=none", *python, *look)
    answer = commands.run(command, START_S + MEET_S)
    by_node: dict[str, list[Finding]] = {}
    for line in answer.output.splitlines():
        _, mark, body = line.partition(_MARK)
        if mark:
            node, found = decode(body)
            by_node.setdefault(node, []).append(found)
    if len(by_node) < count:
        said = " ".join(answer.complaint.split())
        raise SubmissionError(
            f"{len(by_node)} of {count} nodes answered: {said or answer}; "
            "see `sinfo`, and run it inside an allocation (salloc -N ...) where nodes have to be waited for"
        )
    return sorted(by_node.items())


def encode(node: str, findings: Sequence[Finding]) -> str:
    """A line for each finding that `ask_nodes` knows among whatever else a node prints.

    `srun` passes lines on whole as long as they are short.
    """
    bodies = (json.dumps({"node": node, **asdict(one)}) for one in findings)
    return "\n".join(f"{_MARK}{body}" for body in bodies)


def decode(line: str) -> tuple[str, Finding]:
    """Node and finding from such a line, its mark taken off."""
    body = json.loads(line)
    found = Finding(body["check"], Level(body["level"]), body["fact"], body["meaning"], body["do"])
    return body["node"], found


def meet(text: str, node: str, clock: Clock) -> Finding:
    """Put this node's name into the folder that `text` (`COUNT:FOLDER`) names, and wait for the others'."""
    count, _, path = text.partition(":")
    if not count.isdecimal() or not path:
        raise UsageError(f"--meet {text}: expected COUNT:FOLDER")
    folder = Path(path)
    try:
        (folder / node).touch()
        began_s = clock.monotonic_s()
        while (seen := len(os.listdir(folder))) < int(count) and clock.monotonic_s() - began_s < MEET_S:
            clock.sleep_s(_LOOK_EVERY_S)
    except OSError as failed:
        seen, began_s = 0, clock.monotonic_s()
        fact = f"{folder}: {failed.strerror}"
    else:
        fact = f"{seen} of {count} nodes see each other's files"
    if seen >= int(count):
        return Finding("shared directory", Level.FINE, fact, "they can meet here")
    return Finding(
        "shared directory",
        Level.PROBLEM,
        fact,
        "nodes that do not share this directory cannot meet in it",
        "export HPC_ELASTIC_HOME=... (a directory that all nodes see)",
    )
