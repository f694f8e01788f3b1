"""What a handler makes of what its keeper has seen."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.rendezvous.handler import Part, RecordRendezvousHandler
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Drain, Reason
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings, Standing

PART = Part(
    "memory", "run", JobStart("c", "1"), Seat("n1", 1, "h", "127.0.0.1", 1), Settings(2, 3, 3), timedelta(1)
)


class Keeper:
    """Has seen nobody who waits, and a drain."""

    def __init__(self, reason: Reason) -> None:
        self._drain = Drain(1, reason, 30.0, False, (), "", "1-n0-x")

    def standing(self) -> Standing:
        return Standing(1, "1-n1-x", drain=self._drain)


@pytest.mark.parametrize(("reason", "waiting"), [(Reason.MEMBERSHIP, 1), (Reason.USER, 0)])
def test_whoever_is_asked_to_let_newcomers_in_knows_that_somebody_waits(reason: Reason, waiting: int) -> None:
    handler = RecordRendezvousHandler(PART, MemoryBackend)
    handler._membership = cast(Membership, Keeper(reason))

    assert handler.num_nodes_waiting() == waiting
