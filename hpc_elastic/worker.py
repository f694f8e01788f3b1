"""What a training script may import: who it is, whether it has to stop, and where it saves.

    from hpc_elastic import worker

    ctx = worker.context()
    for step in range(start, steps):
        train(step)
        ctx.progress(step)
        if ctx.should_stop(step):  # true at the same step on every rank, after a notice
            save(ctx.checkpoint_dir)
            ctx.saved(step)
            ctx.leave()

The same script runs under plain `python` and under torchrun: then there is never a notice. Standard
library only; importing it costs next to nothing.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from hpc_elastic.workers.page import ENVIRONMENT_NAME, PageUnusable, WorkerPage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import NoReturn

_LONGEST_SCOPE_S: Final = 1e9
_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.01


class Notice(NamedTuple):
    """This process will have to stop: why, and in how many seconds at the latest (0.0 when over)."""

    reason: str
    seconds_left: float


class Context:
    """One rank's view of its round. Numbers are fixed for the life of the process.

    `rank` of `world_size`; `local_rank` on the node `node_rank`; `round` and `attempt` of the run;
    `restart_count` is how often workers of the run have failed before this round.
    """

    def __init__(
        self,
        *,
        rank: int = 0,
        world_size: int = 1,
        local_rank: int = 0,
        node_rank: int = 0,
        round_number: int = 0,
        attempt: int = 0,
        restart_count: int = 0,
        run_dir: str = ".",
        checkpoint_dir: str | None = None,
        page: WorkerPage | None = None,
    ) -> None:
        self.rank = rank
        self.world_size = world_size
        self.local_rank = local_rank
        self.node_rank = node_rank
        self.round = round_number
        self.attempt = attempt
        self.restart_count = restart_count
        self._run_dir = run_dir
        self._checkpoint_dir = checkpoint_dir
        self._page = page
        self._stop_seen_at_s: float | None = None
        self._scopes = None if page is None else _Scopes(page)

    def __repr__(self) -> str:
        places = ("rank", "world_size", "local_rank", "node_rank", "round", "attempt", "restart_count")
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in places)
        return f"Context({shown}, run_dir={self._run_dir!r})"

    @property
    def run_dir(self) -> Path:
        """The run directory; without an agent the current one."""
        from pathlib import Path  # as costly as the rest of this module, and not every script asks

        return Path(self._run_dir)

    @property
    def checkpoint_dir(self) -> Path:
        """Where the run's checkpoints belong, the same across restarts and requeues; it exists."""
        directory = self.run_dir / "checkpoints"
        if self._checkpoint_dir is not None:
            directory = type(directory)(self._checkpoint_dir)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def progress(self, step: int) -> None:
        """Say that `step` is done: for status, and for telling a crash loop from bad luck."""
        if self._page is not None:
            self._page.write_progress(step)

    def should_stop(self, step: int) -> bool:
        """Whether to save and leave now: true at the same step on every rank of the round.

        To be called once per step by every rank, with steps from 0 that rise. Costs about a
        microsecond while there is no notice. After one it may wait, for as long as the nodes need to
        agree; when the notice's time is over and nobody has named a step, it says true.
        """
        page = self._page
        if page is None or not page.begin_step(step):
            return False
        stop_step = self._agreed_step(page)
        if stop_step is not None and step < stop_step:
            return False
        if self._stop_seen_at_s is None:
            self._stop_seen_at_s = time.monotonic()
        return True

    def expires(self, after: float) -> Scope:
        """A scope that must be left within `after` seconds: `with ctx.expires(after=30): ...`.

        Where it is not, the agent lets this process write its stacks, kills it, and counts a failure: for
        what may hang outside of Python, such as a collective. Scopes may be nested, and be open in several
        threads; the one that ends first counts. The agent looks once per `--monitor-interval`, and not any
        more once a notice stands. Without an agent, and in other processes than the one that called
        `context()` first, nothing happens. Costs some microseconds. Raises `ValueError` for what is no time.
        """
        if not 0 < after < _LONGEST_SCOPE_S:
            raise ValueError(f"expires(after={after!r}): expected a number of seconds above 0")
        return Scope(self._scopes, int(after * 1e9))

    def notice(self) -> Notice | None:
        """The notice this process is under, if any."""
        page = self._page
        if page is None or not page.is_noticed():
            return None
        return Notice(page.reason(), max(0.0, page.deadline_monotonic_s() - time.monotonic()))

    def saved(self, step: int) -> None:
        """Say that the state after `step` is safe on disk."""
        if self._page is None:
            return
        seen_at_s = self._stop_seen_at_s
        self._page.write_saved(step, 0.0 if seen_at_s is None else time.monotonic() - seen_at_s)

    def leave(self) -> NoReturn:
        """End this process in good order: what it said with `saved` counts. Raises `SystemExit(0)`."""
        if self._page is not None:
            self._page.write_leaving()
        raise SystemExit(0)

    @staticmethod
    def _agreed_step(page: WorkerPage) -> int | None:
        pause_s = _FIRST_PAUSE_S
        while (stop_step := page.stop_step()) is None:
            left_s = page.deadline_monotonic_s() - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return stop_step


class Scope:
    """One deadline of this process, from entering the `with` block to leaving it in whatever way."""

    def __init__(self, scopes: _Scopes | None, after_ns: int) -> None:
        self._scopes = scopes
        self._after_ns = after_ns
        self._expiry = (0, 0)

    def __enter__(self) -> None:
        if self._scopes is not None:
            self._expiry = (time.monotonic_ns() + self._after_ns, self._after_ns)
            self._scopes.open(self._expiry)

    def __exit__(self, *_: object) -> None:
        if self._scopes is not None:
            self._scopes.close(self._expiry)


class _Scopes:
    """The open scopes of this process; the agent is told of the one that expires first."""

    def __init__(self, page: WorkerPage) -> None:
        self._page = page
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._open: list[tuple[int, int]] = []

    def open(self, expiry: tuple[int, int]) -> None:
        if self._are_ours():
            with self._lock:
                self._open.append(expiry)
                self._tell()

    def close(self, expiry: tuple[int, int]) -> None:
        if self._are_ours():
            with self._lock:
                self._open.remove(expiry)
                self._tell()

    def _are_ours(self) -> bool:
        """Whether this process may speak for the rank: a forked helper has copies of its parent's scopes."""
        return self._page.is_owner and os.getpid() == self._pid

    def _tell(self) -> None:
        self._page.write_expiry(*min(self._open, default=(0, 0)))


@functools.cache
def context() -> Context:
    """This process's context: from the agent, from torchrun's variables, or rank 0 of 1.

    Raises `ValueError` naming the variable when one of them is not a number. The same one each time,
    in forked children too. The first call, from the main thread, also makes TERM harmless under an
    agent, unless the script has an action of its own for it: see `_hold_term`.
    """
    return _read_context(os.environ)


def _read_context(env: Mapping[str, str]) -> Context:
    local_rank = _number(env, "LOCAL_RANK")
    return Context(
        rank=_number(env, "RANK"),
        world_size=_number(env, "WORLD_SIZE", default=1),
        local_rank=local_rank,
        node_rank=_number(env, "GROUP_RANK"),
        round_number=_number(env, "HPC_ELASTIC_ROUND"),
        attempt=_number(env, "HPC_ELASTIC_ATTEMPT"),
        restart_count=_number(env, "HPC_ELASTIC_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"),
        run_dir=env.get("HPC_ELASTIC_RUN_DIR", "."),
        checkpoint_dir=env.get("HPC_ELASTIC_CHECKPOINT_DIR"),
        page=_attach(env, local_rank),
    )


def _attach(env: Mapping[str, str], local_rank: int) -> WorkerPage | None:
    value = env.get(ENVIRONMENT_NAME)
    if value is None:
        return None
    slot = _number(env, "HPC_ELASTIC_LOCAL_SLOT", default=local_rank)
    try:
        page = WorkerPage.attach(value, slot)
    except PageUnusable as unusable:
        import warnings

        warnings.warn(
            f"{unusable}; should_stop() will always be false and a notice arrives as SIGTERM",
            RuntimeWarning,
            stacklevel=4,
        )
        return None
    if page.is_owner:
        _hold_term(page)
    return page


def _hold_term(page: WorkerPage) -> None:
    """Outlive the TERM of a preemption, which Slurm sends to every process of a step at its beginning.

    The agreed stop decides when this process leaves; an agent that wants it gone sends HUP. A script
    that has its own action for TERM keeps it. Helpers keep the default one: forked ones get it back
    at once, and an exec gives it back by itself, unlike with SIG_IGN.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def hold(_signum: int, _frame: object) -> None:
        """Nothing, on purpose."""

    signal.signal(signal.SIGTERM, hold)
    # System calls of C libraries (gloo, MPI) go on instead of failing with EINTR.
    signal.siginterrupt(signal.SIGTERM, False)
    _restore_term_in_forks(hold)
    page.write_holds_term()


def _restore_term_in_forks(hold: Callable[[int, object], None]) -> None:
    """Let `terminate()` of a forked data loader work, however soon, and whatever it is blocked in."""
    masks: dict[int, set[int]] = {}  # by thread: several may fork at once

    def block() -> None:
        # A TERM that reaches the child before it has its default action back waits, and is not lost.
        masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop(threading.get_ident()))

    def let_go() -> None:
        if signal.getsignal(signal.SIGTERM) is hold:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=let_go)


def _number(env: Mapping[str, str], *names: str, default: int = 0) -> int:
    for name in names:
        text = env.get(name, "")
        if text:
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"environment variable {name} is {text!r}, not a number") from None
    return default
