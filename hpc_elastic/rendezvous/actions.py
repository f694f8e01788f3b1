"""What the machine asks of its driver: frozen values."""

from __future__ import annotations

from hpc_elastic.errors import HpcElasticError
from hpc_elastic.rendezvous.record import Presence, Record
from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class Publish:
    """Write this node's presence; `is_news`: others may be waiting for it."""

    presence: Presence
    is_news: bool


@dataclass(frozen=True)
class Make:
    """Create `record` under `key`; whatever stands there afterwards is what counts."""

    key: str
    record: Record


@dataclass(frozen=True)
class Fail:
    """This node can take no further part."""

    error: HpcElasticError


Action = Publish | Make | Fail
