"""What every backend keeps. Inherit `BackendContract` and give a `backend` fixture (and a `twin`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from hpc_elastic.backends.base import Backend

KEY = "rounds/1"
SOON_S = 60.0  # for whatever a thread or a server does on a busy machine


class BackendContract:
    """A subclass gives the fixtures `backend` and `twin`: two clients of the same empty record."""

    def test_a_key_that_nobody_wrote_reads_as_none(self, backend: Backend) -> None:
        assert backend.read(KEY) is None

    def test_what_was_created_is_read_back_by_every_client(self, backend: Backend, twin: Backend) -> None:
        assert backend.create(KEY, b"mine") == b"mine"

        assert backend.read(KEY) == b"mine"
        assert twin.read(KEY) == b"mine"

    def test_the_first_create_wins_for_ever(self, backend: Backend, twin: Backend) -> None:
        backend.create(KEY, b"first")

        assert twin.create(KEY, b"second") == b"first"
        assert twin.read(KEY) == b"first"

    def test_creating_the_same_again_is_a_win_so_a_lost_reply_does_no_harm(self, backend: Backend) -> None:
        backend.create(KEY, b"mine")

        assert backend.create(KEY, b"mine") == b"mine"

    def test_of_many_creators_at_once_all_are_told_the_same_winner(
        self, backend: Backend, twin: Backend
    ) -> None:
        for number in range(1, 6):
            told: list[bytes] = []
            line = threading.Barrier(8)

            def create(writer: int, key: str, told: list[bytes], line: threading.Barrier) -> None:
                client = backend if writer % 2 else twin
                line.wait(SOON_S)
                told.append(client.create(key, f"writer {writer}".encode()))

            key = f"rounds/{number}"
            threads = [threading.Thread(target=create, args=(w, key, told, line)) for w in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(SOON_S)

            assert len(told) == 8
            assert set(told) == {backend.read(key)}

    def test_an_overwrite_replaces_and_needs_no_value_before(self, backend: Backend, twin: Backend) -> None:
        backend.overwrite("nodes/a", b"one")
        backend.overwrite("nodes/a", b"two")

        assert twin.read("nodes/a") == b"two"

    def test_a_reader_never_sees_a_part_of_an_overwrite(self, backend: Backend, twin: Backend) -> None:
        values = {bytes([letter]) * 20_000 for letter in b"abc"}
        backend.overwrite("nodes/a", b"a" * 20_000)

        def write() -> None:
            for _ in range(30):
                for value in values:
                    backend.overwrite("nodes/a", value)

        writer = threading.Thread(target=write)
        writer.start()
        seen = set()
        while writer.is_alive():
            seen.add(twin.read("nodes/a"))

        assert seen <= values

    def test_names_are_those_directly_below_a_folder(self, backend: Backend, twin: Backend) -> None:
        backend.create("rounds/1", b"x")
        backend.create("rounds/1.verdict", b"x")
        backend.overwrite("nodes/a", b"x")
        backend.overwrite("bell", b"x")

        assert twin.names("rounds") == {"1", "1.verdict"}
        assert twin.names("nodes") == {"a"}
        assert twin.names("attempts") == frozenset()

    def test_deeper_keys_come_with_their_folders(self, backend: Backend) -> None:
        backend.create("stores/1/a/key.1", b"x")

        assert backend.read("stores/1/a/key.1") == b"x"
        assert backend.names("stores/1/a") == {"key.1"}

    def test_a_removed_key_is_gone_and_removing_nothing_is_fine(self, backend: Backend) -> None:
        backend.create("stores/1/a", b"x")
        backend.remove("stores/1/a")
        backend.remove("stores/1/a")

        assert backend.read("stores/1/a") is None

    def test_a_folder_is_removed_with_all_that_is_in_it(self, backend: Backend) -> None:
        backend.create("stores/1/a", b"x")
        backend.create("stores/1/b/c", b"x")
        backend.create("stores/10/a", b"stays")

        backend.remove("stores/1")

        assert backend.names("stores/1") == frozenset()
        assert backend.read("stores/1/b/c") is None
        assert backend.read("stores/10/a") == b"stays"

    def test_any_bytes_are_kept_even_none(self, backend: Backend, twin: Backend) -> None:
        every = bytes(range(256)) * 3000
        backend.create("rounds/1", every)
        backend.create("rounds/2", b"")

        assert twin.read("rounds/1") == every
        assert twin.read("rounds/2") == b""

    @pytest.mark.parametrize(
        "key",
        [
            "",
            "/",
            "/etc/passwd",
            "../x",
            "rounds/../../x",
            "rounds//1",
            "rounds/",
            ".tmp/x",
            "a b",
            "a\0",
            "a\n",
        ],
    )
    def test_what_could_name_a_path_elsewhere_is_no_key(self, backend: Backend, key: str) -> None:
        for refused in (
            lambda: backend.create(key, b"x"),
            lambda: backend.overwrite(key, b"x"),
            lambda: backend.read(key),
            lambda: backend.names(key),
            lambda: backend.remove(key),
        ):
            with pytest.raises(ValueError, match="is not a key"):
                refused()

    def test_waiting_ends_with_its_time(self, backend: Backend) -> None:
        assert _seconds(lambda: backend.wait(0.01, threading.Event())) < SOON_S

    def test_waiting_ends_when_it_is_woken(self, backend: Backend) -> None:
        wake = threading.Event()
        threading.Timer(0.02, wake.set).start()

        assert _seconds(lambda: backend.wait(2 * SOON_S, wake)) < SOON_S


def _seconds(act: Callable[[], object]) -> float:
    began_s = time.monotonic()
    act()
    return time.monotonic() - began_s
