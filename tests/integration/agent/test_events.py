"""What an agent of the command line leaves for machines: events/<node>.jsonl, as docs/events.md has it."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hpc_elastic.events import FIELDS, PROGRESS, PROGRESS_FIELDS
from tests.integration.agent.agents import STEPPER, Agents, agents_in

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "events.md"
FAIL_ONCE: Final = (
    "import os, time\n"
    "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
    "    if os.environ['RANK'] == '0':\n"
    "        raise ValueError('once')\n"
    "    time.sleep(600)\n"
)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def told(agents: Agents, name: str) -> list[dict[str, Any]]:
    path = agents.run_dir / "events" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def states(events: list[dict[str, Any]]) -> list[tuple[str, int | None, int | None]]:
    fields = [event["metadata"] for event in events if event["name"] != PROGRESS]
    return [(each["state"], each["round"], each["global_rank"]) for each in fields]


def test_the_page_names_every_field() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert [row for row in rows if row in FIELDS] == list(FIELDS)
    assert set(PROGRESS_FIELDS) <= set(rows)


def test_a_failure_its_sibling_the_restart_and_the_success_are_told(agents: Agents) -> None:
    name = agents.start(0, "--nproc-per-node", "2", agents.script(FAIL_ONCE))

    assert agents.status(name) == 0
    events = told(agents, name)
    last = sorted(states(events)[-3:-1])  # which of them ends first is not for us to say
    assert [*states(events)[:-3], *last, *states(events)[-1:]] == [
        *[("STARTING", 1, 0), ("STARTING", 1, 1), ("HEALTHY", 1, 0), ("HEALTHY", 1, 1)],
        *[("FAILED", 1, 0), ("TERMINATED", 1, 1)],
        *[("STARTING", 2, 0), ("STARTING", 2, 1), ("HEALTHY", 2, 0), ("HEALTHY", 2, 1)],
        *[("SUCCEEDED", 2, 0), ("SUCCEEDED", 2, 1), ("SUCCEEDED", 2, None)],
    ]
    assert {tuple(event["metadata"]) for event in events} == {FIELDS}
    failed = events[4]["metadata"]
    assert (failed["raw_error"], failed["exit_code"]) == ("ValueError: once", 1)
    assert failed["worker_pid"] == events[2]["metadata"]["worker_pid"] > 0
    assert events[-1]["source"] == "AGENT"
    assert (failed["rdzv_backend"], failed["run_id"] != "", failed["agent_restarts"]) == ("file", True, 0)
    assert events[-1]["metadata"]["agent_restarts"] == 1


def test_a_preempted_agent_and_its_saved_workers_are_stopped_ones(agents: Agents) -> None:
    name = agents.start(0, agents.script(STEPPER))
    agents.wait_for_line("step 3", 0, 1)
    agents.signal(name, signal.SIGUSR1)

    assert agents.status(name) == 80
    assert states(told(agents, name))[-2:] == [("STOPPED", 1, 0), ("STOPPED", 1, None)]
    assert told(agents, name)[-1]["metadata"]["exit_code"] == 80
    progress = [event["metadata"] for event in told(agents, name) if event["name"] == PROGRESS]
    assert {tuple(each) for each in progress} == {PROGRESS_FIELDS}
    assert progress[-1]["saved_step"] == progress[-1]["step"] > 0
    assert (progress[-1]["round"], progress[-1]["group_rank"]) == (1, 0)


def test_events_that_cannot_be_written_harm_nobody(agents: Agents) -> None:
    agents.run_dir.mkdir(mode=0o700)
    (agents.run_dir / "events").write_text("in the way")

    assert agents.status(agents.start(0, agents.script("print('fine')"))) == 0
