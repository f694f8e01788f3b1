"""A fixed world is told by parameters and environment, and each refusal says what to give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.errors import BadEnvironment
from hpc_elastic.rendezvous import RendezvousParameters, RendezvousStateError, RendezvousStoreInfo
from hpc_elastic.rendezvous.static import StaticRendezvousHandler


def handler(
    env: dict[str, str] | None = None, endpoint: str = "", nodes: int = 1, **given: Any
) -> StaticRendezvousHandler:
    params = RendezvousParameters("static", endpoint, "run", nodes, nodes, **given)
    return StaticRendezvousHandler.parse(params, env or {})


def test_a_world_of_one_needs_nothing() -> None:
    info = handler().next_rendezvous()

    assert (info.rank, info.world_size, info.participants, info.wait_list) == (0, 1, ("0",), ())
    assert info.bootstrap_store_info is not None
    assert info.bootstrap_store_info.master_port == 29400


def test_the_environment_tells_rank_size_master_and_directory(tmp_path: Path) -> None:
    env = {
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "77",
        "HPC_ELASTIC_RUN_DIR": str(tmp_path),
    }
    second = handler(env).next_rendezvous()
    first = handler({**env, "GROUP_RANK": "0"}).next_rendezvous()

    assert (first.rank, second.rank, second.world_size) == (0, 1, 2)
    assert second.bootstrap_store_info == RendezvousStoreInfo("10.0.0.1", 77)
    first.store.set("key", "value")
    assert second.store.get("key", 10) == b"value"


def test_parameters_win_over_the_environment(tmp_path: Path) -> None:
    env = {"HPC_ELASTIC_NODE_INDEX": "0", "HPC_ELASTIC_NODE_COUNT": "9", "MASTER_ADDR": "10.0.0.1"}
    info = handler(
        env, "10.0.0.2:88", nodes=3, config={"rank": "2", "store_dir": str(tmp_path)}
    ).next_rendezvous()

    assert (info.rank, info.world_size) == (2, 3)
    assert info.bootstrap_store_info == RendezvousStoreInfo("10.0.0.2", 88)


@pytest.mark.parametrize(
    ("endpoint", "master"),
    [
        ("host", ("host", 29400)),
        ("host:1", ("host", 1)),
        ("[::1]:2", ("::1", 2)),
        ("[::1]", ("::1", 29400)),
        ("fe80::1", ("fe80::1", 29400)),
    ],
)
def test_the_master_is_the_endpoint(endpoint: str, master: tuple[str, int]) -> None:
    info = handler(endpoint=endpoint).next_rendezvous()

    assert info.bootstrap_store_info == RendezvousStoreInfo(*master)
    assert info.store.master_addr_port == master


def test_each_next_round_has_a_store_of_its_own(tmp_path: Path) -> None:
    one = handler(endpoint="host", nodes=2, node_rank=1, store_dir=str(tmp_path))
    other = handler(endpoint="host", nodes=2, node_rank=0, store_dir=str(tmp_path))
    first, second = one.next_rendezvous(), one.next_rendezvous()
    first.store.set("key", "value")

    assert (first.round, second.round) == (1, 2)
    assert not second.store.check(["key"])
    assert other.next_rendezvous().store.get("key", 10) == b"value"


def test_a_fixed_world_is_never_closed_and_nobody_waits() -> None:
    fixed = handler()
    fixed.set_closed()

    assert (fixed.is_closed(), fixed.num_nodes_waiting(), fixed.get_run_id()) == (False, 0, "run")
    assert fixed.shutdown() is True
    with pytest.raises(RendezvousStateError, match="shut down"):
        fixed.next_rendezvous()


@pytest.mark.parametrize(
    ("env", "given", "told"),
    [
        ({}, {"nodes": 2, "endpoint": "h"}, "store_dir"),
        ({"HPC_ELASTIC_RUN_DIR": "/x"}, {"nodes": 2}, "needs its master"),
        ({}, {"nodes": 2, "rank": 2}, "rank 2 in a static world of 2"),
        ({}, {"rank": -1}, "rank -1"),
        ({}, {"rank": "one"}, "option rank"),
        ({}, {"endpoint": "h:http"}, "'http' is no port"),
        ({}, {"endpoint": "h:0"}, "'0' is no port"),
    ],
)
def test_a_world_that_cannot_be_is_refused(env: dict[str, str], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        handler(env, **given)


def test_a_variable_that_is_no_number_is_refused_by_name() -> None:
    for name in ("GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_PORT"):
        with pytest.raises(BadEnvironment, match=f"{name}=many"):
            handler({name: "many"})


def test_a_static_world_has_one_size() -> None:
    with pytest.raises(ValueError, match="has one size"):
        StaticRendezvousHandler.parse(RendezvousParameters("static", "", "run", 1, 2), {})
