"""Following a rank: whole lines, each once, over files that grow and come, until the run is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpc_elastic.submission.following import Following
from tests.unit.submission.run_records import HandClock


def write(run_dir: Path, place: str, text: str) -> None:
    path = run_dir / "logs" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def story(*steps: Callable[[], None]) -> Callable[[], bool]:
    """Whether the run is over: at each look one more thing has happened, and after the last it is."""
    left = list(steps)

    def is_over() -> bool:
        if left:
            left.pop(0)()
        return not left

    return is_over


def test_lines_come_once_when_they_are_whole_and_the_rest_at_the_end(tmp_path: Path) -> None:
    is_over = story(
        lambda: write(tmp_path, "1/1/0.out", "a\nb"),
        lambda: write(tmp_path, "1/1/0.out", "c\n"),
        lambda: write(tmp_path, "1/2/0.err", "\nwarned\n"),
        lambda: write(tmp_path, "2/3/0.out", "d\nunfinished"),
    )

    lines = list(Following(tmp_path, 0, 1).lines(is_over, HandClock()))

    assert lines == ["a", "bc", "", "warned", "d", "unfinished"]


def test_other_ranks_and_earlier_attempts_are_left_out(tmp_path: Path) -> None:
    for place in ("1/1/0.out", "2/2/0.out", "2/2/1.out"):
        write(tmp_path, place, f"{place}\n")

    assert list(Following(tmp_path, 1, 2).lines(lambda: True, HandClock())) == ["2/2/1.out"]


def test_in_a_pool_a_rank_is_followed_to_whichever_element_has_it(tmp_path: Path) -> None:
    """The element that came second has rank 0 in the first round, and the first one when that is taken."""
    is_over = story(
        lambda: write(tmp_path, "2/1/0.out", "a\n"),
        lambda: write(tmp_path, "1/1/1.out", "other\n"),
        lambda: write(tmp_path, "1/2/0.out", "b\n"),
        lambda: write(tmp_path, "3/3/0.out", "c\n"),
    )

    assert list(Following(tmp_path, 0, 2).lines(is_over, HandClock())) == ["a", "b", "c"]


def test_a_run_without_output_ends_without_a_line(tmp_path: Path) -> None:
    assert list(Following(tmp_path, 0, -1).lines(story(lambda: None, lambda: None), HandClock())) == []
