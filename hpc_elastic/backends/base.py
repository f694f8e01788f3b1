"""What a backend gives: a few operations on small values under slash-separated keys."""

from __future__ import annotations

import re
import threading
from typing import Final, Protocol

_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
MAX_KEY_CHARACTERS: Final = 1000


class Backend(Protocol):
    """Where the records of one run lie.

    Keys are relative, slash-separated, made of `[A-Za-z0-9._-]` segments that do not begin with
    a dot; another key is a `ValueError`. Values are bytes. Every operation raises
    `BackendUnavailable` when it could not be carried out or when its outcome is unknown; trying
    again is always safe. `BackendGone` says that the place itself has been removed.
    """

    def create(self, key: str, value: bytes) -> bytes:
        """The value that stands under `key` for ever: `value` if this call won, else the winner's.

        A record carries its writer's nonce, so getting one's own bytes back is a win even when
        an earlier reply was lost.
        """
        ...

    def overwrite(self, key: str, value: bytes) -> None:
        """Replace the value under `key`; readers see the old value or the new, never a part."""
        ...

    def read(self, key: str) -> bytes | None:
        """The value under `key`, or None where there is none."""
        ...

    def names(self, folder: str) -> frozenset[str]:
        """The last segments of the keys directly below `folder`."""
        ...

    def remove(self, key: str) -> None:
        """Remove one key, or the whole folder of that name; nothing happens where there is none."""
        ...

    def wait(self, timeout_s: float, wake: threading.Event) -> None:
        """Return when something may have changed, when `wake` is set, at the latest after `timeout_s`.

        A backend that cannot tell of changes just waits; the caller then looks at the bell.
        """
        ...

    def close(self) -> None:
        """Give back what the backend holds."""
        ...


def check_key(key: str) -> str:
    """`key`, if it is one; `ValueError` otherwise, so that no key can name a path elsewhere."""
    if len(key) > MAX_KEY_CHARACTERS or not _KEY.fullmatch(key):
        raise ValueError(
            f"{key!r:.200} is not a key: segments of [A-Za-z0-9._-] that do not begin with a dot"
        )
    return key
