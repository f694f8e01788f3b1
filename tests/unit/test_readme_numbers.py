"""What the README says of costs, and the quickstart of the first hour, is what has been measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
# Measured again, on a machine that is a little busier, the sentence may stay.
CLOSE: Final = 0.3
CLAIMS: Final = re.compile(
    r"its worker running in (?P<start>[\d.]+) s, torchrun in (?P<start_torchrun>[\d.]+) s, "
    r"and then takes (?P<memory>\d+) MiB, torchrun (?P<memory_torchrun>\d+);\s"
    r"32 of them meet through a directory in (?P<meet>[\d.]+) s, "
    r"torchrun's over c10d in (?P<meet_torchrun>[\d.]+) s\. "
    r"`ctx.should_stop` takes (?P<step>[\d.]+) microseconds"
)


def measured(name: str) -> Any:
    return json.loads((ROOT / "docs" / "measured" / f"{name}.json").read_text(encoding="utf-8"))


def facts() -> dict[str, float]:
    """The medians behind the claims."""
    starts = {one["launcher"]: one["shown_s"] for one in measured("startup")["launchers"]}
    idle = {
        name: median(one["rss_mib"] for one in found) for name, found in measured("agent")["idle"].items()
    }
    gatherings = measured("rendezvous")["gatherings"]
    meeting = {name: median(one["seconds"] for one in gatherings[name]["32"]) for name in gatherings}
    return {
        "start": starts["hpc-elastic"],
        "start_torchrun": starts["torchrun"],
        "memory": idle["hpc-elastic"],
        "memory_torchrun": idle["torchrun"],
        "meet": meeting["file"],
        "meet_torchrun": meeting["torchrun c10d"],
        "step": measured("agreed_stop")["overhead_of_a_step_us"]["median"],
    }


def test_the_costs_in_the_readme_are_the_measured_ones() -> None:
    said = CLAIMS.search((ROOT / "README.md").read_text(encoding="utf-8"))

    assert said is not None
    assert {name: float(value) for name, value in said.groupdict().items()} == pytest.approx(
        facts(), rel=CLOSE
    )


def test_the_first_hour_took_what_the_quickstart_says() -> None:
    found = measured("first_hour")
    said = re.search(
        r"took (\d+) s, of which (\d+) s up", (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    )

    assert said is not None
    assert [float(one) for one in said.groups()] == pytest.approx(
        [found["seconds"], found["until_the_first_run_has_survived_s"]], rel=CLOSE
    )
