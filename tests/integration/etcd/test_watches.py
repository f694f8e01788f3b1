"""The watches of the etcd backends: whoever waits is told at once, and nothing that is known is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from hpc_elastic.backends.etcd_v2 import EtcdV2Backend
from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from hpc_elastic.backends.etcd_watch import EtcdWatch
from hpc_elastic.errors import BackendUnavailable
from hpc_elastic.testing.etcd_server import EtcdServer
from hpc_elastic.values import replace
from tests.integration.etcd.hearing import SOON_S, is_known, is_told, quiet, space, watched
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_etcd

# "At once" is less than this. A busy machine takes longer now and then, but not every time.
AT_ONCE_S = 0.1
TRIES = 12


@pytest.fixture
def own_server(make_etcd_server: Callable[..., EtcdServer]) -> Iterator[EtcdServer]:
    server = make_etcd_server()
    yield server
    server.stop()


@pytest.mark.parametrize("kind", [EtcdV3Backend, EtcdV2Backend])
def test_a_waiting_agent_is_told_of_a_record_at_once_and_of_beats_not_at_all(
    etcd_server: EtcdServer, kind: type[EtcdV3Backend] | type[EtcdV2Backend]
) -> None:
    name = space()
    waiting, acting = kind.open(etcd_server.address(), name), kind.open(etcd_server.address(), name)
    acting.create("rounds/1", b"x")
    watched(waiting, lambda number: acting.create(f"rounds/{1000 + number}", b"x"))

    took_s = (is_told(waiting, partial(acting.create, f"rounds/{n}", b"x")) for n in range(2, 2 + TRIES))

    assert any(each < AT_ONCE_S for each in took_s)
    acting.overwrite("nodes/a", b"beat")
    quiet(waiting)
    waiting.close()
    acting.close()


def test_a_watch_survives_a_restart_and_a_compaction_of_what_it_had_not_seen(own_server: EtcdServer) -> None:
    name = space()
    waiting, acting = (EtcdV3Backend.open(own_server.address(), name) for _ in range(2))
    acting.create("rounds/1", b"x")
    watched(waiting, lambda number: acting.create(f"rounds/{1000 + number}", b"x"))
    member = own_server.members[0]
    member.pause()
    member.kill()
    member.start()
    own_server.wait_until_ready()
    for number in range(2, 20):
        acting.create(f"rounds/{number}", b"x")
    own_server.compact()

    watched(waiting, lambda number: acting.create(f"rounds/{2000 + number}", b"x"))
    is_told(waiting, lambda: acting.create("rounds/20", b"x"))
    waiting.close()
    acting.close()


def test_a_watch_from_a_compacted_revision_begins_anew(own_server: EtcdServer) -> None:
    backend = EtcdV3Backend.open(own_server.address(), space())
    for number in range(1, 5):
        backend.create(f"rounds/{number}", b"x")
    own_server.compact()
    heard = Heard()
    watch = EtcdWatch(backend.client, ((b"/", b"0"),), heard)
    watch._next_revisions = {1: 1}
    watch._thread.start()
    wait_until(lambda: heard.begun[-1:] == [False], SOON_S, "the watch begins at what is now")

    backend.create("rounds/9", b"x")

    wait_until(lambda: b"x" in heard.values, SOON_S, "it tells of what comes")
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

    wait_until(knows_after_a_beat, SOON_S, "the watch has told of a beat")

    acting.overwrite("bell", b"two")
    told = partial(is_known, looking, "bell")  # what is not known is read from the server
    wait_until(lambda: told() and looking.read("bell") == b"two", SOON_S, "the watch tells of the bell")
    own_server.members[0].pause()

    assert looking.read("bell") == b"two"
    assert is_known(looking, "bell")
    transport = looking.client.transport
    patient, transport.address = transport.address, replace(transport.address, request_timeout_s=1.0)
    with pytest.raises(BackendUnavailable):
        looking.overwrite("nodes/a", b"beat")
    transport.address = patient
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
