"""What a record store keeps below a backend: names that are safe keys, and the bytes of its records."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.values import dataclass

MOST_CHARACTERS: Final = 180
# Of how many other writers a slot names the last change.
REMEMBERED: Final = 256

_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_VALUE, _DELETED, _VOID = b"v", b"d", b"x"
_HEADER: Final = re.compile(rb"([vdx]) ([a-z0-9.]{1,64}) ([a-z0-9.,]*)")
_POINTER: Final = re.compile(rb"([0-9]{1,18}) ([a-z0-9.]{1,64}) ([0-9]{1,18})")


def name_of(key: bytes) -> str:
    """A segment for `key`, its own for each: readable where it can be, a hash where it would be long.

    File names end at 255 bytes, so a key that gets long in this alphabet is named by its SHA-256.
    """
    if len(key) <= MOST_CHARACTERS:
        written = "".join(chr(byte) if byte in _SAFE else f"_{byte:02x}" for byte in key)
        if len(written) <= MOST_CHARACTERS:
            return f"k-{written}"
    return f"h-{hashlib.sha256(key).hexdigest()}"


def writer_of(nonce: str) -> str:
    """Who made a change."""
    return nonce.partition(".")[0]


@dataclass(frozen=True)
class Slot:
    """One version of one key. `value` is None where the key was deleted.

    `nonce` is `<writer>.<count>` of the one change that wrote it; a writer makes one change of a key
    at a time. `before` has the last change of each other writer, the latest first.
    """

    version: int
    nonce: str
    value: bytes | None
    before: tuple[str, ...] = ()
    is_void: bool = False

    def followed_by(self, nonce: str, value: bytes | None) -> Slot:
        """The next version."""
        known = (self.nonce, *self.before) if self.version else ()
        mine = writer_of(nonce)
        before = [one for one in known if writer_of(one) != mine]
        return Slot(self.version + 1, nonce, value, tuple(before[:REMEMBERED]))

    def includes(self, nonce: str) -> bool | None:
        """Whether a writer's last change is among those that led here; None where that is forgotten."""
        mine = writer_of(nonce)
        last = next((one for one in (self.nonce, *self.before) if writer_of(one) == mine), None)
        if last is not None:
            return last == nonce
        return None if len(self.before) >= REMEMBERED else False

    def encode(self) -> bytes:
        kind = _VOID if self.is_void else _DELETED if self.value is None else _VALUE
        head = b" ".join((kind, self.nonce.encode(), ",".join(self.before).encode()))
        return head + b"\n" + (self.value or b"")

    @classmethod
    def decode(cls, version: int, raw: bytes, key: str) -> Slot:
        """Raises `RecordCorrupt` for what no store wrote."""
        head, newline, value = raw.partition(b"\n")
        found = _HEADER.fullmatch(head)
        if not newline or found is None:
            raise RecordCorrupt(
                f"{key} holds {raw[:40]!r}, which no store of this package wrote; the directory or prefix is "
                "used by something else, or a host crashed while it wrote"
            )
        kind, nonce, before = found.groups()
        names = tuple(before.decode().split(",")) if before else ()
        return cls(version, nonce.decode(), value if kind == _VALUE else None, names, is_void=kind == _VOID)


NOTHING: Final = Slot(0, "none", None)


@dataclass(frozen=True)
class Pointer:
    """Which version of a key was newest when this was written; slots up to `floor` are removed."""

    version: int
    nonce: str
    floor: int

    def encode(self) -> bytes:
        return f"{self.version} {self.nonce} {self.floor}".encode()

    @classmethod
    def decode(cls, raw: bytes, key: str) -> Pointer:
        """Raises `RecordCorrupt` for what no store wrote."""
        found = _POINTER.fullmatch(raw)
        if found is None:
            raise RecordCorrupt(f"{key} holds {raw[:40]!r}, which no store of this package wrote")
        version, nonce, floor = found.groups()
        return cls(int(version), nonce.decode(), int(floor))
