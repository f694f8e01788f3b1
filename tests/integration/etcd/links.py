"""A network of its own for one simulated node, with a cable that can be cut."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """`inside` stands before a command that is to run there; `host` is where it reaches this machine."""

    namespace: str
    host: str
    _outer: str

    @property
    def inside(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.namespace)

    def cut(self) -> None:
        """What is sent from now on is lost without a word."""
        _ip("link", "set", self._outer, "down")

    def mend(self) -> None:
        """It works again."""
        _ip("link", "set", self._outer, "up")


@contextmanager
def linked() -> Iterator[Link]:
    """A namespace that is connected to this machine alone; removed when the block is left."""
    # From the block that is set aside for tests of networks; four addresses for each of many at once.
    number = os.getpid() % 16000
    net = f"198.{18 + number // 8192}.{number % 8192 // 32}"
    base = number % 32 * 8
    name, outer, inner = f"hpce-{number}", f"hpce{number}a", f"hpce{number}b"
    link = Link(name, f"{net}.{base + 1}", outer)
    _ip("netns", "add", name)
    try:
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        _ip("address", "add", f"{link.host}/29", "dev", outer)
        _ip("link", "set", outer, "up")
        _ip("-n", name, "address", "add", f"{net}.{base + 2}/29", "dev", inner)
        _ip("-n", name, "link", "set", inner, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        yield link
    finally:
        # The kernel takes a namespace down some time later, and the pair with it: the next must not meet it.
        subprocess.run(["ip", "link", "del", outer], check=False, capture_output=True)
        _ip("netns", "del", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
