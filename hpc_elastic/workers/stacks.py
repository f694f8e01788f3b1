"""Stack dumps of workers: taken before they are ended, and the line in them that a person looks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hpc_elastic.workers import bootstrap, tree
from hpc_elastic.workers.group import WorkerGroup

_MOST_BYTES: Final = 256 * 1024
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
_FRAME: Final = re.compile(r'^ +File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$', re.MULTILINE)
_OF_PYTHON: Final = re.compile(r"^<|/(?:lib|lib64)/python3?[.\d]*/|/site-packages/|/hpc_elastic/workers/")
_NO_PYTHON: Final = "it is no Python program, so it wrote no stacks"
_NO_HANDLER: Final = "it runs no Python script now that could have written its stacks"
_NO_ANSWER: Final = {
    "T": "it is stopped (state T, as by SIGSTOP), so it could not write its stacks",
    "t": "it is held by a debugger (state t), so it could not write its stacks",
}


class StackDump:
    """The stacks of all running workers of a group, asked for at once; nothing here waits."""

    def __init__(self, group: WorkerGroup, files: Mapping[int, Path]) -> None:
        self._group = group
        self._pids = {slot: pid for slot, pid in group.pids().items() if slot in files}
        self._files = files
        self._began_at = {slot: _size(path) for slot, path in files.items()}
        self._sizes = dict(self._began_at)
        group.dump_stacks()

    def is_complete(self) -> bool:
        """Whether everybody that can write its stacks has done so, by this look and the one before it."""
        if not self._group.dumps_stacks:
            return True
        before, self._sizes = self._sizes, {slot: _size(path) for slot, path in self._files.items()}
        return all(
            before[slot] == self._sizes[slot] > self._began_at[slot]
            for slot, pid in self._pids.items()
            if can_answer(pid)
        )

    def about(self, slot: int) -> str:
        """Where this worker is, in words; or why that is not known."""
        if not self._group.dumps_stacks:
            return _NO_PYTHON
        where = place_in(self._text(slot))
        if where:
            return f"it is at {where}"
        seen = tree.look_at(self._pids[slot])
        if seen is None:
            return "it has ended meanwhile"
        if seen.state == "D":
            return f"it is stuck in the kernel ({tree.describe([seen])}), so it could not write its stacks"
        if seen.state in _NO_ANSWER:
            return _NO_ANSWER[seen.state]
        return "it wrote no stacks" if can_answer(self._pids[slot]) else _NO_HANDLER

    def _text(self, slot: int) -> str:
        try:
            with open(self._files[slot], "rb") as file:
                file.seek(self._began_at[slot])
                return file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            return ""


def can_answer(pid: int) -> bool:
    """Whether a process can write its stacks now: it has the handler, and is neither stopped nor stuck."""
    seen = tree.look_at(pid)
    can_act = seen is not None and seen.is_alive and seen.state not in "TtD"
    return can_act and tree.catches(pid, bootstrap.DUMP_SIGNAL)


def place_in(text: str) -> str:
    """Where the main thread of a dump by `faulthandler` is: file, line and function; empty without one.

    The innermost frame of the user's own code, for it says more than the line of a library in which it waits.
    """
    main = _THREAD.split(text)[-1]  # threads are listed from the youngest to the main one
    frames = list(_FRAME.finditer(main)) if _THREAD.search(text) else []
    own = [each for each in frames if not _OF_PYTHON.search(each["file"])]
    if not frames:
        return ""
    frame = (own or frames)[0]
    return f"{frame['file']} line {frame['line']} in {frame['name']}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
