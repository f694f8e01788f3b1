"""Which agents of one attempt live, by this process's own watch of their beats.

For whoever is not a member: the batch side, and the last agent out.
"""

from __future__ import annotations

from hpc_elastic.backends.base import Backend
from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.record import NodeState, Presence
from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class Mark:
    """The last read presence of one agent, and since when its beat has been seen to stand still."""

    presence: Presence
    still_since_s: float
    read_at_s: float
    has_moved: bool = False

    @property
    def has_left(self) -> bool:
        """Whether the agent itself said that it has left."""
        return self.presence.state is NodeState.LEFT

    def is_gone(self, liveness_s: float) -> bool:
        """Whether it has left, or its beat was watched standing still for longer than `liveness_s`."""
        return self.has_left or self.read_at_s - self.still_since_s > liveness_s


class Roll:
    """The agents of attempt `attempt`. Raises `BackendUnavailable` where the record cannot be read."""

    def __init__(self, backend: Backend, attempt: int) -> None:
        self._backend = backend
        self._prefix = f"{attempt}-"
        self._marks: dict[str, Mark] = {}

    @property
    def marks(self) -> tuple[Mark, ...]:
        """All that have been seen, in the order of their names."""
        return tuple(self._marks[node] for node in sorted(self._marks))

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes on which an agent has been seen."""
        return frozenset(mark.presence.name for mark in self._marks.values())

    def look(self, now_s: float) -> None:
        """Read the presence of every agent that has not left."""
        for node in self._backend.names(keys.NODES):
            known = self._marks.get(node)
            if node.startswith(self._prefix) and not (known is not None and known.has_left):
                self._read(node, now_s)

    def look_at(self, name: str, now_s: float) -> None:
        """Read again the presence of the agents seen on the node `name`."""
        for node, mark in list(self._marks.items()):
            if mark.presence.name == name:
                self._read(node, now_s)

    def look_at_one(self, liveness_s: float, now_s: float) -> bool:
        """Whether one that was alive so far still is: one read while all is well."""
        for node, mark in sorted(self._marks.items()):
            if not mark.is_gone(liveness_s):
                self._read(node, now_s)
                if not self._marks[node].is_gone(liveness_s):
                    return True
        return False

    def begin_anew(self, now_s: float) -> None:
        """After a time in which nothing could be read: nobody's silence has been watched."""
        self._marks = {
            node: Mark(mark.presence, now_s, now_s, mark.has_moved) for node, mark in self._marks.items()
        }

    def living(self, liveness_s: float) -> tuple[Mark, ...]:
        """The agents that are not gone."""
        return tuple(mark for mark in self.marks if not mark.is_gone(liveness_s))

    def _read(self, node: str, now_s: float) -> None:
        raw = self._backend.read(keys.node_key(node))
        if raw is None:
            return
        try:
            presence = decode_as(raw, Presence, key=keys.node_key(node))
        except RecordCorrupt:
            return  # its silence
        known = self._marks.get(node)
        if known is None:
            self._marks[node] = Mark(presence, now_s, now_s)
        elif presence.beat > known.presence.beat:
            self._marks[node] = Mark(presence, now_s, now_s, has_moved=True)
        else:
            self._marks[node] = Mark(known.presence, known.still_since_s, now_s, known.has_moved)
