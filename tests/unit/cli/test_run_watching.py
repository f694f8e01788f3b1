"""The options about ranks that hang and nodes that are not well."""

from __future__ import annotations

import pytest

from hpc_elastic.agent.health import HealthCommand
from hpc_elastic.agent.overdue import Limits, Source
from hpc_elastic.cli import run_options
from hpc_elastic.errors import UsageError


def test_nobody_watches_unless_asked() -> None:
    options = run_options.parse(["train.py"])

    assert (options.limits, options.health) == (None, None)


def test_the_first_step_has_five_times_the_time_of_others_unless_given() -> None:
    assert run_options.parse(["--watchdog-timeout", "60", "t.py"]).limits == Limits(60.0, 300.0)

    given = [
        "--watchdog-timeout",
        "60",
        "--watchdog-first-step",
        "900",
        "--watchdog-source",
        "output",
        "t.py",
    ]

    assert run_options.parse(given).limits == Limits(60.0, 900.0, Source.OUTPUT)


def test_the_first_step_has_never_less_time_than_others() -> None:
    given = ["--watchdog-timeout", "60", "--watchdog-first-step", "5", "t.py"]

    assert run_options.parse(given).limits == Limits(60.0, 60.0)


def test_a_health_command_has_half_a_minute_unless_given() -> None:
    assert run_options.parse(["--health-command", "true", "t.py"]).health == HealthCommand("true", 30.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watchdog-timeout", "-1"], "--watchdog-timeout -1: expected a number of seconds above 0"),
        (["--watchdog-first-step", "5"], "without --watchdog-timeout watches nothing"),
        (["--watchdog-timeout", "5", "--watchdog-source", "heart"], "--watchdog-source"),
        (["--health-command", ""], "--health-command is empty"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run_options.parse([*words, "train.py"])
