"""Who rings the bell of a directory knocks at the others, so that nobody has to look at it all the time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.file import FileBackend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.keys import node_key
from hpc_elastic.rendezvous.knocking import Knocker
from hpc_elastic.rendezvous.record import NodeState, Presence, Reason, Scope
from hpc_elastic.values import replace
from tests.integration.rendezvous.fleet import TIME_S, Fleet
from tests.waiting import wait_until

LOCAL = "127.0.0.1"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "record")
    yield fleet
    fleet.close()


@pytest.fixture
def knocker() -> Iterator[Knocker]:
    made = Knocker.open(LOCAL)
    assert made is not None
    yield made
    made.close()


def presence(backend: Backend, node: str) -> Presence:
    raw = backend.read(node_key(node))
    assert raw is not None
    return decode_as(raw, Presence, key=node_key(node))


def test_whoever_is_knocked_at_hears_it_whatever_is_said(knocker: Knocker) -> None:
    heard = threading.Event()
    knocker.start(heard.set)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"\0" * 2000, (LOCAL, knocker.port))

    assert heard.wait(TIME_S)


def test_nobody_waits_for_an_ear_that_is_not_there(knocker: Knocker) -> None:
    heard = threading.Event()
    knocker.start(heard.set)

    knocker.knock([("no-such-host", 9), ("fe80::1", 9), (LOCAL, 1), (LOCAL, knocker.port)])

    assert heard.wait(TIME_S)


def test_an_ear_that_is_closed_leaves_no_thread() -> None:
    made = Knocker.open(LOCAL)
    assert made is not None
    made.start(lambda: None)
    listening = [one for one in threading.enumerate() if one.name == "hpc-elastic ear"]

    made.close()

    for thread in listening:
        thread.join(TIME_S)
        assert not thread.is_alive()


def test_who_has_something_to_tell_knocks_at_those_who_wait(fleet: Fleet) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind((LOCAL, 0))
        ear.settimeout(TIME_S)
        waiting = Presence("1-n1-x", 1, "n1", 1, "h1", LOCAL, 1, 1, "default", NodeState.JOINING, 0, 1)
        waiting = replace(waiting, ear=ear.getsockname()[1])
        FileBackend(fleet.root).overwrite(node_key(waiting.node), encode(waiting))
        member = fleet.open(0)
        member.join()
        member.announce(Reason.USER, Scope.RUN, TIME_S)

        assert ear.recv(100)


def test_the_ears_of_its_members_are_in_the_round(fleet: Fleet) -> None:
    agreed = fleet.form(2)[0].standing().round
    assert agreed is not None

    for one in agreed.members:
        assert one.ear == presence(FileBackend(fleet.root), one.node).ear > 0


def test_where_the_backend_tells_of_changes_nobody_listens(fleet: Fleet) -> None:
    backend = MemoryBackend()
    fleet.open(0, backend=backend).join()
    wait_until(lambda: backend.names("nodes"), TIME_S, "the node is there")
    (node,) = backend.names("nodes")

    assert presence(backend, node).ear == 0


def test_an_ear_that_can_be_nobodys_holds_up_nobody(knocker: Knocker) -> None:
    strange = [("\0", 1), ("\ud800", 1), ("no address", 1), ("", 1), (LOCAL, 10**9), (LOCAL, -5)]
    heard = threading.Event()
    knocker.start(heard.set)

    knocker.knock([*strange, (LOCAL, knocker.port)])

    assert heard.wait(TIME_S)
