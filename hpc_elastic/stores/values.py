"""What callers may give to a store, parsed at the edge: keys, values, times."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

DEFAULT_TIMEOUT_S: Final = 300.0

Text = str | bytes
Time = float | timedelta

MOST_DIGITS: Final = 4000
# Thirty years: what is meant to be for ever, and no arithmetic with times goes beyond its bounds.
LONGEST_S: Final = 1e9
_NUMBER: Final = re.compile(rb"-?[0-9]{1,%d}" % MOST_DIGITS)
_TOO_LARGE: Final = 10**MOST_DIGITS
# 4096 bytes of a key stay readable in a message.
_SHOWN: Final = 80


def as_key(key: Text) -> bytes:
    """The bytes of a key; `ValueError` for what is neither `str` nor `bytes`."""
    return _as_bytes(key, "key")


def as_keys(keys: Iterable[Text]) -> list[bytes]:
    """The bytes of several keys; one key alone is a `ValueError`, not a list of its letters."""
    if isinstance(keys, (str, bytes)):
        raise ValueError(f"keys {shown(as_key(keys))}: expected a list of keys; write [key]")
    return [as_key(key) for key in keys]


def as_value(value: Text) -> bytes:
    """The bytes of a value; `ValueError` for what is neither `str` nor `bytes`."""
    return _as_bytes(value, "value")


def as_seconds(timeout: Time) -> float:
    """A time-out in seconds: zero looks once, and none is longer than `LONGEST_S`.

    `ValueError` for what is no such time.
    """
    if isinstance(timeout, timedelta):
        seconds = timeout.total_seconds()
    elif type(timeout) in (int, float):
        seconds = float(timeout)
    else:
        raise ValueError(f"timeout {timeout!r}: expected seconds or a timedelta, not {_kind(timeout)}")
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"timeout {seconds} s: expected a finite time that is not negative")
    return min(seconds, LONGEST_S)


def as_count(amount: int) -> int:
    """What is to be added; `ValueError` for what is no whole number."""
    if type(amount) is not int:
        raise ValueError(f"cannot add {amount!r}: expected an int, not {_kind(amount)}")
    return amount


def read_number(key: bytes, value: bytes | None) -> int:
    """The number under a key; a missing one counts as 0, and text that is no number is a `ValueError`."""
    if value is None:
        return 0
    if not _NUMBER.fullmatch(value):
        raise ValueError(
            f"key {shown(key)} holds {shown(value)}, which is no decimal number; add to another key"
        )
    return int(value)


def write_number(key: bytes, number: int) -> bytes:
    """The text of a number that `read_number` reads again; `ValueError` for one that is too large."""
    if abs(number) >= _TOO_LARGE:
        raise ValueError(f"key {shown(key)}: a sum of more than {MOST_DIGITS} digits; nothing was added")
    return b"%d" % number


def shown(text: bytes) -> str:
    """Bytes for a message: short, and without surprises for a terminal."""
    whole = repr(text)[1:]
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}... ({len(text)} bytes)"


def _as_bytes(text: Text, what: str) -> bytes:
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    raise ValueError(f"{what} {text!r:.80}: expected str or bytes, not {_kind(text)}")


def _kind(thing: object) -> str:
    return type(thing).__name__
