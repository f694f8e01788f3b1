"""Wall times of the record, for people: they are shown, and no decision hangs on them."""

from __future__ import annotations

from datetime import datetime, timezone


def wall_s(text: str) -> float | None:
    """Seconds since 1970 of a record's time, None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def shown(at_s: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time as people read it, in UTC as all of the record is."""
    return datetime.fromtimestamp(at_s, timezone.utc).strftime(form)
