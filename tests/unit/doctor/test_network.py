"""How the others reach this node, as findings."""

from __future__ import annotations

from hpc_elastic.doctor import network
from hpc_elastic.doctor.finding import Level


def test_several_interfaces_are_named_with_how_to_take_another() -> None:
    (found,) = network.beside("10.0.0.5", (("eth0", "10.0.0.5"), ("ib0", "10.1.0.5")))

    assert found.fact == "eth0 10.0.0.5, ib0 10.1.0.5"
    assert "ranks meet by 10.0.0.5" in found.meaning
    assert "--local-addr" in found.meaning


def test_one_interface_is_no_choice() -> None:
    assert list(network.beside("10.0.0.5", (("eth0", "10.0.0.5"),))) == []


def test_loopback_is_told_where_it_was_allowed() -> None:
    (found,) = network.look({"HPC_ELASTIC_ALLOW_LOOPBACK": "1"})

    assert (found.level, found.fact) == (Level.NOTE, "HPC_ELASTIC_ALLOW_LOOPBACK=1")


def test_without_an_etcd_nodes_meet_in_the_directory_and_one_that_is_out_of_reach_is_a_problem() -> None:
    (none,) = network.look_at_etcd({})
    (away,) = network.look_at_etcd({"HPC_ELASTIC_ETCD": "127.0.0.1:9"})

    assert (none.level, none.meaning) == (Level.FINE, "nodes meet in the run directory")
    assert away.level is Level.PROBLEM
    assert "HPC_ELASTIC_ETCD" in away.do
