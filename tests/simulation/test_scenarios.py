"""The scenario scripts show what stands in them; `pytest tests/simulation --rewrite` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.testing.scenario import play, rewrite

SCRIPTS = sorted(Path(__file__).with_name("scenarios").glob("*.scenario"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "script" in metafunc.fixturenames:
        metafunc.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])


def test_a_scenario_shows_what_stands_in_it(script: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite", default=False):
        rewrite(script)

    written = script.read_text(encoding="utf-8")

    assert play(written) == written


def test_an_unknown_command_and_a_wrong_name_are_shown_like_anything_else() -> None:
    shown = play("nodes a b\ndance a\ncrash x\n")

    assert "error: 'dance' is no command" in shown
    assert "error: crash x: 'x'" in shown


def test_fifty_preemptions_leave_the_whole_budget_of_failures() -> None:
    life = "start a b\nadvance 3s\nnotice {} scope=run left=60s\nadvance 10s\nrequeue\n"
    lives = "".join(life.format("a" if number == 1 else f"a{number}") for number in range(1, 51))
    last = "start a b\nadvance 3s\nshow\n\nfail b51\nadvance 20s\nshow\n\nfail a51\nadvance 10s\nshow\n"

    shown = play(f"nodes a b  min=2 max=2 restarts=1\n{lives}{last}").splitlines()

    assert sum(line.endswith(" has left: saved") for line in shown) >= 100, "both nodes, fifty times"
    assert "round 51 started  members a51 b51" in shown, "nothing is counted"
    assert "round 52 started  members a51 b51  failures 1" in shown
    assert any(line.startswith("run closed: exit code 1") for line in shown)
