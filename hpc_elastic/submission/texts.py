"""Which texts can be words of a command line, as all that a submission hands on becomes one. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from hpc_elastic.errors import UsageError, shown

# Linux: 128 KiB for one word, a quarter of the stack's limit of 8 MiB for all words and the environment.
MOST_BYTES: Final = 128 * 1024 - 1
MOST_BYTES_OF_ALL: Final = 1024 * 1024


def check(what: str, words: Sequence[str]) -> None:
    """Raise UsageError where one of `words`, or all together, cannot be on a command line."""
    total = sum(_size_bytes(what, word) + 1 for word in words)
    if total > MOST_BYTES_OF_ALL:
        raise UsageError(
            f"{what}: {len(words)} of {total} bytes together, and a command line takes {MOST_BYTES_OF_ALL}; "
            "write them to a file and give its path"
        )


def _size_bytes(what: str, word: str) -> int:
    if "\0" in word:
        raise UsageError(f"{what} {shown(word)} has a zero byte, which no command line holds; leave it out")
    try:
        size = len(os.fsencode(word))
    except UnicodeEncodeError as bad:
        raise UsageError(f"{what} {shown(word)} cannot be encoded ({bad.reason}); give text") from None
    if size > MOST_BYTES:
        raise UsageError(
            f"{what} {shown(word)} has {size} bytes, and one word of a command line takes {MOST_BYTES}; "
            "write it to a file and give its path"
        )
    return size
