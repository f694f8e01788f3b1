"""Handlers as their users see them: threads as nodes, over memory, a directory and etcd."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpc_elastic.errors import RunDirectoryError, StoreTimedOut
from hpc_elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousExhaustedError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousStateError,
    RendezvousStoreInfo,
)
from hpc_elastic.rendezvous.handler import RecordRendezvousHandler
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.rendezvous.handler_nodes import LONG_S, SOON_S, Nodes
from tests.waiting import wait_until


@pytest.fixture(params=["memory", "file", pytest.param("etcd", marks=pytest.mark.needs_etcd)])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    endpoint = str(tmp_path)
    if request.param == "etcd":
        server: EtcdServer = request.getfixturevalue("etcd_server")
        endpoint = ",".join(map(str, server.address().endpoints))
    made = Nodes(request.param, endpoint)
    yield made
    made.end()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes("memory", str(tmp_path))
    yield made
    made.end()


@pytest.mark.parametrize("size", [2, 3])
def test_all_are_given_the_same_world_with_ranks_from_0(nodes: Nodes, size: int) -> None:
    infos = nodes.meet(*(nodes.make(rank, least=size, most=size) for rank in range(size)))

    assert [info.rank for info in infos] == list(range(size))
    assert {info.world_size for info in infos} == {size}
    assert len({info.round for info in infos}) == 1
    assert len({info.participants for info in infos}) == 1
    assert [name.partition("-")[0] for name in infos[0].participants] == [f"n{rank}" for rank in range(size)]
    assert len({info.bootstrap_store_info for info in infos}) == 1


def test_a_round_has_a_store_of_its_own_that_all_its_members_share(nodes: Nodes) -> None:
    handlers = [nodes.make(rank) for rank in range(2)]
    first = nodes.meet(*handlers)
    first[0].store.set("key", "value")

    assert first[1].store.get("key", SOON_S) == b"value"
    assert RendezvousStoreInfo.build(0, first[0].store) == first[0].bootstrap_store_info
    assert RendezvousStoreInfo.build(1, first[1].store) == first[0].bootstrap_store_info

    second = nodes.meet(*handlers)
    assert {info.round > first[0].round for info in second} == {True}
    assert not second[1].store.check(["key"])


def test_a_newcomer_is_announced_and_let_in_by_the_next_round(nodes: Nodes) -> None:
    members = [nodes.make(rank) for rank in range(2)]
    first = nodes.meet(*members)
    assert [one.num_nodes_waiting() for one in members] == [0, 0]

    newcomer = nodes.begin(nodes.make(2))[0]
    wait_until(lambda: all(one.num_nodes_waiting() > 0 for one in members), SOON_S, "both see it waiting")
    second = [*nodes.meet(*members), newcomer.result(SOON_S)]

    assert {info.world_size for info in first} == {2}
    assert [info.rank for info in second] == [0, 1, 2]
    assert {info.world_size for info in second} == {3}
    assert [one.num_nodes_waiting() for one in members] == [0, 0]


def test_a_member_that_asks_for_a_new_round_is_waited_for_by_the_others(nodes: Nodes) -> None:
    one, other = nodes.make(0), nodes.make(1)
    first = nodes.meet(one, other)[0].round

    again = nodes.begin(one)[0]
    wait_until(lambda: other.num_nodes_waiting() > 0, SOON_S, "the other one hears of it")
    assert not again.done()

    assert nodes.meet(other)[0].round == again.result(SOON_S).round > first


def test_a_member_that_shuts_down_is_left_out_of_the_next_round(nodes: Nodes) -> None:
    handlers = [nodes.make(rank, least=2, most=3, last_call_timeout=LONG_S) for rank in range(3)]
    nodes.meet(*handlers)

    assert handlers[0].shutdown() is True
    wait_until(lambda: all(one.num_nodes_waiting() > 0 for one in handlers[1:]), SOON_S, "it is missed")
    infos = nodes.meet(*handlers[1:])

    assert [info.rank for info in infos] == [0, 1]
    assert {info.world_size for info in infos} == {2}
    assert not handlers[1].is_closed()
    with pytest.raises(RendezvousStateError, match="shut down"):
        handlers[0].next_rendezvous()
    assert handlers[0].shutdown() is True


def test_a_closing_is_seen_by_members_by_those_who_wait_and_by_those_who_come(nodes: Nodes) -> None:
    members = [nodes.make(rank, most=2) for rank in range(2)]
    nodes.meet(*members)
    spare = nodes.begin(nodes.make(2, most=2))[0]
    assert [one.is_closed() for one in members] == [False, False]

    members[1].set_closed()
    members[1].set_closed()

    assert [one.is_closed() for one in members] == [True, True]
    with pytest.raises(RendezvousClosedError, match="is closed"):
        spare.result(SOON_S)
    for one in (*members, nodes.make(7)):
        with pytest.raises(RendezvousClosedError, match="is closed"):
            one.next_rendezvous()
    assert nodes.make(8).is_closed()


def test_a_run_may_be_closed_before_anybody_has_come(nodes: Nodes) -> None:
    nodes.make(0).set_closed()

    with pytest.raises(RendezvousClosedError):
        nodes.make(1).next_rendezvous()


def test_a_run_is_done_once_all_its_members_say_so_and_a_spare_leaves_in_good_order(nodes: Nodes) -> None:
    members = [nodes.make(rank, most=2) for rank in range(2)]
    nodes.meet(*members)
    spare = nodes.begin(nodes.make(2, most=2))[0]

    for said in [nodes.threads.submit(one.set_done) for one in members]:
        said.result(SOON_S)

    with pytest.raises(RendezvousGracefulExitError, match="is done"):
        spare.result(SOON_S)


def test_a_later_start_of_the_run_is_not_bound_by_the_closing_of_an_earlier_one(local: Nodes) -> None:
    local.make(0, least=1).set_closed()

    assert local.meet(local.make(0, least=1, restart_count=1))[0].rank == 0


def test_too_few_nodes_is_an_error_that_carries_the_rules_and_the_time(nodes: Nodes) -> None:
    alone = nodes.make(0, join_timeout=0.4)

    with pytest.raises(RendezvousExhaustedError, match="1 of 2 nodes") as late:
        alone.next_rendezvous()

    assert late.value.timeout == 0.4
    assert getattr(late.value.config, "min_nodes", None) == 2
    assert not alone.is_closed()


def test_a_node_that_has_given_up_may_come_again(nodes: Nodes) -> None:
    one, patient = nodes.make(0, join_timeout=2.0), nodes.make(1)
    with pytest.raises(RendezvousExhaustedError):
        one.next_rendezvous()
    other = nodes.begin(patient)[0]
    wait_until(lambda: waits(patient), SOON_S, "the other one waits")

    assert {info.world_size for info in (*nodes.meet(one), other.result(SOON_S))} == {2}


def waits(handler: RecordRendezvousHandler) -> bool:
    membership = handler._membership
    return membership is not None and "1 of 2 nodes" in membership.standing().waiting_for


def test_the_last_call_lets_late_nodes_in_and_then_goes_without_them(local: Nodes) -> None:
    early = local.make(0, least=1, most=3, last_call_timeout=4.0)
    late = local.make(1, least=1, most=3, last_call_timeout=4.0)
    first = local.begin(early)
    second = local.begin(late)

    assert {one.result(SOON_S).world_size for one in (*first, *second)} == {2}


def test_spares_beyond_the_maximum_are_on_the_wait_list(nodes: Nodes) -> None:
    members = [nodes.make(rank, most=2) for rank in range(2)]
    info = nodes.meet(*members)[0]
    assert info.wait_list == ()

    spare = nodes.begin(nodes.make(5, most=2))[0]
    wait_until(lambda: len(info.wait_list) == 1, SOON_S, "the spare waits")

    assert "n5-" in str(info.wait_list)
    assert members[0].num_nodes_waiting() == 0
    assert not spare.done()
    nodes.made[-1].shutdown()
    with pytest.raises(RendezvousStateError, match="shut down"):
        spare.result(SOON_S)


def test_extra_data_of_a_round_are_kept_by_round_and_key(nodes: Nodes) -> None:
    handlers = [nodes.make(rank) for rank in range(2)]
    number = nodes.meet(*handlers)[0].round

    handlers[0].store_extra_data(number, "topology", "ring")

    assert handlers[1].load_extra_data(number, "topology", SOON_S) == b"ring"
    with pytest.raises(StoreTimedOut, match="colour"):
        handlers[1].load_extra_data(number, "colour", 0.05)
    with pytest.raises(LookupError):
        handlers[1].load_extra_data(number + 1, "topology", 0.05)


def test_a_store_is_gone_two_rounds_later(tmp_path: Path) -> None:
    nodes = Nodes("file", str(tmp_path))
    handler = nodes.make(0, least=1, most=1)
    for _ in range(4):
        handler.next_rendezvous().store.set("key", "value")

    left = [path.name for path in tmp_path.glob("run-*/stores/*")]
    nodes.end()
    assert sorted(left) == ["3", "4"]


def test_two_runs_at_one_place_never_mix(local: Nodes) -> None:
    other = Nodes(local.backend, local.endpoint)
    both = local.begin(local.make(0), local.make(1)) + other.begin(other.make(0), other.make(1))

    assert {one.result(SOON_S).world_size for one in both} == {2}
    other.end()


def test_the_port_of_the_master_is_free_when_the_round_begins(local: Nodes) -> None:
    import socket

    info = local.meet(local.make(0), local.make(1))[0]
    assert info.bootstrap_store_info is not None
    with socket.socket() as master:
        master.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        master.bind((info.bootstrap_store_info.addr, info.bootstrap_store_info.port))


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    nodes = Nodes("file", str(tmp_path))
    handler = nodes.make(0)
    folder = tmp_path / f"run-{nodes.run_id.replace(' ', '_20_')}"
    folder.mkdir()
    folder.chmod(0o777)

    with pytest.raises(RunDirectoryError, match="others could change the run"):
        handler.next_rendezvous()
    nodes.end()


def test_a_backend_that_cannot_be_reached_is_a_connection_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for backend, endpoint in (("file", str(tmp_path / "file" / "x")), ("etcd", "127.0.0.1:1")):
        nodes = Nodes(backend, endpoint)
        handler = nodes.make(0, store_lost=0.1)
        for act in refusals(handler):
            with pytest.raises(RendezvousConnectionError, match="run run "):
                act()
        nodes.end()


def refusals(handler: RendezvousHandler) -> list[Callable[[], object]]:
    return [handler.next_rendezvous, handler.is_closed, handler.set_closed, handler.num_nodes_waiting]


@pytest.mark.parametrize("again", range(5))
def test_a_handler_that_is_shut_down_while_it_waits_stops_waiting(local: Nodes, again: int) -> None:
    handler = local.make(0)
    waiting = local.begin(handler)[0]
    if again:
        wait_until(lambda: handler._membership is not None, SOON_S, "it has begun")
    threading.Thread(target=handler.shutdown).start()

    with pytest.raises(RendezvousStateError, match="shut down"):
        waiting.result(SOON_S)


@pytest.mark.needs_etcd
def test_an_etcd_run_keeps_its_ledger_in_its_directory(etcd_server: EtcdServer, tmp_path: Path) -> None:
    nodes = Nodes("etcd-v3", etcd_server.endpoint)
    handler = nodes.make(0, least=1, most=1, run_dir=str(tmp_path / "run"))
    info = handler.next_rendezvous()
    info.store.set("key", "value")
    handler.set_closed()

    kept = {path.name for path in (tmp_path / "run" / "record" / "rounds").iterdir()}
    nodes.end()
    assert {"1", "1.verdict", "2"} <= kept
    assert not (tmp_path / "run" / "record" / "stores").exists()
