"""Scopes with a deadline: what the agent is told of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from hpc_elastic.worker import Context
from hpc_elastic.workers.page import Page, WorkerPage


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(1)
    yield page
    page.close()


@pytest.fixture
def ctx(page: Page) -> Context:
    return Context(page=WorkerPage.attach(page.env_value(), 0))


def lengths(page: Page) -> float:
    return page.rank(0).expires_after_s


def test_a_scope_is_told_with_its_end_and_released_when_it_is_left(page: Page, ctx: Context) -> None:
    before_s = time.monotonic()
    with ctx.expires(after=30):
        told = page.rank(0)
        assert page.has_scopes()

    assert before_s + 30 <= told.expires_at_s <= time.monotonic() + 30
    assert told.expires_after_s == 30.0
    assert (page.rank(0).expires_at_s, page.has_scopes()) == (0.0, False)


def test_of_nested_scopes_the_one_that_ends_first_counts(page: Page, ctx: Context) -> None:
    seen = []
    with ctx.expires(after=2000):
        with ctx.expires(after=6000):
            seen.append(lengths(page))
        with ctx.expires(after=500):
            seen.append(lengths(page))
        seen.append(lengths(page))

    assert seen == [2000.0, 500.0, 2000.0]
    assert lengths(page) == 0.0


def test_a_scope_is_released_by_an_exception_too(page: Page, ctx: Context) -> None:
    with pytest.raises(KeyError), ctx.expires(after=30):
        raise KeyError("batch")

    assert not page.has_scopes()


def test_scopes_of_several_threads_stand_beside_each_other(page: Page, ctx: Context) -> None:
    is_open, may_close = threading.Event(), threading.Event()

    def hold() -> None:
        with ctx.expires(after=5):
            is_open.set()
            may_close.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_open.wait(60)
    with ctx.expires(after=60):
        both = lengths(page)
    after = lengths(page)
    may_close.set()
    thread.join()

    assert (both, after, lengths(page)) == (5.0, 5.0, 0.0)


def test_a_forked_helper_neither_opens_nor_closes_scopes_of_its_parent(page: Page, ctx: Context) -> None:
    with ctx.expires(after=30):
        child = os.fork()
        if child == 0:
            with ctx.expires(after=1):
                os._exit(0 if lengths(page) == 30.0 else 1)
        status = os.waitpid(child, 0)[1]
        assert (status, lengths(page)) == (0, 30.0)


@pytest.mark.parametrize("after", [0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(ctx: Context, after: float) -> None:
    with pytest.raises(ValueError, match=r"expires\(after="):
        ctx.expires(after=after)


def test_without_an_agent_a_scope_does_nothing() -> None:
    with Context().expires(after=0.001):
        pass
