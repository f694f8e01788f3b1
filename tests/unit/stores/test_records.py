"""A record store keeps its promise while writers are held up, replies are lost and hosts die."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pytest

from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import BackendUnavailable, RecordCorrupt
from hpc_elastic.stores.records import KEPT, RecordStore
from hpc_elastic.stores.slots import Pointer, Slot, name_of

SPACE = "stores/1"
KEY = f"{SPACE}/k-n"


class HeldBackend(MemoryBackend):
    """Calls `before` or `after` once, around the next exclusive create."""

    def __init__(self, shared: MemoryBackend) -> None:
        super().__init__()
        self.shared = shared
        self.before: Callable[[], object] | None = None
        self.after: Callable[[], object] | None = None

    def create(self, key: str, value: bytes) -> bytes:
        before, self.before = self.before, None
        if before is not None:
            before()
        stored = self.shared.create(key, value)
        after, self.after = self.after, None
        if after is not None:
            after()
        return stored

    def overwrite(self, key: str, value: bytes) -> None:
        self.shared.overwrite(key, value)

    def read(self, key: str) -> bytes | None:
        return self.shared.read(key)

    def names(self, folder: str) -> frozenset[str]:
        return self.shared.names(folder)

    def remove(self, key: str) -> None:
        self.shared.remove(key)


class LossyBackend(HeldBackend):
    """Loses requests and replies."""

    def __init__(self, shared: MemoryBackend, chance: Random, loss: float = 0.1) -> None:
        super().__init__(shared)
        self._chance = chance
        self._loss = loss

    def _lose(self, what: str) -> None:
        if self._chance.random() < self._loss:
            raise BackendUnavailable(f"lost {what}")

    def create(self, key: str, value: bytes) -> bytes:
        self._lose("request")
        stored = super().create(key, value)
        self._lose("reply")
        return stored

    def overwrite(self, key: str, value: bytes) -> None:
        self._lose("request")
        super().overwrite(key, value)
        self._lose("reply")

    def read(self, key: str) -> bytes | None:
        self._lose("reply")
        return super().read(key)


def store_on(backend: MemoryBackend) -> RecordStore:
    return RecordStore(backend, SPACE)


@pytest.fixture
def shared() -> MemoryBackend:
    return MemoryBackend()


@pytest.mark.parametrize("others", [1, KEPT, KEPT + 1, 3 * KEPT, 300])
@pytest.mark.parametrize("already", [0, 1, 2, 50])
def test_a_writer_held_up_before_its_create_counts_once(
    shared: MemoryBackend, others: int, already: int
) -> None:
    busy = store_on(shared)
    for _ in range(already):
        busy.add("n", 1)
    held = HeldBackend(shared)
    held.before = lambda: [busy.add("n", 1) for _ in range(others)]

    assert store_on(held).add("n", 1) == already + others + 1
    assert busy.add("n", 0) == already + others + 1


@pytest.mark.parametrize("others", [1, KEPT, KEPT + 1, 3 * KEPT, 300])
@pytest.mark.parametrize("already", [0, 1, 2, 50])
def test_a_writer_held_up_after_its_create_counts_once(
    shared: MemoryBackend, others: int, already: int
) -> None:
    busy = store_on(shared)
    for _ in range(already):
        busy.add("n", 1)
    held = HeldBackend(shared)
    held.after = lambda: [busy.add("n", 1) for _ in range(others)]

    assert store_on(held).add("n", 1) == already + 1
    assert busy.add("n", 0) == already + others + 1


def test_a_writer_whose_host_dies_after_its_create_leaves_a_store_that_works(shared: MemoryBackend) -> None:
    def die() -> None:
        raise SystemExit("the host is gone")

    for already in range(7):
        held = HeldBackend(shared)
        held.after = die
        with pytest.raises(SystemExit):
            store_on(held).add("n", 1)

        assert store_on(shared).get("n") == str(already + 1).encode()


def test_lost_requests_and_replies_neither_lose_nor_repeat_an_add(shared: MemoryBackend) -> None:
    sums: list[int] = []

    def count(seed: int) -> None:
        lossy = store_on(LossyBackend(shared, Random(seed)))
        sums.extend([lossy.add("n", 1) for _ in range(15)])

    threads = [threading.Thread(target=count, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(sums) == list(range(1, 91))


def test_an_outage_ends_an_operation_after_the_time_of_the_store(shared: MemoryBackend) -> None:
    store = store_on(LossyBackend(shared, Random(1), loss=1.0))
    store.set_timeout(0.05)

    for act in (lambda: store.set("n", "1"), lambda: store.get("n", 0), lambda: store.add("n", 1)):
        with pytest.raises(BackendUnavailable, match="lost"):
            act()


def test_what_is_left_behind_is_bounded(shared: MemoryBackend) -> None:
    store, other = store_on(shared), store_on(shared)
    for _ in range(100):
        store.add("n", 1)
        other.set("m", "x" * 1000)
        other.delete_key("m")

    assert len(shared.names(SPACE)) <= 2 * (KEPT + 1)


def test_a_pointer_that_has_fallen_behind_is_caught_up_with(shared: MemoryBackend) -> None:
    store = store_on(shared)
    store.add("n", 1)
    early = shared.read(KEY)
    assert early is not None
    for behind in (1, KEPT - 1, 20):
        for _ in range(behind):
            expected = store.add("n", 1)
        shared.overwrite(KEY, early)

        assert store_on(shared).get("n") == str(expected).encode()
        assert store_on(shared).add("n", 1) == expected + 1


def test_a_get_reads_no_folder(shared: MemoryBackend) -> None:
    class Counting(HeldBackend):
        listed = 0

        def names(self, folder: str) -> frozenset[str]:
            self.listed += 1
            return super().names(folder)

    backend = Counting(shared)
    store = store_on(backend)
    store.set("n", "1")
    assert store.get("n") == b"1"
    with pytest.raises(LookupError):
        store.get("m", 0.05)

    assert backend.listed == 0


def test_a_name_that_a_cache_calls_missing_is_read_past_it(shared: MemoryBackend) -> None:
    class Cached(HeldBackend):
        """Remembers missing names for ever, but for those it tried to create: as FUSE and NFS do."""

        def __init__(self, shared: MemoryBackend) -> None:
            super().__init__(shared)
            self.missing: set[str] = set()

        def read(self, key: str) -> bytes | None:
            if key in self.missing:
                return None
            found = super().read(key)
            if found is None:
                self.missing.add(key)
            return found

        def create(self, key: str, value: bytes) -> bytes:
            self.missing.discard(key)
            return super().create(key, value)

    far, near = store_on(Cached(shared)), store_on(shared)
    later = threading.Timer(0.2, lambda: near.set("n", "1"))
    later.start()

    assert far.get("n", 60.0) == b"1"
    for number in range(2, 9):
        near.set("n", str(number))
        assert far.get("n", 60.0) == str(number).encode()


def test_a_folder_that_was_removed_is_an_empty_store(shared: MemoryBackend) -> None:
    store = store_on(shared)
    store.add("n", 3)
    shared.remove(SPACE)

    assert not store.check(["n"])
    assert store.add("n", 1) == 1


@pytest.mark.parametrize("foreign", [b"", b"hello", b"v 1", b"9 9\n"])
def test_what_no_store_wrote_is_refused(shared: MemoryBackend, foreign: bytes) -> None:
    shared.overwrite(f"{KEY}.1", foreign)

    with pytest.raises(RecordCorrupt, match="no store of this package"):
        store_on(shared).get("n", 0)


def test_a_pointer_that_no_store_wrote_is_refused(shared: MemoryBackend) -> None:
    shared.overwrite(KEY, b"../../etc")

    with pytest.raises(RecordCorrupt, match="no store of this package"):
        store_on(shared).get("n", 0)


def test_slots_and_pointers_come_back_from_their_bytes() -> None:
    first = Slot(1, "a.1", b"one\ntwo")
    second = first.followed_by("b.1", None)
    third = second.followed_by("a.2", b"")

    for slot in (first, second, third):
        assert Slot.decode(slot.version, slot.encode(), KEY) == slot
    assert third.before == ("b.1",)
    assert (third.includes("a.2"), third.includes("a.1"), third.includes("b.1")) == (True, False, True)
    assert third.includes("c.1") is False
    assert Pointer.decode(Pointer(3, "a.2", 0).encode(), KEY) == Pointer(3, "a.2", 0)


def test_names_of_keys_are_safe_segments_of_their_own() -> None:
    keys = [b"", b"a", b"A", b"_61", b"a.1", b"/", b"\0", b"x" * 180, b"x" * 181, b"/" * 60, b"/" * 61]
    names = [name_of(key) for key in keys]

    assert len(set(names)) == len(keys)
    assert all(len(name) <= 190 and "." not in name and "/" not in name for name in names)
    assert name_of(b"rank/0") == "k-rank_2f0"
