"""The page of a run: whole, self-contained, and nothing in it is executed that was data."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from hpc_elastic.rendezvous.record import Cause, Member, Verdict
from hpc_elastic.status import goodput, report
from hpc_elastic.status.durations import in_words
from hpc_elastic.status.history import History
from hpc_elastic.status.snapshot import AttemptSnapshot, RunSnapshot
from tests.unit.status.test_advice import FAILED, RANK_2
from tests.unit.status.test_render import NOTICE, ROUND, RUN, RUNNING, STARTED

HOSTILE = "<script>alert(1)</script>\"'&"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Which elements a page has; fails on one that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def failed_run() -> RunSnapshot:
    verdict = Verdict(1, True, "", "2026-01-01T00:00:02+00:00", "w")
    end = replace(RANK_2, created_at="2026-01-01T00:00:30+00:00", message="it broke")
    noticed = replace(NOTICE, created_at="2026-01-01T00:00:20+00:00")
    return replace(
        RUN,
        attempts=(AttemptSnapshot(STARTED, notice=noticed),),
        rounds=(replace(RUNNING, verdict=verdict, end=end),),
        closings=(replace(FAILED, created_at="2026-01-01T00:00:31+00:00"),),
    )


def page_of(run: RunSnapshot) -> str:
    return report.html(run, History(), goodput.of_run(run, History(), 0.0))


def test_the_page_names_causes_places_and_times() -> None:
    text = page_of(failed_run())

    Page(text)
    for piece in (
        "failed with status 42",
        "n2, rank 2",
        "worker failed at step 7: it broke",
        "logs/1/1/2.err",
    ):
        assert piece in text
    for piece in (
        "2026-01-01 00:00:30",
        "notice: preempted",
        "lost or failed here",
        "31 s, 90.3 % of it useful",
    ):
        assert piece in text


def test_a_rank_that_was_ended_because_it_hung_is_what_went_wrong_too() -> None:
    run = failed_run()
    found = run.rounds[0]
    assert found.end is not None
    hung = replace(found.end, cause=Cause.NO_PROGRESS, message="no progress for 30 s")

    text = page_of(replace(run, rounds=(replace(found, end=hung),)))

    assert "no progress at step 7: no progress for 30 s" in text
    assert "lost or failed here" in text


def test_what_people_and_programs_have_named_is_text_and_nothing_else() -> None:
    run = failed_run()
    members = (*ROUND.members[:1], Member(ROUND.members[1].node, HOSTILE, 1, "default", HOSTILE))
    end = replace(RANK_2, message=HOSTILE, created_at="2026-01-01T00:00:30+00:00")
    hostile = replace(
        run,
        run_id=HOSTILE,
        name=HOSTILE,
        command=(HOSTILE,),
        rounds=(replace(run.rounds[0], proposal=replace(ROUND, members=members), end=end),),
        closings=(replace(run.closings[0], message=HOSTILE),),
        problems=(HOSTILE,),
    )

    page = Page(page_of(hostile))

    assert "script" not in page.elements
    assert not any(name.startswith("on") for name in page.attributes)
    assert page.attributes.isdisjoint({"src", "href"})


def test_more_nodes_than_fit_are_counted() -> None:
    members = tuple(Member(f"1-n{n}", f"n{n}", 1, "default", "a") for n in range(100))
    run = failed_run()
    many = replace(run, rounds=(replace(run.rounds[0], proposal=replace(ROUND, members=members)),))

    text = page_of(many)

    Page(text)
    assert "and 36 more nodes" in text


def test_durations_are_told_in_two_units() -> None:
    told = [in_words(seconds) for seconds in (-1, 0.04, 9.94, 59.4, 60, 200, 3600, 18720, 183_600)]

    assert told == ["0.0 s", "0.0 s", "9.9 s", "59 s", "1 min", "3 min 20 s", "1 h", "5 h 12 min", "2 d 3 h"]
