"""The first round of a handler, which may stand before the call that asks for it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hpc_elastic.rendezvous import RendezvousParameters, create_handler

# Of so many at least one is overtaken by the thread that forms its round.
_TRIES: Final = 25


def test_a_first_round_is_not_given_up_by_whoever_has_asked_for_it(tmp_path: Path) -> None:
    numbers = []
    for number in range(_TRIES):
        config = {"allow_loopback": True}
        handler = create_handler(RendezvousParameters("memory", str(tmp_path), f"run{number}", config=config))
        numbers.append(handler.next_rendezvous().round)
        handler.shutdown()

    assert numbers == [1] * _TRIES
