"""What one mount does wrong: a frozen value with a JSON form."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Final

FLOCK_SHARED: Final = "shared"  # every mount sees every lock
FLOCK_LOCAL: Final = "local"  # the kernel of this mount alone knows of it
FLOCK_HANGS: Final = "hangs"  # the call never returns and cannot be interrupted
REPLIES: Final = ("link", "rename", "create")


@dataclass(frozen=True)
class MountFaults:
    """Caches last for seconds and belong to one mount; chances are per operation, between 0 and 1.

    `attributes_s`, `names_s`, `missing_names_s` are kept by the kernel, `listings_s` by the mount's
    process (its own changes of a folder empty its listing, as on NFS). An open file is always read
    afresh: close-to-open consistency. `flock` is one of the words above or the name of an errno. Where
    a mount is not exclusive, who comes second is told that it was the first, as on some object stores.
    `lost_replies` maps an operation of REPLIES to the chance that it is carried out and answered
    with EIO; `errors` maps the name of an errno to the chance that it comes instead of the work.
    """

    attributes_s: float = 0.0
    names_s: float = 0.0
    missing_names_s: float = 0.0
    listings_s: float = 0.0
    flock: str = FLOCK_SHARED
    has_links: bool = True
    is_exclusive: bool = True
    lost_replies: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.lost_replies if name not in REPLIES]
        unknown += [name for name in self.errors if not hasattr(errno, name)]
        if self.flock not in (FLOCK_SHARED, FLOCK_LOCAL, FLOCK_HANGS) and not hasattr(errno, self.flock):
            unknown.append(self.flock)
        if unknown:
            raise ValueError(f"a mount has no such fault: {', '.join(unknown)}")

    @classmethod
    def caching(cls, seconds: float, *, listings_s: float = 0.0) -> MountFaults:
        """Attributes, names and missing names are believed for so long."""
        return cls(seconds, seconds, seconds, listings_s)

    def encode(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> MountFaults:
        """From JSON; a name that is not known is a `ValueError`."""
        body = json.loads(text)
        unknown = set(body) - {one.name for one in fields(cls)}
        if unknown:
            raise ValueError(f"a mount has no such fault: {', '.join(sorted(unknown))}")
        return cls(**body)
