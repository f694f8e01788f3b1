"""A notice from somebody who is no member of the run: a person at a login node, or the batch side."""

from __future__ import annotations

from hpc_elastic.backends.base import Backend
from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.codec import decode_as, encode
from hpc_elastic.rendezvous.record import Bell, Notice
from hpc_elastic.rendezvous.sequels import StaysAway
from hpc_elastic.values import replace


def give_notice(backend: Backend, notice: Notice) -> Notice:
    """Put `notice` on record for its attempt, and ring; the notice that stands, which may be an earlier one.

    The members hear of it within about a second; where they ring over this bell at the same moment,
    with their next listing (half a minute). Raises `BackendUnavailable` where nothing can be written.
    """
    return put(backend, keys.notice_key(notice.attempt), notice)


def put(backend: Backend, key: str, notice: Notice) -> Notice:
    """The same under the key that a notice has, or the one of what betters it."""
    stored = decode_as(backend.create(key, encode(notice)), Notice, key=key)
    ring(backend, key, notice.writer)
    return stored


def cancel(backend: Backend, attempt: int, now: str, writer: str) -> None:
    """Say that nothing shall come after `attempt`, for whoever is about to bring its job back.

    `now` is the time of day, for people. Raises `BackendUnavailable` where nothing can be written.
    """
    away = StaysAway(attempt, "it was cancelled", True, now, writer)
    backend.create(keys.stays_away_key(attempt), encode(away))


def ring(backend: Backend, key: str, writer: str) -> None:
    """Say in the bell that `key` exists, beside all that it says already."""
    raw = backend.read(keys.BELL)
    try:
        bell = decode_as(raw, Bell, key=keys.BELL) if raw is not None else Bell(0, 0, "", "")
    except RecordCorrupt:
        bell = Bell(0, 0, "", "")
    if key not in bell.known:
        known = (*bell.known, key)
        backend.overwrite(keys.BELL, encode(replace(bell, topic=key, writer=writer, known=known)))
