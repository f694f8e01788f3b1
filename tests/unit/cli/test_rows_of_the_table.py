"""Every row of the table of commands: a test of its normal use, one of its `--json` form, three bad inputs.

The tests are named here, and it is an error of this file if one is not there, or if a command or a
subcommand has none.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.cli.main import COMMANDS
from hpc_elastic.cli.parser import CommandParser
from tests.unit.cli.test_every_command import BAD

ROOT: Final = Path(__file__).resolve().parents[3]
AGENT: Final = "tests/integration/agent"
LOCAL: Final = "tests/integration/local"
SLURM: Final = "tests/integration/slurm"
UNIT: Final = "tests/unit/cli"
HOUR: Final = "tests/examples/test_first_hour.py::test_the_page_of_the_sandbox_works_line_by_line"
_DONE_TO: Final = (
    f"{SLURM}/test_sandbox.py::test_what_is_done_to_a_job_and_to_a_node_is_one_json_object_where_asked"
)
_ITS_LIFE: Final = (
    f"{SLURM}/test_sandbox.py::test_it_comes_up_with_all_nodes_and_down_leaves_no_process_and_no_file"
)
NORMAL: Final = {
    "run": f"{AGENT}/test_standalone.py::test_two_workers_run_without_any_job",
    "submit": f"{LOCAL}/test_submit_local.py::test_the_command_submits_a_script_and_prints_where_it_is",
    "join": f"{SLURM}/test_lines_of_pages.py::test_nodes_join_a_run_as_the_page_about_pools_says",
    "status": f"{UNIT}/test_status.py::test_a_run_is_found_by_id_job_and_directory",
    "logs": f"{UNIT}/test_logs.py::test_the_newest_attempt_of_rank_0_comes_round_by_round",
    "report": f"{UNIT}/test_report.py::test_a_few_lines_say_where_the_time_went",
    "drain": f"{LOCAL}/test_orders.py::test_agents_started_by_hand_hear_an_order_through_the_record",
    "preempt": "tests/examples/test_first_hour.py"
    "::test_the_quickstart_of_the_readme_works_line_by_line_for_a_new_user",
    "cancel": f"{LOCAL}/test_orders.py::test_logs_follow_a_run_that_is_cancelled_to_its_end",
    "requeue": f"{SLURM}/test_main_job.py"
    "::test_a_preempted_job_saves_at_one_step_comes_back_by_itself_and_finishes_as_if_undisturbed",
    "doctor": f"{UNIT}/test_doctor.py::test_without_slurm_the_rest_is_told_all_the_same",
    "completion": "tests/integration/processes/test_completion.py"
    "::test_bash_completes_commands_options_and_runs",
    "sandbox up": HOUR,
    "sandbox down": HOUR,
    "sandbox status": HOUR,
    "sandbox exec": f"{SLURM}/test_sandbox.py::test_commands_run_as_an_ordinary_user_with_their_own_status",
    "sandbox kill-node": HOUR,
    "sandbox start-node": HOUR,
    "sandbox preempt": HOUR,
}
JSON: Final = {
    "run": f"{AGENT}/test_json_answer.py::test_every_agent_tells_the_same_root_cause_and_where_its_log_is",
    "submit": f"{LOCAL}/test_watching.py::test_submit_prints_one_json_object_where_asked",
    "join": f"{SLURM}/test_guests.py"
    "::test_a_second_job_joins_a_running_run_and_only_its_node_leaves_when_it_is_cancelled",
    "status": f"{UNIT}/test_status.py::test_json_has_the_whole_record",
    "logs": f"{UNIT}/test_logs.py::test_json_lists_the_files",
    "report": f"{UNIT}/test_report.py::test_json_has_seconds_that_add_up",
    "drain": f"{LOCAL}/test_orders.py::test_a_drained_run_saves_at_one_step_and_does_not_come_back",
    "preempt": f"{LOCAL}/test_orders.py::test_a_rehearsed_preemption_brings_the_run_back",
    "cancel": f"{LOCAL}/test_orders.py::test_a_rehearsed_preemption_brings_the_run_back",
    "requeue": f"{SLURM}/test_requeue_by_hand.py"
    "::test_each_step_of_a_batch_script_of_ones_own_tells_what_it_did_as_json",
    "doctor": f"{UNIT}/test_doctor.py::test_json_has_every_finding_with_what_to_do",
    "sandbox up": _ITS_LIFE,
    "sandbox down": _ITS_LIFE,
    "sandbox status": f"{SLURM}/test_sandbox.py::test_status_is_one_json_object_where_asked",
    "sandbox kill-node": _DONE_TO,
    "sandbox start-node": _DONE_TO,
    "sandbox preempt": _DONE_TO,
}
NO_JSON: Final = {
    "completion": "its output is a program for a shell",
    "sandbox exec": "its output is that of the command",
}


def parser_of(command: str) -> CommandParser:
    parser = CommandParser(prog=f"hpc-elastic {command}", description=COMMANDS[command])
    import_module(f"hpc_elastic.cli.{command}").add_arguments(parser)
    return parser


def rows() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command by its words, a subcommand as a row of its own."""
    for command in COMMANDS:
        parser = parser_of(command)
        inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if not inner:
            yield command, parser
        for action in inner:
            yield from ((f"{command} {name}", one) for name, one in action.choices.items())


def text_of(named: str) -> str:
    """The code of the test that a node id names, which has to be there, with the constants it uses."""
    path, _, name = named.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    tests = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name]
    assert len(tests) == 1, f"{named}: there is no such test"
    used = {one.id for one in ast.walk(tests[0]) if isinstance(one, ast.Name)}
    constants = (
        one for one in tree.body if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) in used
    )
    return "\n".join(map(ast.unparse, (*constants, *tests)))


@pytest.mark.parametrize(("row", "parser"), list(rows()), ids=[row for row, _ in rows()])
def test_a_row_of_the_table_has_a_json_form_that_is_tested_or_a_reason(
    row: str, parser: argparse.ArgumentParser
) -> None:
    offers = any("--json" in action.option_strings for action in parser._actions)

    assert offers == (row in JSON) == (row not in NO_JSON)
    if offers:
        assert "--json" in text_of(JSON[row])


@pytest.mark.parametrize("row", [row for row, _ in rows()])
def test_a_row_of_the_table_has_a_test_of_its_normal_use_and_three_bad_inputs(row: str) -> None:
    command, _, subcommand = row.partition(" ")

    assert text_of(NORMAL[row])
    of_its_own = [words for words, _ in BAD[command] if words[:1] == [subcommand] or not subcommand]
    assert len(of_its_own) >= 3


def test_no_test_is_named_for_a_command_that_is_not_there() -> None:
    assert {row for row, _ in rows()} == set(NORMAL) == set(JSON) | set(NO_JSON)
