"""What makes a job usable where a `concurrent.futures.Future` is, and in `await`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from hpc_elastic.submission.states import JobState


class Waitable(Protocol):
    """What a job has already."""

    @property
    def state(self) -> JobState:
        """What the job is doing."""
        ...

    def wait(self, timeout: float | None = None) -> JobState:
        """The final state."""
        ...

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned, or what ended it."""
        ...


W = TypeVar("W", bound=Waitable)


class FutureLike:
    """`await job`, `job.add_done_callback(...)`, `job.running()`, `job.cancelled()`.

    Waiting happens in a thread of its own for each caller, which ends with the process: a job goes on by
    itself.
    """

    def running(self: Waitable) -> bool:
        """Whether the job runs right now; false while it waits in the queue."""
        return self.state is JobState.RUNNING

    def cancelled(self: Waitable) -> bool:
        """Whether somebody has cancelled it."""
        return self.state is JobState.CANCELLED

    def add_done_callback(self: W, fn: Callable[[W], object]) -> None:
        """Call `fn(job)` once the run has come to its end, from a thread of its own; at once if it has.

        What `fn` raises is shown by `threading.excepthook` and harms nobody else.
        """

        def watch() -> None:
            self.wait()
            fn(self)

        threading.Thread(target=watch, name="hpc-elastic done-callback", daemon=True).start()

    def __await__(self: Waitable) -> Generator[Any, None, Any]:
        """What `result()` gives or raises, without holding up the event loop.

        A task that is cancelled stops waiting; the job goes on.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if waiter.done():
                return
            if error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(value)

        def watch() -> None:
            try:
                outcome: tuple[Any, BaseException | None] = (self.result(), None)
            except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
                outcome = (None, error)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, *outcome)

        threading.Thread(target=watch, name="hpc-elastic await", daemon=True).start()
        return waiter.__await__()
