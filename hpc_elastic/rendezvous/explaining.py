"""Failures of a backend, told as errors of the rendezvous."""

from __future__ import annotations

from typing import Final

from hpc_elastic.errors import (
    BackendUnavailable,
    RecordCorrupt,
    RecordLost,
    RendezvousConnectionError,
    RendezvousStateError,
)

_OUT_OF_REACH: Final = (BackendUnavailable, RecordLost, OSError)


class Explained:
    """A block whose failures of the backend become `RendezvousConnectionError`, or `RendezvousStateError`
    where a record in it is damaged."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _OUT_OF_REACH):
            raise RendezvousConnectionError(f"run {self._run_id}: {error}") from error
        if isinstance(error, RecordCorrupt):
            raise RendezvousStateError(f"run {self._run_id}: {error}") from error
