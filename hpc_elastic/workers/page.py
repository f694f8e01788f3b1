"""The shared page of one node's round: where the agent and its workers tell each other numbers.

A few hundred bytes of anonymous memory, made by the agent and inherited by its workers. A training
script reads and writes it inside its step loop, so nothing here makes a system call after attaching.

Why no lock and no fence is needed
----------------------------------
Every field is one aligned 8-byte word with one writer, read and written through a memoryview of
format "q": CPython copies the eight bytes in one move, which x86-64 and aarch64 do atomically.

The agreed stop needs one ordering: no rank may pass a step that the agent did not count.

    rank:   S1 step := k          agent:  A1 flag := 1
            L1 read flag                  A2 wait SETTLE_S
            (0: go on with step k)        A3 read step

The danger is a store that still sits in a store buffer while the load after it is done, so that the
rank reads 0 and the agent reads the step before k. Processors promise no order between S1 and L1, but
a buffered store becomes visible within microseconds, and an interrupt or a context switch drains it.
Let d be that time. L1 read 0, so it happened before A1 was visible, at the latest at A1 + d; S1 is
visible d after it was issued, or d after L1 where the processor moved the load forward. So S1 is
visible before A1 + 3 d, and the agent reads only after SETTLE_S, a thousand times d. A rank that was
descheduled between two instructions is covered too: if S1 had not happened yet when it was paused,
L1 comes after it and long after A1, and reads 1. tests/integration/processes/test_agreed_stop.py
races real processes against this.
"""

from __future__ import annotations

import mmap
import os
import time
from typing import Final, NamedTuple

ENVIRONMENT_NAME: Final = "HPC_ELASTIC_PAGE"
SETTLE_S: Final = 0.002

_MAGIC: Final = 0x4850_4345_5041_4745  # "HPCEPAGE"
_LAYOUT: Final = 1
_WORD_BYTES: Final = 8
_MAX_SLOTS: Final = 4096

# Words of the head. Two reason slots: the agent fills the idle one, then moves the index.
_W_MAGIC, _W_LAYOUT, _W_SLOTS, _W_FLAG, _W_DEADLINE_NS, _W_STOP_STEP, _W_REASON = range(7)
_REASON_WORDS: Final = 16
_REASON_BYTES: Final = _REASON_WORDS * _WORD_BYTES
_REASON_START: Final = 16
_HEAD_WORDS: Final = 64

# Words of one rank: two cache lines of its own, so that ranks do not slow each other.
_R_ATTACHED, _R_STEP, _R_PROGRESS, _R_SAVED_STEP, _R_SAVE_NS, _R_LEAVING, _R_HOLDS_TERM = range(7)
_R_SIGNS, _R_EXPIRES_NS, _R_EXPIRES_AFTER_NS, _R_FIRST_STEP = range(7, 11)
_RANK_WORDS: Final = 16


class RankView(NamedTuple):
    """What one rank has told: steps are -1 until told, `save_s` is 0.0 until it saved for a stop.

    `signs` counts how often it told a step. `expires_at_s`, on this machine's monotonic clock, is the end
    of that of its open scopes which ends first, and `expires_after_s` its length; 0.0 without one.
    `first_step` is where it began in this round.
    """

    attached: bool = False
    step: int = -1
    progress: int = -1
    saved_step: int = -1
    save_s: float = 0.0
    leaving: bool = False
    holds_term: bool = False
    signs: int = 0
    expires_at_s: float = 0.0
    expires_after_s: float = 0.0
    first_step: int = -1


class PageUnusable(Exception):
    """The descriptor or path does not hold a page of this layout."""


class Page:
    """The agent's side. Raises nothing but `OSError` when memory cannot be had."""

    def __init__(self, fd: int, memory: mmap.mmap, slots: int) -> None:
        self.fd = fd
        self.slots = slots
        self._memory = memory
        self._words = memoryview(memory).cast("q")
        self._raised_at_s: float | None = None

    @classmethod
    def create(cls, slots: int) -> Page:
        """A fresh page for `slots` local ranks, no notice on it."""
        if not 0 < slots <= _MAX_SLOTS:
            raise ValueError(f"a page holds 1 to {_MAX_SLOTS} ranks, not {slots}")
        size = _size_bytes(slots)
        fd = _anonymous_file()
        os.ftruncate(fd, size)
        page = cls(fd, mmap.mmap(fd, size), slots)
        for slot in range(slots):
            start = _rank_start(slot)
            for word in (_R_STEP, _R_PROGRESS, _R_SAVED_STEP, _R_FIRST_STEP):
                page._words[start + word] = -1
        page._words[_W_SLOTS], page._words[_W_LAYOUT] = slots, _LAYOUT
        page._words[_W_STOP_STEP] = -1
        page._words[_W_MAGIC] = _MAGIC
        return page

    def env_value(self) -> str:
        """The value of `HPC_ELASTIC_PAGE`: the descriptor to inherit, and where else to find it."""
        return f"{self.fd}:/proc/{os.getpid()}/fd/{self.fd}"

    def raise_notice(self, reason: str, deadline_monotonic_s: float) -> None:
        """Tell every rank that it will have to stop by the deadline; again, to better what was said."""
        slot = 1 - self._words[_W_REASON]
        start = (_REASON_START + slot * _REASON_WORDS) * _WORD_BYTES
        self._memory[start : start + _REASON_BYTES] = _padded(reason)
        self._words[_W_REASON] = slot
        self._words[_W_DEADLINE_NS] = int(deadline_monotonic_s * 1e9)
        if self._raised_at_s is None:
            self._words[_W_FLAG] = 1
            self._raised_at_s = time.monotonic()

    def set_stop_step(self, step: int) -> None:
        """Tell every rank the step at which all ranks of the round stop."""
        self._words[_W_STOP_STEP] = max(step, 0)

    def highest_step(self) -> int | None:
        """The highest step any rank of this node has begun; None where no rank has a context.

        After `raise_notice` no rank goes beyond this plus one before the stop step is known. Waits
        out what is left of `SETTLE_S`: see the argument at the top of this module.
        """
        if self._raised_at_s is not None:
            left_s = self._raised_at_s + SETTLE_S - time.monotonic()
            if left_s > 0:
                time.sleep(left_s)  # noqa: TID251 (2 ms at most, on the clock that the ranks read)
        steps = [view.step for view in self.ranks() if view.attached]
        return max(steps) if steps else None

    def rank(self, slot: int) -> RankView:
        """What the rank in `slot` has told so far."""
        if not 0 <= slot < self.slots:
            raise IndexError(f"slot {slot} is not on a page of {self.slots}")
        start = _rank_start(slot)
        words = self._words[start : start + _RANK_WORDS].tolist()
        return RankView(
            attached=bool(words[_R_ATTACHED]),
            step=words[_R_STEP],
            progress=words[_R_PROGRESS],
            saved_step=words[_R_SAVED_STEP],
            save_s=words[_R_SAVE_NS] / 1e9,
            leaving=bool(words[_R_LEAVING]),
            holds_term=bool(words[_R_HOLDS_TERM]),
            signs=words[_R_SIGNS],
            expires_at_s=words[_R_EXPIRES_NS] / 1e9,
            expires_after_s=words[_R_EXPIRES_AFTER_NS] / 1e9,
            first_step=words[_R_FIRST_STEP],
        )

    def ranks(self) -> tuple[RankView, ...]:
        """All ranks, by slot."""
        return tuple(self.rank(slot) for slot in range(self.slots))

    def has_scopes(self) -> bool:
        """Whether a rank has a scope open that may expire."""
        words = self._words
        return any(words[_rank_start(slot) + _R_EXPIRES_NS] for slot in range(self.slots))

    def close(self) -> None:
        """Let go of the memory; workers that are attached keep theirs."""
        if self.fd < 0:
            return
        self._words.release()
        self._memory.close()
        os.close(self.fd)
        self.fd = -1


class WorkerPage:
    """One rank's side. Its writes cost well below a microsecond."""

    def __init__(self, memory: mmap.mmap, slot: int) -> None:
        self._memory = memory
        self._words = memoryview(memory).cast("q")
        self._start = _rank_start(slot)
        self._step_word = self._start + _R_STEP
        self._signs_word = self._start + _R_SIGNS
        self._first_word = self._start + _R_FIRST_STEP
        # The first process of a rank that attaches is the worker proper. Others are its helpers, which
        # multiprocessing lets import the same script.
        attached = self._start + _R_ATTACHED
        self._words[attached] = self._words[attached] or os.getpid()
        self.is_owner = self._words[attached] == os.getpid()

    @classmethod
    def attach(cls, env_value: str, slot: int) -> WorkerPage:
        """The page named by `HPC_ELASTIC_PAGE`; raises `PageUnusable` with what was tried.

        A launcher in between may have closed the descriptor, or opened something else under its
        number; then the agent's own descriptor is opened through /proc.
        """
        number, _, path = env_value.partition(":")
        if not number.isdigit() or not path:
            raise PageUnusable(f"{ENVIRONMENT_NAME}={env_value!r} is not <fd>:<path>")
        memory = _map(int(number))
        if memory is None:
            memory = _map_path(path)
        if memory is None:
            raise PageUnusable(
                f"neither descriptor {number} nor {path} holds this round's page; the agent is gone, or "
                "this process runs under another user or in another PID namespace"
            )
        slots = int.from_bytes(memory[_W_SLOTS * _WORD_BYTES :][:_WORD_BYTES], "little")
        if not 0 <= slot < slots:
            raise PageUnusable(f"HPC_ELASTIC_LOCAL_SLOT={slot} is not on a page of {slots}")
        return cls(memory, slot)

    def begin_step(self, step: int) -> bool:
        """Write the step, then say whether a notice is up. The order matters."""
        words = self._words
        words[self._step_word] = step
        if words[self._first_word] < 0:
            words[self._first_word] = step
        words[self._signs_word] += 1
        return words[_W_FLAG] != 0

    def is_noticed(self) -> bool:
        """Whether a notice is up."""
        return self._words[_W_FLAG] != 0

    def stop_step(self) -> int | None:
        """The agreed step, once known."""
        step = self._words[_W_STOP_STEP]
        return None if step < 0 else step

    def deadline_monotonic_s(self) -> float:
        """When the notice's time is over, on this machine's monotonic clock."""
        return self._words[_W_DEADLINE_NS] / 1e9

    def reason(self) -> str:
        """Why the notice was given."""
        start = (_REASON_START + self._words[_W_REASON] * _REASON_WORDS) * _WORD_BYTES
        return self._memory[start : start + _REASON_BYTES].rstrip(b"\0").decode(errors="replace")

    def write_progress(self, step: int) -> None:
        self._words[self._start + _R_PROGRESS] = step
        if self._words[self._first_word] < 0:
            self._words[self._first_word] = step
        self._words[self._signs_word] += 1

    def write_saved(self, step: int, save_s: float) -> None:
        self._words[self._start + _R_SAVE_NS] = int(save_s * 1e9)
        self._words[self._start + _R_SAVED_STEP] = step
        self._words[self._signs_word] += 1

    def write_expiry(self, at_monotonic_ns: int, after_ns: int) -> None:
        """When the first of this rank's scopes expires; 0 for none."""
        self._words[self._start + _R_EXPIRES_AFTER_NS] = after_ns
        self._words[self._start + _R_EXPIRES_NS] = at_monotonic_ns

    def write_leaving(self) -> None:
        self._words[self._start + _R_LEAVING] = 1

    def write_holds_term(self) -> None:
        self._words[self._start + _R_HOLDS_TERM] = 1


def _size_bytes(slots: int) -> int:
    return (_HEAD_WORDS + slots * _RANK_WORDS) * _WORD_BYTES


def _rank_start(slot: int) -> int:
    return _HEAD_WORDS + slot * _RANK_WORDS


def _padded(reason: str) -> bytes:
    # Cut between characters, not inside one.
    text = reason.encode()[:_REASON_BYTES].decode(errors="ignore").encode()
    return text.ljust(_REASON_BYTES, b"\0")


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hpc_elastic_page", os.MFD_CLOEXEC)
    # A Python built against a C library older than 2.27 (CentOS 7) has no memfd_create.
    return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _map_path(path: str) -> mmap.mmap | None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _map(fd)
    finally:
        os.close(fd)


def _map(fd: int) -> mmap.mmap | None:
    try:
        size = os.fstat(fd).st_size
        if not _size_bytes(1) <= size <= _size_bytes(_MAX_SLOTS):
            return None
        memory = mmap.mmap(fd, size)
    except (OSError, ValueError):
        return None
    with memoryview(memory) as view, view.cast("q") as words:
        slots = words[_W_SLOTS]
        is_ours = words[_W_MAGIC] == _MAGIC and words[_W_LAYOUT] == _LAYOUT and _size_bytes(slots) == size
    if not is_ours:
        memory.close()
        return None
    return memory
