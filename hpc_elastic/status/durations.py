"""Durations in words, for people."""

from __future__ import annotations


def in_words(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `5 h 12 min`, `2 d 3 h`: the two largest units."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for unit, below, name, smaller in ((86400, 3600, "d", "h"), (3600, 60, "h", "min"), (60, 1, "min", "s")):
        if whole >= unit:
            more = whole % unit // below
            return f"{whole // unit} {name}" + (f" {more} {smaller}" if more else "")
    return f"{whole} s"
