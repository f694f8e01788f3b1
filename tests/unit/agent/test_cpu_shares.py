"""Workers are bound to equal shares, of CPUs that are near each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.agent.cpu_shares import shares


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    """Two sockets of four cores with two hardware threads, numbered as most machines do: siblings 8 apart."""
    for cpu in range(16):
        socket, core = cpu // 4 % 2, cpu % 4
        place = tmp_path / f"cpu{cpu}"
        (place / "topology").mkdir(parents=True)
        (place / "topology/physical_package_id").write_text(f"{socket}\n")
        (place / "topology/core_id").write_text(f"{core}\n")
        (place / f"node{socket}").mkdir()
    return tmp_path


def test_each_of_two_workers_has_a_socket(two_sockets: Path) -> None:
    assert shares(range(16), 2, two_sockets) == [{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}]


def test_each_of_eight_workers_has_a_core_with_both_its_threads(two_sockets: Path) -> None:
    assert shares(range(16), 8, two_sockets)[:5] == [{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}]


def test_shares_lie_within_the_given_mask(two_sockets: Path) -> None:
    """Four CPUs that Slurm gave: one core of the first socket, one of the second."""
    assert shares({1, 9, 6, 14}, 2, two_sockets) == [{1, 9}, {6, 14}]


def test_what_is_left_over_is_given_to_nobody(two_sockets: Path) -> None:
    given = shares(range(8), 3, two_sockets)

    assert [len(share) for share in given] == [2, 2, 2]
    assert len(frozenset().union(*given)) == 6


def test_workers_share_where_cpus_are_fewer(tmp_path: Path) -> None:
    assert shares({3, 5}, 3, tmp_path) == [{3}, {5}, {3}]


def test_without_a_topology_numbers_decide(tmp_path: Path) -> None:
    assert shares({7, 3, 1, 5}, 2, tmp_path) == [{1, 3}, {5, 7}]
