"""The one thing that crosses processes as a pickle: a submitted function, and what it returned.

A payload is two pickles in one file: a header of plain values that any Python reads, so that a
mismatch can be named before the body, which needs the same Python, is touched.
"""

from __future__ import annotations

import inspect
import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final

from hpc_elastic.errors import SubmissionError, UsageError

SCHEMA: Final = 1
_NO_FILE: Final = "<dynamic-code>"


@dataclass(frozen=True)
class Payload:
    """A function and its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def pack(payload: Payload, search_path: tuple[str, ...] = ()) -> bytes:
    """The bytes of a payload; raises UsageError naming the object that cannot be pickled.

    What is importable travels by its name (`search_path` is where workers look for it, last); what
    is defined in `__main__` or a notebook travels whole.
    """
    import cloudpickle

    header = {
        "schema": SCHEMA,
        "python": python_version(),
        "path": list(search_path),
        "source": _source_of(payload.function),
    }
    try:
        body: bytes = cloudpickle.dumps((payload.function, payload.args, dict(payload.kwargs)))
    except Exception as why:  # any object may raise anything from its __reduce__
        raise UsageError(_unpicklable(payload, why)) from why
    return pickle.dumps(header) + body


def unpack(raw: bytes) -> Payload:
    """The payload in `raw`; raises SubmissionError when this Python cannot load it."""
    stream = io.BytesIO(raw)
    header = pickle.load(stream)
    if header.get("python") != python_version():
        raise SubmissionError(
            f"the function was submitted from Python {header.get('python')}, but this worker is Python "
            f"{python_version()} ({sys.executable}); give submit(python=...) one of the same version"
        )
    known = set(sys.path)
    sys.path.extend(folder for folder in header.get("path", ()) if folder not in known)
    try:
        function, args, kwargs = pickle.load(stream)
    except Exception as why:
        raise SubmissionError(
            f"the submitted function cannot be loaded here ({type(why).__name__}: {why}); its modules must "
            f"be importable for {sys.executable} on every node: install them, or define it in your script"
        ) from why
    _restore_source(function, header.get("source", ""))
    return Payload(function, args, kwargs)


def python_version() -> str:
    """Major and minor version: functions travel between equal ones only."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def search_path() -> tuple[str, ...]:
    """The submitter's own import folders: those that are not of its Python installation."""
    own = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    folders = [Path(entry or os.getcwd()).resolve() for entry in sys.path]  # noqa: PTH109 - '' means this
    return tuple(
        str(folder)
        for folder in dict.fromkeys(folders)
        if folder.is_dir() and not (own & {folder, *folder.parents})
    )


def pack_value(value: object) -> bytes:
    """The bytes of a result or an exception; raises whatever its pickling raises."""
    import cloudpickle

    packed: bytes = cloudpickle.dumps(value)
    return packed


def unpack_value(raw: bytes) -> Any:
    """The value again; raises whatever its loading raises."""
    return pickle.loads(raw)


def write(path: Path, raw: bytes) -> None:
    """Put `raw` under `path` for its owner alone; a reader sees the whole of it or nothing of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        private.replace(path)
    except BaseException:
        with suppress(OSError):
            private.unlink()  # half of it takes room where there is none
        raise


def _source_of(function: object) -> str:
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return os.path.abspath(code.co_filename) if isinstance(code, CodeType) else ""  # noqa: PTH100 - text only


def _restore_source(function: object, source: str) -> None:
    """Give a function that travelled whole, and those beside it, their file again.

    cloudpickle (3.0 to 3.1) replaces the file by a constant, so that a traceback would have no
    lines of source in it.
    """
    if not source or not inspect.isfunction(function):
        return
    beside = [each for each in function.__globals__.values() if inspect.isfunction(each)]
    for each in (function, *beside):
        if each.__module__ == function.__module__ and each.__code__.co_filename == _NO_FILE:
            each.__code__ = _in_file(each.__code__, source)


def _in_file(code: CodeType, source: str) -> CodeType:
    constants = tuple(
        _in_file(each, source) if isinstance(each, CodeType) else each for each in code.co_consts
    )
    return code.replace(co_filename=source, co_consts=constants)


def _unpicklable(payload: Payload, why: Exception) -> str:
    name = getattr(payload.function, "__qualname__", repr(payload.function))
    for what, value in _parts(payload):
        if not _is_picklable(value):
            culprit = f"{what}, {_short(value)},"
            break
    else:
        culprit = f"the function {name}"
    return (
        f"{culprit} cannot be pickled ({type(why).__name__}: {why}); "
        f"create such objects (locks, files, connections, generators) inside {name}, and pass plain data"
    )


def _parts(payload: Payload) -> Iterator[tuple[str, object]]:
    name = getattr(payload.function, "__qualname__", repr(payload.function))
    for place, value in enumerate(payload.args, start=1):
        yield f"argument {place} of {name}", value
    for keyword, value in payload.kwargs.items():
        yield f"argument {keyword}= of {name}", value
    owner = getattr(payload.function, "__self__", None)
    if owner is not None:
        yield f"the object that {name} is a method of", owner
    inner = inspect.unwrap(getattr(payload.function, "__func__", payload.function))
    if not inspect.isfunction(inner):
        return
    used = inspect.getclosurevars(inner)
    for variable, value in {**used.nonlocals, **used.globals}.items():
        yield f"the variable {variable!r} used by {name}", value
    for value in inner.__defaults__ or ():
        yield f"a default argument of {name}", value


def _is_picklable(value: object) -> bool:
    try:
        pack_value(value)
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _short(value: object) -> str:
    try:
        shown = repr(value)
    except Exception:  # noqa: BLE001 - a broken __repr__ must not hide the message
        shown = ""
    kind = type(value).__name__
    return f"a {kind}" if not shown or len(shown) > 80 else f"{shown} (a {kind})"
