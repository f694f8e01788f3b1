"""What handlers tell of a run whose record is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpc_elastic.rendezvous import RendezvousParameters, RendezvousStateError, create_handler
from hpc_elastic.rendezvous.handler import RecordRendezvousHandler

Make = Callable[[str], RecordRendezvousHandler]


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Handlers of nodes of one run."""
    made = []

    def handler_of(name: str) -> RecordRendezvousHandler:
        options = {"node_name": name, "allow_loopback": True, "last_call_timeout": 0.1, "join_window": 0.1}
        handler = create_handler(
            RendezvousParameters(request.param, str(tmp_path), "run", 1, 2, config=options)
        )
        assert isinstance(handler, RecordRendezvousHandler)
        made.append(handler)
        return handler

    yield handler_of
    for one in made:
        one.shutdown()


def test_a_damaged_round_is_a_state_error_that_names_its_key(make: Make) -> None:
    member, looker = make("n0"), make("n1")
    member.next_rendezvous()
    member._live().overwrite("rounds/2", b'{"schema":2}')

    for call in (member.is_closed, member.next_rendezvous, looker.next_rendezvous):
        with pytest.raises(RendezvousStateError, match=r"rounds/2: a record has schema 2"):
            call()


def test_who_comes_to_a_damaged_attempt_is_told_of_it(make: Make) -> None:
    member = make("n0")
    member.next_rendezvous()
    member._live().overwrite("attempts/1", b"junk")

    with pytest.raises(RendezvousStateError, match="attempts/1: a record of 4 bytes is not JSON"):
        make("n1").next_rendezvous()


def test_a_damaged_presence_is_nobody_who_waits(make: Make) -> None:
    member = make("n0")
    info = member.next_rendezvous()
    member._live().overwrite("nodes/1-other-0", b"junk")

    assert info.wait_list == ()
    assert member.num_nodes_waiting() == 0
