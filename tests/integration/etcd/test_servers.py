"""The etcd backends over servers that are old, strict, stopped, emptied of their history, or dying."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

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
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_etcd

MakeServer = Callable[..., EtcdServer]


class Clock:
    """Stands still; `sleep_s` moves it on."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds

    def utc_now(self) -> str:
        return "2024-01-01T00:00:00+00:00"


@pytest.fixture
def own_server(make_etcd_server: MakeServer) -> Iterator[EtcdServer]:
    server = make_etcd_server(v2=True)
    yield server
    server.stop()


def space() -> str:
    return f"run/{os.urandom(6).hex()}"


def quiet(backend: Backend) -> None:
    """Until a watch has told all that it had to."""

    def tells_nothing() -> bool:
        wake = threading.Event()
        began_s = time.monotonic()
        backend.wait(0.2, wake)
        return time.monotonic() - began_s >= 0.2

    wait_until(tells_nothing, 10.0, "the watch is quiet")


def is_told(backend: Backend, change: Callable[[], object], timeout_s: float = 10.0) -> float:
    """How long after a change a waiting agent is woken; it fails when that takes the whole time."""
    done_at_s: list[float] = []

    def act() -> None:
        change()
        done_at_s.append(time.monotonic())

    timer = threading.Timer(0.1, act)
    timer.start()
    wake = threading.Event()
    backend.wait(timeout_s, wake)
    woken_at_s = time.monotonic()
    timer.join()
    assert wake.is_set(), f"not told within {timeout_s:g} s"
    return woken_at_s - done_at_s[0]


@pytest.mark.parametrize("kind", [EtcdV3Backend, EtcdV2Backend])
def test_a_waiting_agent_is_told_of_a_record_at_once_and_of_beats_not_at_all(
    etcd_server: EtcdServer, kind: type[EtcdV3Backend] | type[EtcdV2Backend]
) -> None:
    name = space()
    waiting, acting = kind.open(etcd_server.address(), name), kind.open(etcd_server.address(), name)
    acting.create("rounds/1", b"x")
    quiet(waiting)

    took_s = min(is_told(waiting, partial(acting.create, f"rounds/{n}", b"x")) for n in range(2, 6))

    assert took_s < 0.1
    acting.overwrite("nodes/a", b"beat")
    quiet(waiting)
    waiting.close()
    acting.close()


def test_a_watch_survives_a_restart_and_a_compaction_of_what_it_had_not_seen(own_server: EtcdServer) -> None:
    name = space()
    waiting, acting = (EtcdV3Backend.open(own_server.address(), name) for _ in range(2))
    acting.create("rounds/1", b"x")
    quiet(waiting)
    member = own_server.members[0]
    member.pause()
    member.kill()
    member.start()
    own_server.wait_until_ready()
    for number in range(2, 20):
        acting.create(f"rounds/{number}", b"x")
    own_server.compact()
    quiet(waiting)

    assert is_told(waiting, lambda: acting.create("rounds/20", b"x")) < 5.0
    waiting.close()
    acting.close()


def test_a_watch_from_a_compacted_revision_begins_anew(own_server: EtcdServer) -> None:
    from hpc_elastic.backends.etcd_watch import EtcdWatch

    backend = EtcdV3Backend.open(own_server.address(), space())
    for number in range(1, 5):
        backend.create(f"rounds/{number}", b"x")
    own_server.compact()
    heard = Heard()
    watch = EtcdWatch(backend.client, ((b"/", b"0"),), heard)
    watch._next_revisions = {1: 1}
    watch._thread.start()
    wait_until(lambda: heard.begun[-1:] == [False], 10.0, "the watch begins at what is now")

    backend.create("rounds/9", b"x")

    wait_until(lambda: b"x" in heard.values, 10.0, "it tells of what comes")
    watch.close()


def test_a_look_at_what_has_not_changed_asks_nobody_while_the_watch_is_known_to_live(
    own_server: EtcdServer,
) -> None:
    name = space()
    looking, acting = (EtcdV3Backend.open(own_server.address(), name) for _ in range(2))
    acting.overwrite("bell", b"one")
    quiet(looking)

    def knows_after_a_beat() -> bool:
        looking.overwrite("nodes/a", b"beat")
        looking.wait(0.2, threading.Event())
        return is_known(looking, "bell")

    wait_until(knows_after_a_beat, 30.0, "the watch has told of a beat")

    acting.overwrite("bell", b"two")
    told = partial(is_known, looking, "bell")  # what is not known is read from the server
    wait_until(lambda: told() and looking.read("bell") == b"two", 30.0, "the watch tells of the bell")
    own_server.members[0].pause()

    assert looking.read("bell") == b"two"
    assert is_known(looking, "bell")
    with pytest.raises(BackendUnavailable):
        looking.overwrite("nodes/a", b"beat")
    own_server.members[0].resume()
    looking._known.wrote(10**9)  # a write that the watch never tells of, as when it stands still
    assert not is_known(looking, "bell")
    assert looking.read("bell") == b"two"


class Heard:
    """Keeps what a watch tells."""

    def __init__(self) -> None:
        self.begun: list[bool] = []
        self.values: list[bytes | None] = []

    def begin(self, revision: int, *, is_continued: bool) -> None:
        self.begun.append(is_continued)

    def end(self) -> None:
        self.begun.clear()

    def told(self, key: bytes, revision: int, value: bytes | None) -> None:
        self.values.append(value)


def is_known(backend: EtcdV3Backend, key: str) -> bool:
    backend.read(key)
    return backend._known.look_up(backend._name(key))[0]


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

    wait_until(lambda: reads(backend, "rounds/1") == b"x", 20.0, "the record is read with a new token")
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
    backend = kind.open(server.address(), space())
    backend.create("rounds/1", b"x")

    server.members[0].pause()
    wait_until(lambda: reads(backend, "rounds/1") == b"x", 30.0, "another member answers")
    server.members[0].resume()
    server.members[1].kill()

    wait_until(lambda: reads(backend, "rounds/1") == b"x", 30.0, "the two others answer")
    assert backend.create("rounds/1", b"y") == b"x"
    server.stop()


def test_data_that_went_back_in_time_are_a_record_that_is_gone(own_server: EtcdServer) -> None:
    backend = EtcdV3Backend.open(own_server.address(), space())
    for number in range(1, 5):
        backend.create(f"rounds/{number}", b"x")

    own_server.restart(keeps_data=False)

    with pytest.raises(BackendGone, match="lost its data"):
        wait_until(lambda: reads(backend, "rounds/1"), 20.0, "etcd answers")


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


def reads(backend: Backend, key: str) -> bytes | None:
    """What is read, or None while it cannot be; a record that is gone stays an error."""
    try:
        return backend.read(key)
    except BackendGone:
        raise
    except BackendUnavailable:
        return None
