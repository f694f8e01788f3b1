"""What a rendezvous handler is made from: parameters and times, checked when they are given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from hpc_elastic import settings

_TRUE: Final = ("1", "true", "t", "yes", "y")
_FALSE: Final = ("0", "false", "f", "no", "n")
# Each time, and the options it is read from; the first that is given counts.
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "join": ("join_timeout", "timeout"),
    "last_call": ("last_call_timeout",),
    "close": ("close_timeout",),
    "heartbeat": ("heartbeat_timeout", "heartbeat"),
}


class RendezvousParameters:
    """Everything a handler is made from. `config` and further `options` are read with `get` and its kin.

    `min_nodes` and `max_nodes` in `config` win over the arguments. Raises `ValueError` for an empty
    `backend`, `min_nodes` below 1, or `max_nodes` below `min_nodes`.
    """

    def __init__(
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int = 1,
        max_nodes: int = 1,
        local_addr: str | None = None,
        node_rank: int = 0,
        local_world_size: int = 1,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if not backend:
            raise ValueError("rendezvous backend '': expected the name of one, say 'file'")
        self.backend = backend
        self.endpoint = endpoint
        self.run_id = run_id
        self.local_addr = local_addr
        self.node_rank = node_rank
        self.local_world_size = local_world_size
        self.config: dict[str, Any] = {**(config or {}), **options}
        self.min_nodes = self.get_as_int("min_nodes", min_nodes) or 0
        self.max_nodes = self.get_as_int("max_nodes", max_nodes) or 0
        if self.min_nodes < 1:
            raise ValueError(f"min_nodes {self.min_nodes}: expected at least 1")
        if self.max_nodes < self.min_nodes:
            raise ValueError(f"max_nodes {self.max_nodes}: expected at least min_nodes, {self.min_nodes}")

    @property
    def timeout(self) -> RendezvousTimeout:
        """The times of the rendezvous, from the options."""
        return RendezvousTimeout.from_params(self)

    def get(self, key: str, default: Any = None) -> Any:
        """The option `key`, or `default` where it is not given."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """The option `key` as a truth value: 1/0, true/false, t/f, yes/no or y/n, in any case.

        Raises `ValueError` that names the option for anything else.
        """
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).lower() if isinstance(value, (int, str)) else ""
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise ValueError(f"rendezvous option {key}={value!r}: expected true or false")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """The option `key` as a whole number. Raises `ValueError` that names the option."""
        value = self.get(key, default)
        if value is None:
            return None
        try:
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError(value)
            return int(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"rendezvous option {key}={value!r}: expected a whole number") from None

    def get_as_seconds(self, key: str) -> timedelta | None:
        """The option `key` as a time, given in seconds. Raises `ValueError` that names the option."""
        value = self.get(key)
        if value is None or isinstance(value, timedelta):
            return value
        try:
            return timedelta(seconds=float(value))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"rendezvous option {key}={value!r}: expected seconds") from None

    def __repr__(self) -> str:
        shown = (self.backend, self.endpoint, self.run_id, self.min_nodes, self.max_nodes)
        return f"RendezvousParameters({', '.join(map(repr, shown))})"


class RendezvousTimeout:
    """How long a rendezvous waits for what. Each must be positive (`ValueError`); None: the default.

    `join` 600 s for a round to form, `last_call` 30 s for more nodes once there are enough, `close`
    30 s for a closing to be recorded, `heartbeat` 5 s between two signs of life.
    """

    def __init__(
        self,
        join: timedelta | None = None,
        last_call: timedelta | None = None,
        close: timedelta | None = None,
        heartbeat: timedelta | None = None,
    ) -> None:
        self._join = _positive("join", join, settings.JOIN_TIMEOUT_S)
        self._last_call = _positive("last_call", last_call, settings.LAST_CALL_S)
        self._close = _positive("close", close, settings.CLOSE_TIMEOUT_S)
        self._heartbeat = _positive("heartbeat", heartbeat, settings.HEARTBEAT_S)

    @classmethod
    def from_params(cls, params: RendezvousParameters) -> RendezvousTimeout:
        """The times in the options `join_timeout` (or `timeout`), `last_call_timeout`, `close_timeout`
        and `heartbeat_timeout` (or `heartbeat`), in seconds."""
        given: dict[str, timedelta | None] = {}
        for name, options in _OPTIONS.items():
            found = ((option, params.get_as_seconds(option)) for option in options)
            option, value = next(((one, time) for one, time in found if time is not None), ("", None))
            if value is not None and value <= timedelta(0):
                raise ValueError(f"rendezvous option {option}={params.get(option)!r}: expected more than 0 s")
            given[name] = value
        return cls(**given)

    @property
    def join(self) -> timedelta:
        return self._join

    @property
    def last_call(self) -> timedelta:
        return self._last_call

    @property
    def close(self) -> timedelta:
        return self._close

    @property
    def heartbeat(self) -> timedelta:
        return self._heartbeat


def _positive(name: str, given: timedelta | None, default_s: float) -> timedelta:
    if given is None:
        return timedelta(seconds=default_s)
    if given <= timedelta(0):
        raise ValueError(f"{name} timeout {given.total_seconds():g} s: expected more than 0 s")
    return given
