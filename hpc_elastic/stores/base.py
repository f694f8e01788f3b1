"""What every store keeps: many small values under keys, for the members of one round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Final, TypeVar

from hpc_elastic.clock import SYSTEM_CLOCK, Clock
from hpc_elastic.errors import BackendGone, BackendRefused, BackendUnavailable, StoreTimedOut
from hpc_elastic.stores import values
from hpc_elastic.stores.values import DEFAULT_TIMEOUT_S, Text, Time
from hpc_elastic.values import dataclass

FIRST_LOOK_S: Final = 0.001
# (waited so far, longest pause): quick while something is about to happen, then kind to the server.
PAUSES: Final = ((2.0, 0.05), (20.0, 0.25), (float("inf"), 1.0))

T = TypeVar("T")
Change = Callable[[bytes | None], bytes | None]


@dataclass(frozen=True)
class Changed:
    """What stood under a key before and after a change; None: no value."""

    before: bytes | None
    after: bytes | None


class Store(ABC):
    """A store shared by threads, processes and nodes.

    Keys and values are `str` (as UTF-8) or `bytes`, with any byte in them; a value comes back as
    `bytes`. Something else is a `ValueError`. Times are seconds or `timedelta`. Each operation goes
    on through outages of what is below for as long as the store's time-out, then raises
    `BackendUnavailable`.

    A subclass supplies `read`, `change` and `num_keys`, and may supply `rest`, to be told of changes
    instead of looking for them. `hpc_elastic.testing.contracts.store` holds it to all this.
    """

    # Where the members of the round meet for their own communication, if the store knows it.
    master_addr_port: tuple[str, int] | None = None

    def __init__(self, timeout: Time = DEFAULT_TIMEOUT_S, clock: Clock = SYSTEM_CLOCK) -> None:
        self._timeout_s = values.as_seconds(timeout)
        self._clock = clock

    @abstractmethod
    def read(self, key: bytes) -> bytes | None:
        """The newest value under `key`, or None, without waiting."""

    @abstractmethod
    def change(self, key: bytes, make: Change) -> Changed:
        """Replace the value under `key` by `make` of it, with nothing in between.

        `make` is pure and may be called again. Where it asks for what stands already, nothing is
        written.
        """

    @abstractmethod
    def num_keys(self) -> int:
        """How many keys have a value."""

    def rest(self, pause_s: float, waited_s: float) -> None:  # noqa: ARG002 - for those who are told
        """Return when a key may have got a value, at the latest after `pause_s`."""
        self._clock.sleep_s(pause_s)

    @property
    def timeout(self) -> timedelta:
        """How long an operation waits that is given no time of its own."""
        return timedelta(seconds=self._timeout_s)

    def set_timeout(self, timeout: Time) -> None:
        """Set how long operations wait that are given no time of their own."""
        self._timeout_s = values.as_seconds(timeout)

    def set(self, key: Text, value: Text) -> None:
        """Put `value` under `key`, whatever stands there."""
        wanted = values.as_value(value)
        self.change(values.as_key(key), lambda _: wanted)

    def get(self, key: Text, timeout: Time | None = None) -> bytes:
        """The value under `key`, once there is one.

        Raises `StoreTimedOut`, a `LookupError`, when there is none within `timeout` (the store's, if
        not given; 300 s, if not set).
        """
        name = values.as_key(key)
        limit_s = self._limit_s(timeout)
        for _ in self._looks(limit_s):
            found = self.read(name)
            if found is not None:
                return found
        raise StoreTimedOut(
            f"key {values.shown(name)} has had no value for {limit_s:g} s; look whether the node or rank "
            "that sets it is alive, or give a longer timeout",
            missing=(name,),
        )

    def wait(self, keys: Iterable[Text], timeout: Time | None = None) -> None:
        """Return once all of `keys` have a value. Raises `StoreTimedOut`, which has the `missing` ones."""
        missing = values.as_keys(keys)
        limit_s = self._limit_s(timeout)
        for _ in self._looks(limit_s):
            missing = [name for name in missing if self.read(name) is None]
            if not missing:
                return
        shown = ", ".join(values.shown(name) for name in missing[:8])
        raise StoreTimedOut(
            f"{len(missing)} keys have had no value for {limit_s:g} s: {shown}; look whether the nodes or "
            "ranks that set them are alive, or give a longer timeout",
            missing=tuple(missing),
        )

    def check(self, keys: Iterable[Text]) -> bool:
        """Whether all of `keys` have a value, without waiting."""
        return all(self.read(name) is not None for name in values.as_keys(keys))

    def add(self, key: Text, amount: int) -> int:
        """Add to the number under `key` (decimal text; a missing one is 0); the sum.

        Of many who add at once each gets a sum of its own. Raises `ValueError` where something
        else stands, and for a sum of more than 4000 digits.
        """
        name, more = values.as_key(key), values.as_count(amount)

        def count(before: bytes | None) -> bytes:
            return values.write_number(name, values.read_number(name, before) + more)

        return values.read_number(name, self.change(name, count).after)

    def compare_set(self, key: Text, expected: Text, desired: Text) -> bytes:
        """Put `desired` under `key` if `expected` stands there; the value that stands afterwards.

        An empty `expected` means a missing key too. Where the key is missing and something was
        expected nothing is set and, as with torch's stores, `expected` is returned.
        """
        wanted, new = values.as_value(expected), values.as_value(desired)

        def swap(before: bytes | None) -> bytes | None:
            return new if (before or b"") == wanted else before

        after = self.change(values.as_key(key), swap).after
        return wanted if after is None else after

    def delete_key(self, key: Text) -> bool:
        """Remove the value under `key`; whether there was one."""
        return self.change(values.as_key(key), lambda _: None).before is not None

    def close(self) -> None:  # noqa: B027 - few hold anything
        """Give back what the store holds open; the values stay."""

    def _limit_s(self, timeout: Time | None) -> float:
        return self._timeout_s if timeout is None else values.as_seconds(timeout)

    def _looks(self, limit_s: float) -> Iterator[None]:
        """Turns of looking, with rests between them, until `limit_s` is over. At least one."""
        began_s = self._clock.monotonic_s()
        pause_s = FIRST_LOOK_S
        while True:
            yield
            waited_s = self._clock.monotonic_s() - began_s
            if waited_s >= limit_s:
                return
            longest_s = next(longest_s for until_s, longest_s in PAUSES if waited_s < until_s)
            pause_s = min(pause_s * 1.5, longest_s)
            self.rest(min(pause_s, limit_s - waited_s), waited_s)

    def _through(self, act: Callable[[], T]) -> T:
        """What `act` gives, tried again through outages for as long as the store's time-out."""
        began_s = self._clock.monotonic_s()
        pause_s = FIRST_LOOK_S * 10
        while True:
            try:
                return act()
            except (BackendGone, BackendRefused):
                raise  # it stays so
            except BackendUnavailable:
                if self._clock.monotonic_s() - began_s >= self._timeout_s:
                    raise
            self._clock.sleep_s(pause_s)
            pause_s = min(pause_s * 2, 1.0)
