"""What every store keeps. Inherit `StoreContract` and give `store` and `twin` fixtures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hpc_elastic.errors import StoreTimedOut
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.prefixed import PrefixedStore

AWKWARD_KEYS = (
    b"",
    b"\0",
    b"a/b",
    b"../../etc/passwd",
    b".hidden",
    b"a.1",
    b"k-a",
    b"_61",
    "\u00fc\u4e16\U0001f600".encode(),
    b"\xff\xfe\n\r\t ",
    bytes(range(256)),
    b"x" * 4096,
    b"x" * 4095 + b"y",
)
SOON_S = 60.0  # for whatever a thread or a server does on a busy machine


class StoreContract:
    """A subclass gives the fixtures `store` and `twin`: two clients of the same empty store."""

    ADDS = 200
    BIG_BYTES = 1_000_000

    def test_a_value_that_was_set_is_read_by_every_client_as_bytes(self, store: Store, twin: Store) -> None:
        store.set("word", "caf\u00e9")
        store.set(b"raw", b"\0\xff")

        assert twin.get("word") == "caf\u00e9".encode()
        assert twin.get("raw") == b"\0\xff"

    def test_text_and_its_bytes_name_the_same_key(self, store: Store, twin: Store) -> None:
        store.set("caf\u00e9", b"1")

        assert twin.get("caf\u00e9".encode()) == b"1"

    def test_the_last_value_set_counts(self, store: Store, twin: Store) -> None:
        for number in range(12):
            store.set("key", str(number))
            assert twin.get("key") == str(number).encode()
        twin.set("key", b"")

        assert store.get("key") == b""

    def test_any_byte_may_be_in_a_key_and_no_two_keys_meet(self, store: Store, twin: Store) -> None:
        for number, key in enumerate(AWKWARD_KEYS):
            store.set(key, str(number))

        assert [twin.get(key) for key in AWKWARD_KEYS] == [
            str(number).encode() for number in range(len(AWKWARD_KEYS))
        ]
        assert twin.num_keys() == len(AWKWARD_KEYS)

    def test_a_value_may_be_large(self, store: Store, twin: Store) -> None:
        large = bytes(range(256)) * (self.BIG_BYTES // 256)
        store.set("large", large)

        assert twin.get("large") == large

    def test_get_waits_for_a_value(self, store: Store, twin: Store) -> None:
        later = threading.Timer(0.1, lambda: store.set("late", "here"))
        later.start()

        assert twin.get("late", SOON_S) == b"here"

    @pytest.mark.parametrize("timeout", [0, 0.05, timedelta(milliseconds=50)])
    def test_get_gives_up_after_its_time_and_names_the_key(
        self, store: Store, timeout: float | timedelta
    ) -> None:
        with pytest.raises(LookupError, match="nobody sets this") as late:
            store.get("nobody sets this", timeout)

        assert isinstance(late.value, StoreTimedOut)
        assert late.value.missing == (b"nobody sets this",)

    def test_the_time_of_a_store_is_300_s_and_can_be_set(self, store: Store) -> None:
        assert store.timeout == timedelta(seconds=300)

        store.set_timeout(timedelta(seconds=0.05))

        assert store.timeout == timedelta(seconds=0.05)
        with pytest.raises(LookupError):
            store.get("missing")
        with pytest.raises(LookupError):
            store.wait(["missing"])

    def test_wait_returns_once_all_keys_are_there(self, store: Store, twin: Store) -> None:
        store.set("a", "1")
        later = threading.Timer(0.1, lambda: store.set("b", "2"))
        later.start()

        twin.wait(["a", "b"], SOON_S)

        assert twin.check(["a", "b"])

    def test_wait_names_the_keys_that_are_missing(self, store: Store) -> None:
        store.set("a", "1")

        with pytest.raises(LookupError, match="'c'") as late:
            store.wait(["a", b"b", "c"], 0.05)

        assert isinstance(late.value, StoreTimedOut)
        assert late.value.missing == (b"b", b"c")

    def test_waiting_for_no_key_at_all_is_over_at_once(self, store: Store) -> None:
        store.wait([], 0)

        assert store.check([])

    def test_check_does_not_wait(self, store: Store) -> None:
        store.set("a", "1")

        assert store.check(["a"])
        assert not store.check(["a", "b"])

    def test_add_counts_from_zero_in_decimal_text(self, store: Store, twin: Store) -> None:
        assert store.add("n", 5) == 5
        assert twin.add("n", -7) == -2
        assert store.get("n") == b"-2"
        store.set("n", "40")
        assert twin.add("n", 2) == 42
        assert store.add("n", 0) == 42
        assert twin.add("big", 10**30) == 10**30

    def test_add_to_what_is_no_number_says_so_and_changes_nothing(self, store: Store) -> None:
        store.set("word", "ten")

        with pytest.raises(ValueError, match=r"word.*ten.*no decimal number"):
            store.add("word", 1)

        assert store.get("word") == b"ten"

    def test_a_sum_that_nobody_could_read_is_refused_and_changes_nothing(self, store: Store) -> None:
        store.set("n", "7")
        for amount in (10**4000, -(10**4500)):
            with pytest.raises(ValueError, match="more than 4000 digits"):
                store.add("n", amount)

        assert store.add("n", 1) == 8

    def test_compare_set_replaces_what_was_expected(self, store: Store, twin: Store) -> None:
        store.set("key", "one")

        assert twin.compare_set("key", "one", "two") == b"two"
        assert store.get("key") == b"two"

    def test_compare_set_leaves_what_was_not_expected_and_returns_it(self, store: Store, twin: Store) -> None:
        store.set("key", "one")

        assert twin.compare_set("key", "other", "two") == b"one"
        assert store.get("key") == b"one"

    def test_compare_set_expecting_nothing_sets_a_missing_key(self, store: Store, twin: Store) -> None:
        assert store.compare_set("key", "", "one") == b"one"
        assert twin.compare_set("key", b"", b"two") == b"one"

    def test_compare_set_expecting_a_value_sets_no_missing_key(self, store: Store) -> None:
        assert store.compare_set("key", "something", "one") == b"something"
        assert not store.check(["key"])

    def test_a_deleted_key_is_missing_until_it_is_set_again(self, store: Store, twin: Store) -> None:
        store.set("key", "one")

        assert twin.delete_key("key") is True
        assert store.delete_key("key") is False
        assert not store.check(["key"])
        assert store.compare_set("key", "", "two") == b"two"
        assert twin.get("key") == b"two"
        assert twin.delete_key("key") is True
        assert store.add("key", 3) == 3

    def test_a_key_that_is_deleted_while_it_is_waited_for_is_found_when_it_returns(
        self, store: Store, twin: Store
    ) -> None:
        store.set("key", "old")
        store.delete_key("key")
        got: list[bytes] = []
        waiting = threading.Thread(target=lambda: got.append(twin.get("key", SOON_S)))
        waiting.start()
        for _ in range(3):
            store.set("other", "x")
            store.delete_key("other")
        store.set("key", "new")
        waiting.join(SOON_S)

        assert got == [b"new"]

    def test_num_keys_counts_keys_that_have_a_value(self, store: Store, twin: Store) -> None:
        assert store.num_keys() == 0
        for key in ("a", "b", "c", "c"):
            store.set(key, "1")
        store.add("n", 1)
        twin.delete_key("a")

        assert store.num_keys() == 3
        assert twin.num_keys() == 3

    @pytest.mark.parametrize("wrong", [None, 5, 1.5, ["a"], bytearray(b"a")])
    def test_a_key_or_value_of_another_type_is_a_value_error(self, store: Store, wrong: object) -> None:
        refused: list[Callable[[], object]] = [
            lambda: store.set("key", wrong),  # type: ignore[arg-type]
            lambda: store.set(wrong, "value"),  # type: ignore[arg-type]
            lambda: store.get(wrong, 0),  # type: ignore[arg-type]
            lambda: store.compare_set("key", wrong, "value"),  # type: ignore[arg-type]
            lambda: store.compare_set("key", "value", wrong),  # type: ignore[arg-type]
            lambda: store.delete_key(wrong),  # type: ignore[arg-type]
            lambda: store.wait([wrong], 0),  # type: ignore[list-item]
        ]
        for act in refused:
            with pytest.raises(ValueError, match="expected str or bytes"):
                act()
        assert store.num_keys() == 0

    @pytest.mark.parametrize("wrong", ["1", None, 1.0, True, b"1"])
    def test_what_is_added_is_a_whole_number(self, store: Store, wrong: object) -> None:
        with pytest.raises(ValueError, match="expected an int"):
            store.add("key", wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize("wrong", ["1", -1, float("nan"), float("inf"), True, [1]])
    def test_a_timeout_is_seconds_or_a_timedelta(self, store: Store, wrong: Any) -> None:
        store.set("key", "1")
        for act in (store.set_timeout, lambda given: store.get("key", given)):
            with pytest.raises(ValueError, match="timeout"):
                act(wrong)

    def test_a_timeout_may_be_longer_than_any_run(self, store: Store) -> None:
        for long in (timedelta.max, 1e300):
            store.set_timeout(long)
            assert store.compare_set("key", "", "1") == store.get("key", long)
            assert PrefixedStore("a", store).timeout > timedelta(days=10_000)

    def test_one_key_alone_is_not_taken_for_its_letters(self, store: Store) -> None:
        with pytest.raises(ValueError, match="expected a list of keys"):
            store.wait("key", 0)
        with pytest.raises(ValueError, match="expected a list of keys"):
            store.check(b"key")  # type: ignore[arg-type]

    def test_of_sixteen_who_add_at_once_each_gets_a_sum_of_its_own(self, store: Store, twin: Store) -> None:
        sums: list[int] = []

        def count(writer: int) -> None:
            mine = store if writer % 2 else twin
            sums.extend([mine.add("n", 1) for _ in range(self.ADDS)])

        _at_once(16, count)

        assert sorted(sums) == list(range(1, 16 * self.ADDS + 1))
        assert store.get("n") == str(16 * self.ADDS).encode()

    def test_of_many_who_compare_and_set_at_once_one_wins_each_turn(self, store: Store, twin: Store) -> None:
        told: dict[int, list[bytes]] = {turn: [] for turn in range(10)}
        line = threading.Barrier(8)

        def race(writer: int) -> None:
            mine = store if writer % 2 else twin
            for turn, answers in told.items():
                line.wait(SOON_S)
                answers.append(mine.compare_set(f"turn {turn}", "", f"writer {writer}"))

        _at_once(8, race)

        for turn, answers in told.items():
            assert len(answers) == 8
            assert set(answers) == {store.get(f"turn {turn}")}

    def test_a_chain_of_compare_and_set_loses_no_link(self, store: Store, twin: Store) -> None:
        store.set("chain", "-")

        def append(writer: int) -> None:
            mine = store if writer % 2 else twin
            for _ in range(10):
                seen = mine.get("chain")
                while (stands := mine.compare_set("chain", seen, seen + b"%x" % writer)) != seen + (
                    b"%x" % writer
                ):
                    seen = stands

        _at_once(6, append)

        assert sorted(store.get("chain")[1:]) == sorted(b"012345" * 10)

    def test_a_prefixed_store_keeps_to_its_own_keys(self, store: Store, twin: Store) -> None:
        one, other = PrefixedStore("one", store), PrefixedStore(b"other", twin)
        one.set("key", "1")
        other.set("key", "2")

        assert one.get("key") == b"1"
        assert twin.get("one/key") == b"1"
        assert other.add("key", 3) == 5
        assert one.compare_set("key", "1", "9") == b"9"
        assert not one.check(["absent"])
        assert one.delete_key("key")
        assert not store.check(["one/key"])
        with pytest.raises(LookupError):
            one.get("key", 0)


def _at_once(count: int, act: Callable[[int], None]) -> None:
    """Run `act(0)` to `act(count - 1)` in threads; the first error of any is raised here."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            act(number)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
