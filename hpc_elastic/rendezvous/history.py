"""What a run has been through: carried on from round to round in the record, so that one look tells it."""

from __future__ import annotations

from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class Strike:
    """How often rounds of the run have ended because of one node, by its `name`."""

    name: str
    failures: int = 0  # of its own workers
    losses: int = 0  # of the node itself

    @property
    def total(self) -> int:
        return self.failures + self.losses


@dataclass(frozen=True)
class History:
    """The settled past of a run before one of its rounds.

    `reached` is the highest step known at a failure or an agreed stop, -1 for none. `fault` is the last
    failure (`faults.fault_of`), `alike` how often in a row it was the same, `in_vain` how many failures of
    any kind there were in a row, both counted since the run last got further. A closing ends all of it: who
    starts a closed run again has looked at it.
    """

    reached: int = -1
    fault: str = ""
    alike: int = 0
    in_vain: int = 0
    strikes: tuple[Strike, ...] = ()
