"""The pages of docs/ that are made from the code: `python -m tools.generate_docs` writes them.

A unit test compares the files with what this makes, so a page cannot grow stale.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from benchmarks import controller, preemption, releases, results
from benchmarks.filesystems import table
from hpc_elastic.agent import machine
from hpc_elastic.agent.state import Phase
from hpc_elastic.cli import torchrun
from hpc_elastic.exit_codes import MEANINGS
from tools import cli_page

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"


def exit_codes() -> str:
    """The page about exit codes, from the one table in `hpc_elastic/exit_codes.py`."""
    rows = "\n".join(f"| {int(code)} | `{code.name}` | {meaning} |" for code, meaning in MEANINGS.items())
    return f"""# Exit codes

Made from `hpc_elastic/exit_codes.py` by `make docs`; do not edit.

How `hpc-elastic run` ends, and a job of `sbatch/elastic.sh` after its agents.

| code | name | meaning |
| ---: | --- | --- |
{rows}

Any other status is that of the worker whose failure came first (the root cause), 128 + n for signal n.
A worker's own status from 80 to 85 would be mistaken for one of these, so it is reported as 1.
"""


def filesystems() -> str:
    """The page about file systems: as it is written, with the table of the last measured run."""
    return _with_measured("filesystems.md", table(_measured("filesystems")["kinds"]))


def preempted() -> str:
    """The page about preemptions: as it is written, with the tables of the last measured run."""
    found = _measured("preemption")
    often, away = found["again_and_again"][0], _measured("controller")
    counted = f"{often['restarts']} restarts, {often['failures']} failures counted"
    tables = (
        preemption.table(found["preemptions"]),
        preemption.table_of_events(found["events"]),
        f"One job preempted {often['preemptions']} times: {counted}, in the end {often['state']}.",
        controller.table(away["seconds"], away["moments"]),
        controller.in_words(away["undisturbed"]),
    )
    return _with_measured("preemption.md", "\n\n".join(tables))


def submitted() -> str:
    """The page for people from submitit: as it is written, with what a result has been waited for through."""
    return _with_measured("from-submitit.md", results.table(_measured("results")))


def slurm_facts() -> str:
    """The page about Slurm itself: as it is written, with the table of the releases that were measured."""
    return _with_measured("slurm-facts.md", releases.table(_measured("releases")["releases"]))


def _measured(name: str) -> dict[str, Any]:
    found = json.loads((DOCS / "measured" / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def _with_measured(name: str, text: str) -> str:
    page = (DOCS / name).read_text(encoding="utf-8")
    before, begin, rest = page.partition("<!-- measured -->\n")
    _, end, after = rest.partition("<!-- end -->")
    return f"{before}{begin}{text}\n{end}{after}"


def agent() -> str:
    """The page about the agent's machine: each cell of its table, and what each rule and input is."""
    phases = [phase for phase in Phase if phase is not Phase.GONE]
    inputs = list(dict.fromkeys(given for _, given in machine.RULES))
    used = list(dict.fromkeys(machine.RULES.values()))
    head = ["told", *(phase.value for phase in phases)]
    cells = ([given.__name__, *(_cell(phase, given) for phase in phases)] for given in inputs)
    return f"""# The agent's machine

Made from the table in `hpc_elastic/agent/machine.py` by `make docs`; do not edit.

The agent of a node (`hpc-elastic run`) is a pure machine: what it is told in a phase leads to a new phase and
to actions, by the one rule in the cell. A test visits every cell. An empty cell cannot be reached (while
`joining` no worker runs, a time is only over where it was set, nothing follows `gone`); being asked for one
is an error that names both, never silence.

{_table(head, cells)}

What the agent is told:

{_table(["input", "is"], ([f"`{given.__name__}`", _promise(given)] for given in inputs))}

What it does about it:

{_table(["rule", "does"], ([f"`{rule.__name__}`", _promise(rule)] for rule in used))}
"""


def _cell(phase: Phase, given: type[Any]) -> str:
    rule = machine.RULES.get((phase, given))
    return "" if rule is None else f"`{rule.__name__}`"


def _promise(thing: object) -> str:
    """The first sentence of its documentation."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "agent.md": agent,
    "cli.md": cli_page.page,
    "exit-codes.md": exit_codes,
    "filesystems.md": filesystems,
    "from-torchrun.md": torchrun.page,
    "preemption.md": preempted,
    "from-submitit.md": submitted,
    "slurm-facts.md": slurm_facts,
}


def write() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
