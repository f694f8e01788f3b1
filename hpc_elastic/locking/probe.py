"""What a directory gives, found by trying it: some twenty calls, a millisecond on a local disk.

Whether a file system can hold a run record is not read from its name. `record` keeps the first answer
for the run, because all nodes must create in the same way: a link would not be stopped by a folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import HpcElasticError
from hpc_elastic.locking import exclusive
from hpc_elastic.locking.exclusive import NOT_SUPPORTED, Link, Way
from hpc_elastic.locking.report import MAX_BYTES, NOT_ASKED, DirectoryReport
from hpc_elastic.values import replace

REPORT: Final = "probe"
FLOCK: Final = "flock"
_REMEDY: Final = "set HPC_ELASTIC_HOME to a directory on a shared POSIX file system"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class DirectoryRefused(HpcElasticError):
    """A directory cannot hold a run record; `report` says what was found."""

    def __init__(self, report: DirectoryReport) -> None:
        super().__init__(report.refusal)
        self.report = report


def examine(directory: Path, link: Link = os.link) -> DirectoryReport:
    """Try what a run record needs in `directory`, which exists; nothing is left in it.

    Raises `OSError` where a call fails in a way that says nothing about the file system: no space, a
    lost file handle, an input/output error. Then it is to be tried again.
    """
    room = directory / f".probe-{os.getpid():x}-{os.urandom(6).hex()}"
    room.mkdir(mode=0o700)
    try:
        return _examine(directory, room, link)
    finally:
        _clear(room)


def look_closer(report: DirectoryReport, *, patience_s: float) -> DirectoryReport:
    """The same, with what takes longer and no agent has to know: the speed of a durable file, and `flock`.

    `flock` is asked in a child process: some 50 ms, and `patience_s` at most.
    """
    from hpc_elastic.locking.locks import ask_flock

    directory = Path(report.directory)
    trial = directory / f".probe-{os.getpid():x}-{os.urandom(6).hex()}"
    began_s = SYSTEM_CLOCK.monotonic_s()
    exclusive.write_new(trial, b"x", flush=True)
    create_s = round(SYSTEM_CLOCK.monotonic_s() - began_s, 6)
    trial.unlink()
    return replace(report, create_s=create_s, flock=ask_flock(directory, patience_s=patience_s))


def recorded(root: Path) -> DirectoryReport | None:
    """The report that stands in the record at `root`; None where there is none, or none to be read."""
    try:
        with open(root / REPORT / exclusive.VALUE, "rb") as stored:
            return DirectoryReport.decode(stored.read(MAX_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def settle(root: Path, link: Link = os.link) -> DirectoryReport:
    """The report of the run: the one that stands in the record, else what is found now, and put there.

    Raises `DirectoryRefused` where the directory cannot be trusted, `OSError` like `examine`.
    """
    found = recorded(root)
    if found is not None:  # whoever owns the directory may have put it there, and let others in since
        owned = root.stat()
        found = replace(found, owner=owned.st_uid, mode=stat.S_IMODE(owned.st_mode))
        refusal = _not_private(found)
        if refusal:
            raise DirectoryRefused(replace(found, refusal=refusal))
        return found
    found = examine(root, link)
    if found.refusal:
        raise DirectoryRefused(found)
    return _record(root, found)


def settle_flock(root: Path, *, patience_s: float) -> str:
    """What `flock` is worth at `root`, as `locks.ask_flock` says it: asked once, and kept in the record.

    So of all processes of a run one at most waits for a lock that hangs. Raises `OSError`.
    """
    kept = root / REPORT / FLOCK
    try:
        with open(kept, encoding="utf-8") as stored:
            return stored.read(100)
    except (FileNotFoundError, NotADirectoryError):
        pass
    from hpc_elastic.locking.locks import ask_flock

    answer = ask_flock(root, patience_s=patience_s)
    trial = root / f".probe-{os.getpid():x}-{os.urandom(6).hex()}"
    exclusive.write_new(trial, answer.encode(), flush=False)
    trial.replace(kept)
    return answer


def _record(root: Path, report: DirectoryReport) -> DirectoryReport:
    """Put it there, or take what another has put there meanwhile.

    A folder is not renamed over one that holds a report, and a link in it is refused if one is there:
    of two hosts that find different ways one counts for both.
    """
    folder = root / f".probe-{os.getpid():x}-{os.urandom(6).hex()}"
    folder.mkdir(mode=0o700)
    try:
        exclusive.write_new(folder / exclusive.VALUE, report.encode(), flush=False)
        if report.has_links:
            (root / REPORT).mkdir(mode=0o700, exist_ok=True)
            exclusive.by_link(folder / exclusive.VALUE, root / REPORT / exclusive.VALUE)
        else:
            exclusive.rename_folder(folder, root / REPORT)
    finally:
        exclusive.remove_folder(folder)
    return recorded(root) or report


def _examine(directory: Path, room: Path, link: Link) -> DirectoryReport:
    for name in ("a", "b"):
        exclusive.write_new(room / name, name.encode(), flush=False)
    kind, source = mount_of(directory)
    owned = directory.stat()
    space = os.statvfs(directory)
    has_links = _gives(lambda: _links(room, link))
    has_folders = not has_links and _gives(lambda: _renames_folders(room))
    report = DirectoryReport(
        directory=str(directory),
        host=os.uname().nodename,
        kind=kind,
        source=source,
        way=Way.LINK.value if has_links else Way.FOLDER.value if has_folders else "",
        has_links=has_links,
        has_replacing_rename=_gives(lambda: _replaces(room)),
        flock=NOT_ASKED,
        create_s=-1.0,
        free_bytes=space.f_bavail * space.f_frsize if space.f_blocks else -1,
        free_files=space.f_favail if space.f_files else -1,
        owner=owned.st_uid,
        mode=stat.S_IMODE(owned.st_mode),
    )
    return replace(report, refusal=_refusal(report))


def _not_private(report: DirectoryReport) -> str:
    where = f"{report.directory} ({report.kind or 'unknown file system'})"
    if report.owner != os.geteuid():
        return f"{where} belongs to uid {report.owner}, not to you ({os.geteuid()}); {_REMEDY}"
    if report.mode & _OTHERS_WRITE:
        return f"{where} has mode {report.mode:04o}, so others could change the run; `chmod go-w` it"
    return ""


def _refusal(report: DirectoryReport) -> str:
    if said := _not_private(report):
        return said
    where = f"{report.directory} ({report.kind or 'unknown file system'})"
    if not report.has_replacing_rename:
        return f"{where} cannot hold a run record: a rename does not replace a file as a whole; {_REMEDY}"
    if not report.way:
        return (
            f"{where} cannot hold a run record: of two that create the same name both succeed, by hard "
            f"link and by the renaming of a folder; {_REMEDY}"
        )
    return ""


def _gives(attempt: Callable[[], bool]) -> bool:
    """What an attempt shows; a call that does not exist there is a no."""
    try:
        return attempt()
    except OSError as failed:
        if failed.errno in NOT_SUPPORTED:
            return False
        raise


def _links(room: Path, link: Link) -> bool:
    """A link from one folder into another shows the whole file, and a second one is refused."""
    inner = room / "inner"
    inner.mkdir(mode=0o700)
    first = exclusive.by_link(room / "a", inner / "name", link)
    second = exclusive.by_link(room / "b", inner / "name", link)
    return first and not second and (inner / "name").read_bytes() == b"a"


def _renames_folders(room: Path) -> bool:
    """A folder gets a free name, and not that of another that holds something."""
    for name in ("one", "two"):
        (room / name).mkdir(mode=0o700)
        exclusive.write_new(room / name / exclusive.VALUE, name.encode(), flush=False)
    first = exclusive.rename_folder(room / "one", room / "taken")
    second = exclusive.rename_folder(room / "two", room / "taken")
    return first and not second and (room / "taken" / exclusive.VALUE).read_bytes() == b"one"


def _replaces(room: Path) -> bool:
    """A file renamed over another takes its place, and its old name is gone."""
    (room / "b").replace(room / "a")
    return (room / "a").read_bytes() == b"b" and not (room / "b").exists()


def mount_of(directory: Path) -> tuple[str, str]:
    """File system and source of the mount that holds `directory`, by the mount table of this process."""
    best, found = "", ("", "")
    place = os.path.realpath(directory)
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4]
        if "\\" in point:
            point = point.encode().decode("unicode_escape")
        if (place + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            kind, source = right.split(" ")[:2]
            best, found = point, (kind, source)
    return found


def _clear(room: Path) -> None:
    """Remove what was tried; what cannot be removed is garbage with a name of its own."""
    for place, folders, files in os.walk(room, topdown=False):
        for name, remove in [*((name, os.unlink) for name in files), *((name, os.rmdir) for name in folders)]:
            with suppress(OSError):
                remove(os.path.join(place, name))  # noqa: PTH118 - os.walk gives strings
    with suppress(OSError):
        room.rmdir()
