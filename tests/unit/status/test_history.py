"""Progress and pace as the nodes' event files tell them, broken lines and all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpc_elastic.events import PROGRESS
from hpc_elastic.status import history, pace
from hpc_elastic.status.history import History, Mark


def progress(at_s: float, step: int, saved: int = -1, save_s: float = 0.0) -> str:
    about = {"attempt": 1, "round": 2, "step": step, "saved_step": saved, "save_s": save_s}
    return json.dumps({"schema": 1, "name": PROGRESS, "timestamp": int(at_s * 1000), "metadata": about})


def write(run_dir: Path, node: str, *lines: str) -> None:
    path = run_dir / "events" / f"{node}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def test_marks_of_all_nodes_come_in_the_order_of_time(tmp_path: Path) -> None:
    write(tmp_path, "n1", progress(10, 5), progress(30, 25))
    write(tmp_path, "n2.old", progress(1, 0))
    write(tmp_path, "n2", progress(20, 15, saved=14, save_s=0.5))

    found = history.read(tmp_path)

    assert [(mark.node, mark.step) for mark in found.marks] == [("n2", 0), ("n1", 5), ("n2", 15), ("n1", 25)]
    assert found.of_round(2) == found.marks
    assert found.of_round(1) == ()


def test_states_of_workers_and_agents_are_words(tmp_path: Path) -> None:
    about = {"attempt": 1, "round": 1, "state": "FAILED", "global_rank": 3, "exit_code": -9, "raw_error": "x"}
    write(tmp_path, "n1", json.dumps({"name": "s", "timestamp": 5000, "metadata": about}))

    (word,) = history.read(tmp_path).words

    assert (word.node, word.rank, word.state, word.exit_code, word.error, word.at_s) == (
        *("n1", 3, "FAILED", -9, "x"),
        5.0,
    )


def starting(at_s: float, round_number: int) -> str:
    about = {"attempt": 1, "round": round_number, "state": "STARTING", "global_rank": 0}
    return json.dumps({"name": "s", "timestamp": int(at_s * 1000), "metadata": about})


def test_the_longest_way_to_a_first_step_is_that_of_the_slowest_node_and_round(tmp_path: Path) -> None:
    assert history.longest_start_s(tmp_path) == 0.0
    write(tmp_path, "n1", starting(10, 1), starting(40, 2), progress(47, 5), progress(90, 25))
    write(tmp_path, "n2", starting(40, 2), progress(52, 5), starting(60, 3))

    assert history.longest_start_s(tmp_path) == 12.0


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '{"metadata": 3}', '{"metadata": {"step": "x"}}'])
def test_lines_that_cannot_be_read_are_left_out(tmp_path: Path, line: str) -> None:
    write(tmp_path, "n1", line, progress(1, 7), line)

    assert [mark.step for mark in history.read(tmp_path).marks] == [7]


def test_the_tail_of_a_long_file_is_enough_for_the_pace(tmp_path: Path) -> None:
    write(tmp_path, "n1", *(progress(at, at) for at in range(2000)))

    found = history.read(tmp_path, tail_bytes=4096)

    assert found.marks[-1].step == 1999
    assert 2 < len(found.marks) < 100
    assert history.read(tmp_path / "nothing") == History()


def test_the_pace_is_that_of_the_furthest_node_and_knows_the_last_save() -> None:
    def mark(node: str, at_s: float, step: int, saved: int = -1, save_s: float = 0.0) -> Mark:
        return Mark(node, 1, 3, at_s, step, saved, save_s)

    marks = (
        Mark("n1", 1, 2, 0.0, 50, 40, 9.0),
        mark("n1", 10.0, 60),
        mark("n2", 12.0, 62),
        mark("n1", 40.0, 120, 100, 1.0),
        mark("n2", 41.0, 121, 100, 3.0),
        mark("n1", 70.0, 180, 100, 1.0),
    )

    assert pace.of_round(History(marks), 3) == pace.Pace(180, 2.0, 100, 40.0, 3.0)
    assert pace.of_round(History(marks), 2) == pace.Pace(50, None, 100, 40.0, 3.0)
    assert pace.of_round(History(marks[1:3]), 3) == pace.Pace(62)
    assert pace.of_round(History(), 3) is None


def test_two_agents_of_a_node_that_tell_the_same_step_do_not_make_the_rate_zero() -> None:
    marks = tuple(Mark("n1", 1, 1, at_s, step, -1, 0.0) for at_s, step in ((10.0, 0), (12.0, 20), (12.1, 20)))

    found = pace.of_round(History(marks), 1)

    assert found is not None
    assert found.steps_per_s == pytest.approx(20 / 2.1)
    assert pace.of_round(History(marks[1:]), 1) == pace.Pace(20)
