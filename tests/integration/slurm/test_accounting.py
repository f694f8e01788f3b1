"""A site with accounting and one without: whoever asks for a job hears the same of both."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hpc_elastic.testing.sandbox.options import SandboxOptions
from tests.integration.slurm.bench import a_sandbox, changes
from tests.integration.slurm.test_submit import END_S, User

pytestmark = [pytest.mark.needs_slurm, pytest.mark.needs_accounting, pytest.mark.timeout(600)]

# What each job does, and how it ends: state, attempts, why its last one had to stop.
ENDS = {
    "completes": ("COMPLETED", 1, ""),
    "fails": ("FAILED", 1, ""),
    "is cancelled": ("CANCELLED", 1, "cancelled"),
    "is preempted and comes back": ("COMPLETED", 2, ""),
    "reaches its time limit": ("TIMEOUT", 1, "time limit"),
    "is a pool": ("COMPLETED", 2, ""),
    "is a cancelled pool": ("CANCELLED", 2, "cancelled"),
}
_POOL: dict[str, Any] = {"nodes": 2, "pool": True}
SUBMITTED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "completes": (("train", "3"), {}),
    "fails": (("fail", "0"), {"max_restarts": 0}),
    "is cancelled": (("train", "100000"), {}),
    # With the usual lead Slurm might give its notice before the first step.
    "reaches its time limit": (
        ("train", "100000"),
        {"requeue": False, "slurm": {"time": 1, "signal_delay_s": 1}},
    ),
    "is a pool": (("train", "3"), _POOL),
    "is a cancelled pool": (("train", "100000"), _POOL),
    # The last one, and preempted as soon as it trains: it has an end of its own.
    "is preempted and comes back": (("train", "400"), {"slurm": {"nodelist": "n2"}}),
}


def told_of_jobs(*, accounting: bool) -> dict[str, dict[str, Any]]:
    """The states that somebody sees of each job who looks all the time, and its status in the end."""
    options = SandboxOptions(nodes=2, cpus_per_node=4, grace_s=30, kill_wait_s=30, accounting=accounting)
    with a_sandbox(options) as sandbox:
        folder = sandbox.user_directory()
        users = {end: User(sandbox, folder / end.replace(" ", "-")) for end in ENDS}
        jobs = {}
        for end, (words, changed) in SUBMITTED.items():
            usual = {"nodes": 1, "slurm": {"nodelist": "n1"}}
            slurm = usual["slurm"] | changed.get("slurm", {})
            jobs[end] = users[end].submits(*words, **{**usual, **changed, "slurm": slurm})
        users["is preempted and comes back"].waits_for_step(3)
        sandbox.preempt(jobs["is preempted and comes back"], seconds=1)
        seen = users["is preempted and comes back"].runs("watch")
        for end in ("is cancelled", "is a cancelled pool", "reaches its time limit"):
            users[end].waits_for_step(3)
        users["is cancelled"].runs("cancel")
        users["is a cancelled pool"].runs("cancel")
        states = {end: user.runs("wait", str(END_S)) for end, user in users.items()}
        told = {end: user.runs("look") for end, user in users.items()}
        stories = {end: user.story() for end, user in users.items()}
    assert changes(seen)[-3:] == ["REQUEUED", "RUNNING", "COMPLETED"], stories
    # Who looks once may find an end that has not stood for long enough to be one.
    assert all(one["state"] in (states[end], "UNKNOWN") for end, one in told.items()), (told, stories)
    return {end: one | {"state": states[end]} for end, one in told.items()}


def test_every_end_is_told_in_the_same_words_with_accounting_and_without() -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(told_of_jobs, accounting=accounting) for accounting in (True, False)]
        with_it, without_it = (one.result() for one in asked)

    # The rounds of a pool depend on when each element comes.
    for site in (with_it, without_it):
        assert {end: (one["state"], one["attempts"], one["notice"]) for end, one in site.items()} == ENDS, (
            site
        )
    assert reasons(with_it) == reasons(without_it)


def reasons(told: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Why each job ended, without the numbers: an element that starts early takes the next job's."""
    return {end: re.sub(r"\b(job|array) \d+", r"\1 N", one["why"]) for end, one in told.items()}
