"""Events and their sinks, metrics and their handlers: registries, lines, and what is refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic import events, metrics
from hpc_elastic.errors import HpcElasticError, UsageError
from hpc_elastic.events import Event, EventSource, Place
from hpc_elastic.metrics import MetricData, MetricHandler

EVENT = Event("hpc_elastic.worker.status.FAILED", EventSource.WORKER, 17, {"run_id": "r", "exit_code": -9})


def test_an_event_is_one_line_of_json_and_comes_back_equal() -> None:
    line = EVENT.serialize()

    assert "\n" not in line
    assert json.loads(line)["schema"] == 1
    assert Event.deserialize(line) == EVENT
    assert Event.deserialize(EVENT) is EVENT
    assert str(EVENT) == line


@pytest.mark.parametrize("raw", ["", "[]", "{}", '{"name": "x", "source": "NOBODY"}'])
def test_what_is_no_event_is_refused(raw: str) -> None:
    with pytest.raises(ValueError, match="is no event"):
        Event.deserialize(raw)


def test_a_newer_event_with_more_fields_can_be_read() -> None:
    newer = {**json.loads(EVENT.serialize()), "schema": 2, "colour": "red"}

    assert Event.deserialize(json.dumps(newer)) == EVENT


def test_lines_are_appended_to_the_file_of_the_node_for_its_owner_alone(tmp_path: Path) -> None:
    place = Place(tmp_path, "n1")
    for _ in range(2):
        sink = events.open_sink("jsonl", place)
        sink.write(EVENT)
        sink.close()
        sink.close()

    file = tmp_path / "events" / "n1.jsonl"
    assert place.file == file
    assert [Event.deserialize(line) for line in file.read_text().splitlines()] == [EVENT, EVENT]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_of_events_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "events" / "n1.jsonl"
    file = events.BoundedFile(path, max_bytes=1000)

    for number in range(1000):
        file.write(b"event %03d\n" % number)
    file.close()

    newest, older = path.read_text(), path.with_suffix(".old.jsonl").read_text()
    lines = (older + newest).splitlines()
    assert len(newest) <= 1000
    assert len(older) <= 1000
    assert lines == [f"event {number:03}" for number in range(1000 - len(lines), 1000)]
    assert len(lines) >= 100
    assert sorted(each.name for each in path.parent.iterdir()) == ["n1.jsonl", "n1.old.jsonl"]


def test_two_lives_of_a_node_share_a_bounded_file_without_losing_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    first, second = events.BoundedFile(path, 200), events.BoundedFile(path, 200)

    for number in range(30):
        (second if number % 2 else first).write(b"event %02d\n" % number)

    kept = (path.with_suffix(".old.jsonl").read_text() + path.read_text()).splitlines()
    assert kept[-20:] == [f"event {number:02}" for number in range(10, 30)]
    first.close()
    second.close()


def test_an_event_longer_than_the_bound_is_kept_whole(tmp_path: Path) -> None:
    file = events.BoundedFile(tmp_path / "n1.jsonl", max_bytes=10)

    file.write(b"x" * 50 + b"\n")
    file.close()

    assert (tmp_path / "n1.jsonl").read_bytes() == b"x" * 50 + b"\n"


def test_sinks_are_found_by_their_names(capfd: pytest.CaptureFixture[str]) -> None:
    events.record(EVENT)
    assert capfd.readouterr().err == ""
    events.record(EVENT, "console")
    assert Event.deserialize(capfd.readouterr().err) == EVENT
    with pytest.raises(UsageError, match=r"known are .*console, .*null.* hpc_elastic\.event_sinks"):
        events.record(EVENT, "no such sink")
    with pytest.raises(UsageError, match="no run directory"):
        events.record(EVENT, "jsonl")


def test_a_name_is_registered_once() -> None:
    def make(_: Place) -> events.Sink:
        return events.NullSink()

    events.register_sink("of a test", make)
    events.register_sink("of a test", make)

    with pytest.raises(ValueError, match="registered already"):
        events.register_sink("of a test", lambda _: events.NullSink())
    with pytest.raises(ValueError, match="expected a name"):
        events.register_sink("", make)


def test_another_package_brings_its_sink_as_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "theirs-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: theirs\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[hpc_elastic.event_sinks]\ntheirs = theirs_of_a_test:make\nbroken = no_such_module:make\n"
    )
    (tmp_path / "theirs_of_a_test.py").write_text(
        "from hpc_elastic.events import NullSink\nmake = lambda _: NullSink()"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert isinstance(events.open_sink("theirs", Place()), events.NullSink)
    with pytest.raises(HpcElasticError, match="cannot be loaded"):
        events.open_sink("broken", Place())


class Kept(MetricHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, float]] = []

    def emit(self, metric_data: MetricData) -> None:
        self.seen.append((metric_data.group_name, metric_data.name, metric_data.value))


def test_numbers_go_to_the_handler_of_their_group_or_of_all() -> None:
    mine, others = Kept(), Kept()
    metrics.configure(mine, "mine")
    metrics.configure(others)
    metrics.put_metric("a", 1, "mine")
    metrics.put_metric("b", 2, "elsewhere")
    metrics.configure(metrics.NullMetricHandler())

    assert (mine.seen, others.seen) == ([("mine", "a", 1)], [("elsewhere", "b", 2)])


def test_a_handler_that_fails_harms_nobody() -> None:
    class Broken(MetricHandler):
        def emit(self, metric_data: MetricData) -> None:
            raise OSError("gone")

    metrics.configure(Broken(), "broken")

    metrics.put_metric("a", 1, "broken")


def test_the_console_shows_a_number_as_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    metrics.ConsoleMetricHandler().emit(MetricData(5, "group", "name", 1.5))

    assert capfd.readouterr().err == "[5][group]: name=1.5\n"


def test_a_profiled_function_leaves_its_duration_and_how_it_ended() -> None:
    kept = Kept()
    metrics.configure(kept, "profiled")

    class Phase:
        @metrics.prof(group="profiled")
        def run(self, fail: bool) -> Any:
            if fail:
                raise KeyError("no")
            return "value"

    assert Phase().run(False) == "value"
    with pytest.raises(KeyError):
        Phase().run(True)

    names = [name for _, name, _ in kept.seen]
    assert names == [
        "Phase.run.success",
        "Phase.run.duration.ms",
        "Phase.run.failure",
        "Phase.run.duration.ms",
    ]
