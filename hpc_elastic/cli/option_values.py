"""Values of options, each checked by itself; an error names the value and what to give instead."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Final

from hpc_elastic import settings
from hpc_elastic.errors import UsageError

_SHORTEST_HEARTBEAT_S: Final = 0.01  # below, an agent would do nothing else
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._:%\[\]-]{1,255}")
_NNODES: Final = re.compile(r"([0-9]{1,6})(?::([0-9]{1,6}))?")

# `--rdzv-conf` key, torchrun's name where it has another, and the default.
CONF: Final[dict[str, float]] = {
    "join_timeout": settings.JOIN_TIMEOUT_S,
    "last_call_timeout": settings.LAST_CALL_S,
    "heartbeat": settings.HEARTBEAT_S,
    "join_window": settings.JOIN_WINDOW_S,
    "store_lost": settings.STORE_LOST_S,
}
_ALIASES: Final = {
    "last_call": "last_call_timeout",
    "keep_alive_interval": "heartbeat",
    "timeout": "join_timeout",
}


def nodes(text: str) -> tuple[int, int]:
    """The fewest and the most nodes, from `N` or `MIN:MAX`."""
    match = _NNODES.fullmatch(text)
    if match is None:
        raise UsageError(f"--nnodes {text}: expected a number of nodes or a range such as 2:4")
    low, high = int(match.group(1)), int(match.group(2) or match.group(1))
    if low < 1:
        raise UsageError(f"--nnodes {text}: a run needs at least 1 node")
    if low > high:
        raise UsageError(f"--nnodes {text}: the minimum is above the maximum; write {high}:{low}")
    return low, high


def at_least(value: int, least: int, option: str) -> int:
    """`value`, if it is large enough."""
    if value < least:
        raise UsageError(f"{option} {value}: expected {least} or more")
    return value


def positive(value: float, option: str) -> float:
    """`value`, if it can be a duration in seconds."""
    if not 0 < value < 1e9:
        raise UsageError(f"{option} {value:g}: expected a number of seconds above 0")
    return value


def not_negative(value: float, option: str) -> float:
    """`value`, if it can be a pause in seconds, 0 for none."""
    if not 0 <= value < 1e9:
        raise UsageError(f"{option} {value:g}: expected a number of seconds, 0 for none")
    return value


def address(text: str, option: str) -> str:
    """`text`, if it can be a host name or an address; an empty one means not given."""
    if text and not _ADDRESS.fullmatch(text):
        raise UsageError(f"{option} {text!r}: expected one host name or address")
    return text


def name(text: str, option: str) -> str:
    """`text`, if it can stand in a line of output and in an environment variable."""
    if not text or not text.isprintable():
        raise UsageError(f"{option} {text!r}: expected a name")
    return text


def port(value: int) -> int:
    """`value`, if it can be a port; 0 means not given."""
    if not 0 <= value < 65536:
        raise UsageError(f"--master-port {value}: expected a port from 1 to 65535")
    return value


def signals(text: str, option: str = "--notice-signal") -> tuple[int, ...]:
    """Signal numbers from names such as `USR1,SIGUSR2`."""
    found = []
    for word in text.split(","):
        name = word.strip().upper()
        known = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
        if not isinstance(known, signal.Signals) or known in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
            raise UsageError(f"{option} {word}: expected names such as USR1 or USR2, separated by commas")
        found.append(int(known))
    return tuple(found)


def backend(name: str) -> str:
    """`name`; one of torchrun's that is none of ours is refused with what to do."""
    if name in ("c10d", "static"):
        from hpc_elastic.cli import torchrun

        raise UsageError(f"--rdzv-backend {name}: {torchrun.BACKENDS[name]}")
    return name


def conf(text: str) -> dict[str, float]:
    """All times of the rendezvous in seconds, the given ones in place of the defaults."""
    times = dict(CONF)
    for key, value, pair in _pairs(text):
        if key in times:
            times[key] = _seconds(value, pair)
            if key == "heartbeat" and times[key] < _SHORTEST_HEARTBEAT_S:
                raise UsageError(f"--rdzv-conf {pair}: expected {_SHORTEST_HEARTBEAT_S:g} seconds or more")
        elif key not in (*_etcd_names(), "password"):  # refused by name, where its place is known
            known = ", ".join((*times, *_etcd_names()))
            raise UsageError(f"--rdzv-conf {pair}: expected KEY=VALUE with one of {known}")
    return times


def etcd_settings(text: str) -> dict[str, str]:
    """What `--rdzv-conf` says about etcd; `conf` has refused unknown keys."""
    return {key: value for key, value, _ in _pairs(text) if key not in CONF}


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    for pair in filter(None, (each.strip() for each in text.split(","))):
        key, has_value, value = (piece.strip() for piece in pair.partition("="))
        if not has_value or not value:
            raise UsageError(f"--rdzv-conf {pair}: expected KEY=VALUE, several with commas")
        yield _ALIASES.get(key, key), value, pair


def _etcd_names() -> tuple[str, ...]:
    from hpc_elastic.backends.etcd_endpoints import SETTINGS  # most agents never need it

    return tuple(SETTINGS)


def _seconds(value: str, pair: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        raise UsageError(f"--rdzv-conf {pair}: {value!r} is not a number of seconds") from None
    return positive(seconds, f"--rdzv-conf {pair}:")
