"""The etcd backends over servers that are old, strict, stopped, emptied of their history, or dying."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.etcd_endpoints import parse
from hpc_elastic.backends.etcd_v2 import EtcdV2Backend, NoV2
from hpc_elastic.backends.etcd_v3 import LEASE_TTL_S, EtcdV3Backend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import BackendGone, BackendRefused, BackendUnavailable
from hpc_elastic.rendezvous.choice import Wanted, open_meeting
from hpc_elastic.rendezvous.standing import JobStart
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.etcd.hearing import SOON_S, Clock, space
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_etcd

MakeServer = Callable[..., EtcdServer]
T = TypeVar("T")


@pytest.fixture
def own_server(make_etcd_server: MakeServer) -> Iterator[EtcdServer]:
    server = make_etcd_server(v2=True)
    yield server
    server.stop()


def test_a_lease_that_the_server_has_dropped_is_granted_anew_with_the_next_write(
    etcd_server: EtcdServer,
) -> None:
    name = space()
    backend = EtcdV3Backend.open(etcd_server.address(), name)
    backend.overwrite("nodes/a", b"one")

    backend.client.revoke(backend._lease)  # what a server does that stood still for too long

    assert backend.read("nodes/a") is None
    backend.overwrite("nodes/a", b"two")
    assert backend.create("rounds/1", b"x") == b"x"
    assert EtcdV3Backend.open(etcd_server.address(), name).read("nodes/a") == b"two"


def test_the_lease_of_a_run_is_one_for_all_its_agents_and_is_renewed_in_time(etcd_server: EtcdServer) -> None:
    name, clock = space(), Clock()
    first, second = (EtcdV3Backend.open(etcd_server.address(), name, clock) for _ in range(2))
    first.overwrite("nodes/a", b"x")
    second.overwrite("nodes/b", b"x")
    assert first._lease == second._lease
    first.client.revoke(first._lease)

    clock.sleep_s(LEASE_TTL_S / 4)
    first.overwrite("nodes/a", b"x")

    assert first.client.keep_alive(first._lease)


def test_a_token_that_a_restarted_server_has_forgotten_is_renewed(make_etcd_server: MakeServer) -> None:
    server = make_etcd_server(user="trainer", password="right")
    backend = EtcdV3Backend.open(server.address(), space())
    backend.create("rounds/1", b"x")

    server.restart()

    wait_until(lambda: reads(backend, "rounds/1") == b"x", SOON_S, "the record is read with a new token")
    assert backend.create("rounds/2", b"y") == b"y"
    server.stop()


def test_keys_outside_of_what_a_user_may_touch_are_named(make_etcd_server: MakeServer) -> None:
    server = make_etcd_server(user="trainer", password="right")

    with pytest.raises(BackendRefused, match="denies user 'trainer' the keys below /elsewhere"):
        EtcdV3Backend.open(server.address(etcd_prefix="/elsewhere"), space())
    with pytest.raises(BackendRefused, match="wants a user and a password"):
        EtcdV3Backend.open(server.address({}), space())
    server.stop()


@pytest.mark.parametrize("kind", [EtcdV3Backend, EtcdV2Backend])
def test_several_members_stand_in_for_one_that_is_paused_or_dead(
    make_etcd_server: MakeServer, kind: type[EtcdV3Backend] | type[EtcdV2Backend]
) -> None:
    server = make_etcd_server(members=3, v2=True)
    backend = answer_of(lambda: kind.open(server.address(request_timeout_s=5.0), space()))
    assert answer_of(lambda: backend.create("rounds/1", b"x")) == b"x"

    server.members[0].pause()
    assert answer_of(lambda: backend.read("rounds/1")) == b"x"
    server.members[0].resume()
    server.members[1].kill()

    assert answer_of(lambda: backend.read("rounds/1")) == b"x"
    assert answer_of(lambda: backend.create("rounds/1", b"y")) == b"x"
    server.stop()


def test_data_that_went_back_in_time_are_a_record_that_is_gone(own_server: EtcdServer) -> None:
    backend = EtcdV3Backend.open(own_server.address(), space())
    for number in range(1, 5):
        backend.create(f"rounds/{number}", b"x")

    own_server.restart(keeps_data=False)

    with pytest.raises(BackendGone, match="lost its data"):
        wait_until(lambda: reads(backend, "rounds/1"), SOON_S, "etcd answers")


def test_a_server_that_speaks_v2_only_is_used_by_v2(make_etcd_server: MakeServer) -> None:
    server = make_etcd_server(v2=True, gateway=False)
    wanted = Wanted("etcd", server.address(), lambda text: parse(text, {}, {}))
    ledger = MemoryBackend()

    meeting = open_meeting(wanted, ledger, JobStart("c", "1"), run_id="r", name="n0", clock=Clock())

    assert meeting.choice.backend == "etcd-v2"
    with pytest.raises(BackendRefused, match=r"JSON gateway switched off.*--rdzv-backend etcd-v2"):
        EtcdV3Backend.open(server.address(), space())
    server.stop()


def test_a_server_with_v2_disabled_says_so_and_names_v3(make_etcd_server: MakeServer) -> None:
    server = make_etcd_server(v2=False)

    with pytest.raises(NoV2, match=r"does not speak v2; .*--rdzv-backend etcd-v3"):
        EtcdV2Backend.open(server.address(), space())
    server.stop()


def test_another_cluster_than_the_chosen_one_is_refused(
    etcd_server: EtcdServer, own_server: EtcdServer
) -> None:
    ledger = MemoryBackend()
    for number, server in enumerate((etcd_server, own_server)):
        wanted = Wanted("etcd", server.address(), lambda text: parse(text, {}, {}))
        start, name = JobStart("c", "1"), f"n{number}"
        if server is etcd_server:
            open_meeting(wanted, ledger, start, run_id="r", name=name, clock=Clock()).backend.close()
            continue
        with pytest.raises(Exception, match=r"node n1 reaches another etcd .* give all nodes the same"):
            open_meeting(wanted, ledger, start, run_id="r", name=name, clock=Clock())


def test_an_ipv6_address_and_a_plain_client_of_a_tls_server(make_etcd_server: MakeServer) -> None:
    server = make_etcd_server(host="::1", tls=True)
    backend = EtcdV3Backend.open(server.address(), space())

    assert backend.create("rounds/1", b"x") == b"x"
    with pytest.raises(BackendUnavailable, match="if it speaks TLS only, use protocol=https"):
        EtcdV3Backend.open(parse(server.endpoint, {}, {}), space())
    server.stop()


def answer_of(ask: Callable[[], T]) -> T:
    """The answer, once there is one: while a cluster elects its leader none of its members has it."""

    def answers() -> list[T]:
        try:
            return [ask()]
        except (BackendGone, BackendRefused):
            raise
        except BackendUnavailable:
            return []

    return wait_until(answers, 2 * SOON_S, "a member answers")[0]


def reads(backend: Backend, key: str) -> bytes | None:
    """What is read, or None while it cannot be; a record that is gone stays an error."""
    try:
        return backend.read(key)
    except BackendGone:
        raise
    except BackendUnavailable:
        return None
