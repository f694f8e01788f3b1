"""The parts of the etcd backend that decide something: what is known, what is read ahead, who is woken."""

from __future__ import annotations

import threading

import pytest

from hpc_elastic.backends.changes import Changes
from hpc_elastic.backends.etcd_ahead import ReadAhead
from hpc_elastic.backends.etcd_known import Known, KnownValues
from tests.waiting import wait_until

KEY = b"bell"
FOLDER = b"rounds/"


@pytest.fixture
def known() -> KnownValues:
    made = KnownValues((KEY, FOLDER), (), lambda: 0.0)
    made.begin(10, is_continued=False)
    return made


def test_a_value_is_known_once_it_was_read_and_follows_the_watch(known: KnownValues) -> None:
    assert known.look_up(KEY) == (False, None)

    known.was_read(KEY, 12, b"one")
    assert known.look_up(KEY) == (True, b"one")
    known.told(KEY, 13, b"two")
    assert known.look_up(KEY) == (True, b"two")
    known.told(KEY, 14, None)
    assert known.look_up(KEY) == (True, None)


def test_that_there_is_nothing_is_known_too_until_the_watch_says_otherwise(known: KnownValues) -> None:
    known.was_read(KEY, 12, None)
    assert known.look_up(KEY) == (True, None)

    known.told(KEY, 13, b"one")

    assert known.look_up(KEY) == (True, b"one")


def test_an_answer_that_is_older_than_what_the_watch_has_told_changes_nothing(known: KnownValues) -> None:
    known.told(KEY, 13, b"new")

    known.was_read(KEY, 12, None)
    known.told(KEY, 12, b"old")

    assert known.look_up(KEY) == (True, b"new")


def test_an_answer_from_before_the_watch_began_is_not_kept(known: KnownValues) -> None:
    known.was_read(KEY, 9, b"old")

    assert known.look_up(KEY) == (False, None)


def test_nothing_is_known_while_the_watch_is_broken(known: KnownValues) -> None:
    known.was_read(KEY, 12, b"one")

    known.end()
    assert known.look_up(KEY) == (False, None)
    known.was_read(KEY, 13, b"two")
    assert known.look_up(KEY) == (False, None)

    known.begin(14, is_continued=True)
    assert known.look_up(KEY) == (True, b"one")
    known.begin(14, is_continued=False)
    assert known.look_up(KEY) == (False, None)


def test_nothing_is_known_until_the_watch_has_told_of_the_last_own_write(known: KnownValues) -> None:
    known.was_read(KEY, 12, b"one")

    known.wrote(20)
    assert known.look_up(KEY) == (False, None)
    known.echo(19)
    assert known.look_up(KEY) == (False, None)
    known.echo(20)

    assert known.look_up(KEY) == (True, b"one")


class Snapshot:
    """A snapshot at revision 10 under a clock that is moved by hand: two rounds, an attempt, and no bell."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.known = KnownValues((KEY, FOLDER), (b"attempts/",), lambda: self.now_s)
        there = {b"rounds/1": Known(4, b"", is_read=False), b"rounds/2": Known(9, b"two")}
        self.known.take_snapshot(10, [*there.items(), (b"attempts/1", Known(2, b"one"))], 0.0)


def test_a_snapshot_answers_each_question_once_until_there_is_a_watch() -> None:
    known = Snapshot().known

    assert known.names(FOLDER) == frozenset({b"1", b"2"})
    assert known.names(FOLDER) is None
    assert known.look_up(KEY) == (True, None)
    assert known.look_up(KEY) == (False, None)
    assert known.look_up(b"attempts/1") == (True, b"one")
    assert known.look_up(b"rounds/1") == (False, None)  # it is there, and what it says was not asked for
    assert known.look_up(b"stores/1/a") == (False, None)


def test_a_snapshot_is_soon_too_old_without_a_watch() -> None:
    snapshot = Snapshot()

    snapshot.now_s = 0.3

    assert snapshot.known.names(FOLDER) is None
    assert snapshot.known.look_up(KEY) == (False, None)


def test_a_watch_that_follows_a_snapshot_makes_all_of_it_last_but_what_is_not_watched() -> None:
    known = Snapshot().known
    known.begin(12, is_continued=True)

    known.told(KEY, 11, b"rung")
    known.told(b"rounds/3", 13, b"three")
    known.told(b"rounds/1", 14, None)

    for _ in range(2):
        assert known.look_up(KEY) == (True, b"rung")
        assert known.look_up(b"rounds/9") == (True, None)
        assert known.names(FOLDER) == frozenset({b"2", b"3"})
    assert known.names(b"attempts/") is None
    known.begin(20, is_continued=False)
    assert known.names(FOLDER) is None
    assert known.look_up(b"rounds/9") == (False, None)


def test_what_was_written_before_the_snapshot_came_is_in_it_or_newer() -> None:
    known = KnownValues((KEY, FOLDER), (), lambda: 0.0)
    known.told(KEY, 12, b"mine")
    known.told(b"rounds/1", 8, b"old")

    known.take_snapshot(10, [(KEY, Known(7, b"before"))], 0.0)

    assert known.look_up(KEY) == (True, b"mine")
    assert known.look_up(b"rounds/1") == (True, None)


def test_what_is_going_to_be_removed_is_not_known_until_the_watch_tells() -> None:
    known = Snapshot().known
    known.begin(12, is_continued=True)

    known.forget(b"rounds/2")
    assert known.look_up(b"rounds/2") == (False, None)
    known.told(b"rounds/2", 13, None)

    assert known.look_up(b"rounds/2") == (True, None)


class Folder:
    """Values that count how they are asked for, under a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.values = {b"a": b"1", b"b": b"2", b"c": b"3"}
        self.asked: list[str] = []
        self.ahead = ReadAhead(self.one, self.all_of_them, lambda: self.now_s)

    def one(self, key: bytes) -> bytes | None:
        self.asked.append("one")
        return self.values.get(key)

    def all_of_them(self) -> dict[bytes, bytes]:
        self.asked.append("all")
        return dict(self.values)


def test_one_presence_is_asked_for_alone_and_many_at_once() -> None:
    folder = Folder()

    found = [folder.ahead.read(key) for key in (b"a", b"b", b"c", b"d")]

    assert found == [b"1", b"2", b"3", None]
    assert folder.asked == ["one", "all"]


def test_a_presence_that_is_read_again_is_asked_for_again() -> None:
    folder = Folder()
    for key in (b"a", b"b", b"c"):
        folder.ahead.read(key)
    folder.values[b"c"] = b"new"

    assert folder.ahead.read(b"c") == b"new"


def test_what_was_read_ahead_is_soon_too_old() -> None:
    folder = Folder()
    for key in (b"a", b"b"):
        folder.ahead.read(key)
    folder.values[b"c"] = b"new"

    folder.now_s += 0.05

    assert folder.ahead.read(b"c") == b"new"
    assert folder.asked[-1] == "one"


def test_a_change_that_came_while_nobody_waited_ends_the_next_wait() -> None:
    changes, wake = Changes(), threading.Event()
    changes.note()

    changes.wait(30.0, wake)

    assert not wake.is_set()  # it did not even begin


def test_a_change_wakes_whoever_waits() -> None:
    changes, wake = Changes(), threading.Event()

    def note() -> None:
        wait_until(lambda: changes._waiting, 60, "somebody waits")
        changes.note()

    noting = threading.Thread(target=note)
    noting.start()
    changes.wait(60.0, wake)
    noting.join()

    assert wake.is_set()


class Heard:
    """Keeps how a watch began."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, bool]] = []

    def begin(self, revision: int, *, is_continued: bool) -> None:
        self.begun.append((revision, is_continued))

    def end(self) -> None:
        """Nothing is kept of that."""

    def told(self, key: bytes, revision: int, value: bytes | None) -> None:
        """Nothing is kept of that."""


def test_a_watch_that_tells_of_one_interval_before_the_other_exists_has_begun_anew_all_the_same() -> None:
    from hpc_elastic.backends.etcd_client import EtcdClient
    from hpc_elastic.backends.etcd_endpoints import parse
    from hpc_elastic.backends.etcd_transport import Transport
    from hpc_elastic.backends.etcd_watch import EtcdWatch

    heard = Heard()
    client = EtcdClient(Transport(parse("nobody.invalid", {}, {})), "/v3")
    watch = EtcdWatch(client, ((b"a", b"b"), (b"c", b"d")), heard)

    watch._take({"watch_id": "1", "created": True, "header": {"revision": "5"}})
    watch._take({"watch_id": "1", "events": [{"kv": {"key": "YQ==", "mod_revision": "6"}}]})
    watch._take({"watch_id": "2", "created": True, "header": {"revision": "6"}})

    assert heard.begun == [(6, False)]
