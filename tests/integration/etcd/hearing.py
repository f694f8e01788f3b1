"""What tests of etcd's backends share: a clock of their own, and how they wait for what a watch tells."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable

from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.etcd_v2 import EtcdV2Backend
from hpc_elastic.backends.etcd_v3 import EtcdV3Backend
from tests.waiting import wait_until

Watching = EtcdV3Backend | EtcdV2Backend

# For whatever a server or another thread does, on a busy machine.
SOON_S = 60.0


class Clock:
    """Stands still; `sleep_s` moves it on."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds

    def utc_now(self) -> str:
        return "2024-01-01T00:00:00+00:00"


def space() -> str:
    return f"run/{os.urandom(6).hex()}"


def quiet(backend: Backend) -> None:
    """Until a watch has told all that it had to."""

    def tells_nothing() -> bool:
        wake = threading.Event()
        began_s = time.monotonic()
        backend.wait(0.2, wake)
        return time.monotonic() - began_s >= 0.2

    wait_until(tells_nothing, SOON_S, "the watch is quiet")


def watched(backend: Watching, change: Callable[[int], object]) -> None:
    """Until a watch tells of what comes: one that is not open yet never tells of what came before."""
    changes = itertools.count()

    def is_woken() -> bool:
        seen = backend._changes._count
        change(next(changes))
        backend.wait(0.5, threading.Event())
        # One that breaks wakes too: a gateway may lose a part of what a watch asks for, and it opens anew.
        is_open = isinstance(backend, EtcdV2Backend) or backend._known._since is not None
        return is_open and backend._changes._count > seen

    wait_until(is_woken, SOON_S, "the watch tells of a change")
    quiet(backend)


def is_told(backend: Watching, change: Callable[[], object]) -> float:
    """How long after a change an agent that waits is woken; it fails when it is not woken at all."""
    at_s: list[float] = []

    def act() -> None:
        wait_until(lambda: backend._changes._waiting, SOON_S, "the agent waits")
        at_s.append(time.monotonic())
        change()
        at_s.append(time.monotonic())

    acting = threading.Thread(target=act)
    acting.start()
    wake, woken_at_s = threading.Event(), 0.0
    while not at_s or woken_at_s < at_s[0]:  # what it is told before that is older
        wake.clear()
        backend.wait(SOON_S, wake)
        woken_at_s = time.monotonic()
    acting.join()
    assert wake.is_set(), f"not told within {SOON_S:g} s"
    return woken_at_s - at_s[1]


def is_known(backend: EtcdV3Backend, key: str) -> bool:
    backend.read(key)
    return backend._known.look_up(backend._name(key))[0]
