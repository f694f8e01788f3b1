"""The URL form of a rendezvous: every part, its default, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hpc_elastic.errors import UsageError
from hpc_elastic.rendezvous import EtcdRendezvousHandler, handler_from_url
from hpc_elastic.rendezvous.handler import RecordRendezvousHandler
from hpc_elastic.rendezvous.url import parse


def test_the_shortest_url_has_the_defaults_of_the_contract() -> None:
    params = parse("etcd://host/run?min_workers=2")

    assert (params.backend, params.endpoint, params.run_id) == ("etcd", "host:2379", "run")
    assert (params.min_nodes, params.max_nodes, params.config) == (2, 2, {})
    assert params.timeout.join == timedelta(seconds=600)
    assert params.timeout.last_call == timedelta(seconds=30)


def test_the_longest_url_becomes_parameters_and_options() -> None:
    params = parse(
        "etcd://host:4001/run-7?min_workers=2&max_workers=4&timeout=60&last_call_timeout=5"
        "&etcd_prefix=/mine/p2p&protocol=https&cacert=/ca.pem&cert=/c.pem&key=/k.pem"
    )

    assert (params.endpoint, params.run_id) == ("host:4001", "run-7")
    assert (params.min_nodes, params.max_nodes) == (2, 4)
    assert params.timeout.join == timedelta(seconds=60)
    assert params.timeout.last_call == timedelta(seconds=5)
    assert params.config == {
        "timeout": "60",
        "last_call_timeout": "5",
        "etcd_prefix": "/mine/p2p",
        "protocol": "https",
        "cacert": "/ca.pem",
        "cert": "/c.pem",
        "key": "/k.pem",
    }


@pytest.mark.parametrize(
    ("url", "endpoint", "run_id"),
    [
        ("etcd://h1:1,h2,h3:3/run?min_workers=1", "h1:1,h2:2379,h3:3", "run"),
        ("etcd-v3://[::1]/run?min_workers=1", "[::1]:2379", "run"),
        ("etcd://h1:1,[::1],[fe80::1]:3/run?min_workers=1", "h1:1,[::1]:2379,[fe80::1]:3", "run"),
        ("etcd-v2://[fe80::1]:99/run?min_workers=1", "[fe80::1]:99", "run"),
        ("etcd://host/a%2Fb?min_workers=1", "host:2379", "a/b"),
        ("file:///shared/runs/run?min_workers=1", "/shared/runs", "run"),
        ("memory://name/run?min_workers=1", "name", "run"),
    ],
)
def test_endpoints_of_all_kinds_are_read(url: str, endpoint: str, run_id: str) -> None:
    params = parse(url)

    assert (params.endpoint, params.run_id) == (endpoint, run_id)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("etcd://host/run", "no min_workers"),
        ("etcd://host/run?max_workers=2", "no min_workers"),
        ("etcd://host/run?min_workers=two", "min_workers=two"),
        ("etcd://host/run?min_workers=-1", "min_workers=-1"),
        ("etcd://host/run?min_workers=0", "min_nodes 0"),
        ("etcd://host/run?min_workers=3&max_workers=2", "max_nodes 2"),
        ("etcd://host/run?min_workers=3&max_workers=", "max_workers="),
        ("etcd://host/run?min_workers=1&min_workers=2", "min_workers twice"),
        ("etcd://host/?min_workers=1", "names no run"),
        ("etcd://host?min_workers=1", "names no run"),
        ("etcd:///run?min_workers=1", "names no host"),
        ("etcd://host/a/b?min_workers=1", "expected /RUN_ID"),
        ("host/run?min_workers=1", "names no backend"),
        ("etcd://host/run?min_workers=1#x", "%23"),
        ("", "names no backend"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_the_part_that_is_wrong(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "etcd://user:secret@host/run?min_workers=1",
        "etcd://host/run?min_workers=1&password=secret",
        "etcd://user:se/cret@host/run?min_workers=1",
        "etcd://user:se?cret@host/run?min_workers=1",
        "etcd://user:se#cret@host/run?min_workers=1",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="password") as refused:
        parse(url)

    assert "secret" not in str(refused.value)
    assert "cret@" not in str(refused.value)


def test_an_at_sign_in_a_run_id_is_no_password() -> None:
    assert parse("etcd://h1:1,h2,[::1]:3/me@home?min_workers=1").run_id == "me@home"


def test_a_url_gives_the_handler_of_its_backend() -> None:
    etcd = handler_from_url("etcd://host/run?min_workers=1&etcd_prefix=/mine")
    memory = handler_from_url("memory://name/run?min_workers=1")

    assert isinstance(etcd, EtcdRendezvousHandler)
    assert isinstance(memory, RecordRendezvousHandler)
    assert (etcd.get_backend(), etcd.get_run_id()) == ("etcd", "run")
    with pytest.raises(UsageError, match=r"\[::1"):
        handler_from_url("etcd://[::1/run?min_workers=1")
    with pytest.raises(ValueError, match="'gopher' is not known"):
        handler_from_url("gopher://host/run?min_workers=1")
