"""16 ranks that print 10 000 lines a second are shown whole, by an agent that hardly notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.logs import measure

pytestmark = pytest.mark.alone


def test_no_line_of_16_busy_ranks_is_lost_or_torn_and_the_agent_stays_below_a_core(tmp_path: Path) -> None:
    shown = measure(tmp_path, ranks=16, lines_per_s=10_000, seconds=5.0)

    assert (shown.lost, shown.torn, shown.disordered, shown.status) == (0, 0, 0, 0), shown
    assert shown.cores < 1.0, shown
