"""The keys of the run record. What stands under each is said in `record.py`."""

from __future__ import annotations

import re
from typing import Final

BELL: Final = "bell"
SPACE: Final = "space"
NODES: Final = "nodes"
ROUNDS: Final = "rounds"
ATTEMPTS: Final = "attempts"
MAX_ATTEMPT: Final = 2**63 - 1


def attempt_key(number: int) -> str:
    return f"{ATTEMPTS}/{number}"


def notice_key(attempt: int) -> str:
    return f"{ATTEMPTS}/{attempt}.notice"


def cause_key(attempt: int) -> str:
    return f"{ATTEMPTS}/{attempt}.cause"


def backend_key(attempt: int) -> str:
    return f"{ATTEMPTS}/{attempt}.backend"


def requeue_key(attempt: int, claim: int) -> str:
    return f"{ATTEMPTS}/{attempt}.requeue.{claim}"


def continuation_key(attempt: int, of_job: str, restart_count: int) -> str:
    return f"{ATTEMPTS}/{attempt}.continuation.{segment(of_job)}.{restart_count}"


def continuations(names: frozenset[str]) -> list[str]:
    """The keys of all continuations, by the names in the folder of the attempts."""
    return sorted(f"{ATTEMPTS}/{name}" for name in names if ".continuation." in name)


def stays_away_key(attempt: int) -> str:
    return f"{ATTEMPTS}/{attempt}.stays_away"


def release_key(attempt: int) -> str:
    """Who takes the waiting elements of a pool out of the queue, once the run is closed by `attempt`."""
    return f"{ATTEMPTS}/{attempt}.release"


def batch_key(attempt: int) -> str:
    return f"{ATTEMPTS}/{attempt}.batch"


def node_key(node: str) -> str:
    return f"{NODES}/{node}"


def attempt_of(node: str) -> int:
    """The attempt that a node belongs to, by its name; one that has no such name is of none so far."""
    number, _, _ = node.partition("-")
    return int(number) if number.isascii() and number.isdecimal() else MAX_ATTEMPT


def round_key(number: int) -> str:
    return f"{ROUNDS}/{number}"


def verdict_key(number: int) -> str:
    return f"{ROUNDS}/{number}.verdict"


def drain_key(number: int) -> str:
    return f"{ROUNDS}/{number}.drain"


def stop_key(number: int) -> str:
    return f"{ROUNDS}/{number}.stop"


def end_key(number: int) -> str:
    return f"{ROUNDS}/{number}.end"


def settled_key(number: int) -> str:
    return f"{ROUNDS}/{number}.settled"


def seat_key(attempt: int, name: str, claim: int) -> str:
    """Who sits on the node `name`; claim `i + 1` counts once the owner of claim `i` is gone."""
    return f"{seat_prefix(attempt)}{segment(name)}.{claim}"


def seat_prefix(attempt: int) -> str:
    """What the keys of all seats of an attempt begin with."""
    return f"{ATTEMPTS}/{attempt}.seat."


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]")


def segment(name: str) -> str:
    """`name` as a part of a key: distinct names stay distinct, and none can reach elsewhere.

    The result may be empty or begin with a dot; it is meant to stand behind a prefix.
    """
    return _UNSAFE.sub(lambda found: f"_{ord(found.group()):x}_", name)


def numbers(names: frozenset[str]) -> list[int]:
    """The numbered records among the names of a folder, rising."""
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())
