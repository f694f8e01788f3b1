"""Workers are counted from what this process may use; an address is one that others can reach."""

from __future__ import annotations

import os

import pytest

from hpc_elastic.agent import addresses, cgroups, resources
from hpc_elastic.errors import UsageError


def test_auto_is_one_worker_where_there_is_no_accelerator() -> None:
    assert resources.worker_count("auto", {"CUDA_VISIBLE_DEVICES": ""}) == 1
    assert resources.worker_count("auto", {"CUDA_VISIBLE_DEVICES": "0,1"}) == 2


def test_cpu_is_what_the_affinity_allows_where_nothing_allows_less() -> None:
    quota = cgroups.cpu_quota()
    most = len(os.sched_getaffinity(0)) if quota is None else int(quota)

    assert resources.worker_count("cpu", {}) == max(1, min(most, len(os.sched_getaffinity(0))))


@pytest.mark.parametrize(("given", "limits"), [("1", True), ("4096", False), ("", False), ("2(x3)", False)])
def test_a_slurm_job_may_have_less_than_its_affinity_shows(given: str, limits: bool) -> None:
    """As where no task plugin binds a job of one CPU on a machine of many."""
    free = resources.cpus({})

    assert resources.cpus({"SLURM_CPUS_ON_NODE": given}) == (1 if limits else free)


@pytest.mark.parametrize("kind", ["gpu", "xpu"])
def test_accelerators_that_are_not_there_are_refused(kind: str) -> None:
    with pytest.raises(UsageError, match=f"--nproc-per-node {kind}: no accelerator is visible"):
        resources.worker_count(kind, {"CUDA_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": ""})


def test_xpus_are_counted_by_their_own_variable() -> None:
    assert resources.worker_count("xpu", {"ZE_AFFINITY_MASK": "0.0,0.1,1"}) == 3


@pytest.mark.parametrize("text", ["0", "-1", "two", "", "1.5", "99999", "²"])
def test_other_words_are_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"--nproc-per-node .*expected a number"):
        resources.worker_count(text, {})


def test_a_given_address_wins() -> None:
    assert addresses.choose(given="10.1.2.3", names=("x",), alone=True, allow_loopback=True) == "10.1.2.3"


@pytest.mark.parametrize(("alone", "allowed"), [(True, False), (False, True)])
def test_loopback_is_for_a_node_alone_or_where_it_is_allowed(alone: bool, allowed: bool) -> None:
    assert addresses.choose(given="", names=("x",), alone=alone, allow_loopback=allowed) == "127.0.0.1"
