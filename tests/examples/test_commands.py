"""Every line that a page tells people to type is run by a test, or it says here why not."""

from __future__ import annotations

import shlex
from typing import Final

import pytest

from hpc_elastic.cli.main import COMMANDS
from hpc_elastic.errors import UsageError
from tests.examples import folders, pages
from tests.examples.example_runs import ROOT
from tests.examples.test_example_folders import ON_SLURM, ON_THIS_MACHINE
from tests.unit.cli.test_help import parser_of

# Run line by line as they stand: (page, section; empty: all of it), by these tests.
HOUR: Final = "tests/examples/test_first_hour.py"
LINES: Final = "tests/integration/slurm/test_lines_of_pages.py"
SECTIONS: Final = {
    (
        "README.md",
        "Quickstart",
    ): f"{HOUR}::test_the_quickstart_of_the_readme_works_line_by_line_for_a_new_user",
    ("docs/sandbox.md", ""): f"{HOUR}::test_the_page_of_the_sandbox_works_line_by_line",
    ("docs/from-lightning.md", ""): f"{LINES}::test_lines_that_submit_train_as_the_pages_say",
    ("docs/other-languages.md", ""): f"{LINES}::test_lines_that_submit_train_as_the_pages_say",
    ("docs/pools.md", ""): f"{LINES}::test_nodes_join_a_run_as_the_page_about_pools_says",
}
# Run by a test in these words or with other numbers and names.
IN_OTHER_WORDS: Final = {
    "sbatch -N 4 elastic.sh train.py": SECTIONS["README.md", "Quickstart"],
    "make demo": "tests/integration/slurm/test_demo.py",
    "hpc-elastic status": "tests/unit/cli/test_status.py",
}
NOT_RUN: Final = {
    "git clone <this repository> && cd hpc-elastic": "the address is the reader's; tests run on a copy",
    "make sandbox": "installs Debian packages; what it starts is `hpc-elastic sandbox up`, which is run",
    ". .venv/bin/activate": "tests have an environment of their own",
}
REHEARSAL: Final = "tests/examples/test_readme.py::test_the_rehearsal_of_the_readme_works_line_by_line"


def run_as_they_stand(page: str) -> set[str]:
    """The lines of a page that a test takes from it."""
    lines = {line for at, section in SECTIONS if at == page for line in pages.typed(page, section)}
    if page == "README.md":
        rehearsed = pages.typed(page, "Rehearse on your own machine")
        lines |= {line for line in rehearsed if line.startswith("hpc-elastic ")}
    if page.startswith("examples/"):
        name = page.split("/")[1]
        starts = {"hpc-elastic run ": ON_THIS_MACHINE, "sbatch ": ON_SLURM}
        lines |= {
            line
            for line in folders.commands(name)
            if any(line.startswith(start) and name in names for start, names in starts.items())
        }
    return lines


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_line_that_is_to_be_typed_is_run_by_a_test_or_says_why_not(page: str) -> None:
    known = run_as_they_stand(page) | set(pages.typed("README.md", "Quickstart")) | set(IN_OTHER_WORDS)

    assert [line for line in pages.typed(page) if line not in known and line not in NOT_RUN] == []


@pytest.mark.parametrize("page", pages.PAGES)
def test_a_command_in_the_middle_of_a_sentence_is_one_that_is_understood(page: str) -> None:
    """It may be a part of one: what is missing is no mistake, what nobody knows is."""
    wrong = []
    for said in pages.spoken(page):
        name, *words = shlex.split(said.removeprefix("hpc-elastic "), comments=True)
        if name not in COMMANDS:
            wrong.append(said)
        elif name != "join":  # what it does not know is for sbatch
            parser = parser_of(name)
            try:
                parser.refuse_unknown(parser.parse_known_args(words)[1])
            except UsageError as refused:
                wrong += [] if "arguments are required" in str(refused) else [f"{said}: {refused}"]

    assert wrong == []


def test_the_table_names_tests_that_are_there_and_lines_that_are_typed() -> None:
    for named in (*SECTIONS.values(), *IN_OTHER_WORDS.values(), REHEARSAL):
        path, _, test = named.partition("::")
        assert f"def {test}" in (ROOT / path).read_text(encoding="utf-8"), named
    typed = {line for page in pages.PAGES for line in pages.typed(page)}
    assert (set(IN_OTHER_WORDS) | set(NOT_RUN)) - typed == set()
