"""A function on its way to the workers: packed, loaded, or refused with the culprit's name."""

from __future__ import annotations

import pickle
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.errors import SubmissionError, UsageError
from hpc_elastic.workers import payload
from hpc_elastic.workers.payload import Payload

A_LOCK = threading.Lock()


def uses_the_global_lock() -> None:
    with A_LOCK:
        pass


def in_main(source: str) -> Callable[..., Any]:
    """A function as a notebook or a script defines it: its module cannot be imported elsewhere."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(source, space)  # noqa: S102 - a module of its own, without a file
    function: Callable[..., Any] = space["train"]
    return function


def test_a_function_of_a_script_or_a_notebook_travels_whole() -> None:
    train = in_main("scale = 3\ndef train(x, *, y): return scale * x + y")

    loaded = payload.unpack(payload.pack(Payload(train, (2,), {"y": 1})))

    assert loaded.function(*loaded.args, **loaded.kwargs) == 7


def test_a_function_that_travelled_whole_shows_its_own_file_in_a_traceback(tmp_path: Path) -> None:
    source = "def inner(): return 1 / 0\ndef train(): return [inner() for _ in 'a']"
    path = tmp_path / "train.py"
    path.write_text(source)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, path, "exec"), space)  # noqa: S102 - as a script is run

    loaded = payload.unpack(payload.pack(Payload(space["train"], (), {})))

    with pytest.raises(ZeroDivisionError) as failure:
        loaded.function()
    assert {str(entry.path) for entry in failure.traceback[1:]} == {str(path)}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Payload(print, (1, threading.Lock()), {}), "argument 2 of print, "),
        (lambda: Payload(print, (), {"end": (x for x in "a")}), "argument end= of print, "),
        (lambda: Payload(in_main("import threading\nlock = threading.Lock()\ndef train(): lock"), (), {}),
         "the variable 'lock' used by train, "),
        (lambda: Payload(threading.Lock().acquire, (), {}), "the object that lock.acquire is a method of"),
    ],
)  # fmt: skip
def test_what_cannot_be_pickled_is_named(make: Callable[[], Payload], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        payload.pack(make())

    assert str(refused.value).startswith(says)
    assert "cannot be pickled (TypeError: " in str(refused.value)
    assert "pass plain data" in str(refused.value)


def test_an_importable_function_travels_by_name_whatever_its_module_holds() -> None:
    assert (
        payload.unpack(payload.pack(Payload(uses_the_global_lock, (), {}))).function is uses_the_global_lock
    )


def test_another_python_is_refused_before_the_function_is_touched() -> None:
    raw = pickle.dumps({"schema": 1, "python": "2.7", "path": []}) + b"not even a pickle"

    with pytest.raises(SubmissionError, match=r"submitted from Python 2\.7, but this worker is Python"):
        payload.unpack(raw)


def test_a_function_whose_module_is_missing_says_so() -> None:
    raw = payload.pack(Payload(print, (), {})).replace(b"builtins", b"bultinss")

    with pytest.raises(SubmissionError, match=r"cannot be loaded here \(ModuleNotFoundError: .*bultinss"):
        payload.unpack(raw)


def test_workers_look_last_where_the_submitter_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    given = payload.search_path()
    raw = payload.pack(Payload(print, (), {}), (*given, "/somewhere/else"))

    payload.unpack(raw)

    assert str(tmp_path) in given
    assert not any(folder.startswith(sys.prefix) for folder in given)
    assert sys.path[-1] == "/somewhere/else"
    assert sys.path.count(str(tmp_path)) == 1


def test_a_file_is_whole_private_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "results" / "1" / "0.pkl"

    payload.write(path, b"first")
    payload.write(path, b"second")

    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["0.pkl"]
