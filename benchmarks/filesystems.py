"""Whole runs on difficult file systems: two FUSE mounts of one directory for each kind of fault.

`python -m benchmarks.filesystems [--write]`: the table on the screen; `--write` puts the results
into docs/measured/filesystems.json and the table into docs/filesystems.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks import measured
from hpc_elastic.errors import HpcElasticError
from hpc_elastic.locking import probe
from hpc_elastic.locking.locks import ask_flock
from hpc_elastic.testing.passthrough.faults import FLOCK_HANGS, FLOCK_LOCAL, MountFaults
from hpc_elastic.testing.passthrough.mount import mounted, why_not
from hpc_elastic.testing.passthrough.rehearsal import Rehearsal, count_together

_CACHED: Final = MountFaults.caching(30.0)
_ALL_CACHED: Final = MountFaults.caching(30.0, listings_s=30.0)
_LOST: Final = {"link": 0.2, "rename": 0.1, "create": 0.05}
_ERRORS: Final = {"ESTALE": 0.004, "EIO": 0.003, "ENOSPC": 0.002, "EDQUOT": 0.002}
_WRITERS, _EACH = 16, 3

KINDS: Final[Mapping[str, MountFaults | None]] = {
    "no mount: the disk of this machine": None,
    "nothing is cached": MountFaults(),
    "names, missing names and attributes are believed for 30 s": _CACHED,
    "listings too": _ALL_CACHED,
    "the same, without hard links": replace(_ALL_CACHED, has_links=False),
    "20 % of the replies to link are lost, 10 % to rename, 5 % to create": MountFaults(lost_replies=_LOST),
    "the same, without hard links ": MountFaults(lost_replies=_LOST, has_links=False),
    "1.1 % of all calls fail with ESTALE, EIO, ENOSPC or EDQUOT": MountFaults(errors=_ERRORS),
    "flock: ENOSYS": MountFaults(flock="ENOSYS"),
    "flock: ENOLCK": MountFaults(flock="ENOLCK"),
    "flock: EOPNOTSUPP": MountFaults(flock="EOPNOTSUPP"),
    "flock is local to a mount": MountFaults(flock=FLOCK_LOCAL),
    "flock never returns": MountFaults(flock=FLOCK_HANGS),
    "two that create one name both succeed": MountFaults(has_links=False, is_exclusive=False),
}


@dataclass(frozen=True)
class Outcome:
    """What became of one kind. `delays` are seconds until the last node knew, `slowest_s` the longest."""

    way: str
    flock: str
    run: str
    counts: str
    slowest_s: float
    delays: dict[str, float]


def measure(faults: MountFaults | None) -> Outcome:
    """One whole run, one count of many writers, and the probe, over two mounts."""
    with tempfile.TemporaryDirectory(prefix="filesystems-") as made, ExitStack() as mounts:
        source = Path(made, "source")
        source.mkdir(mode=0o700)
        views = [source, source]
        if faults is not None:
            views = [mounts.enter_context(mounted(source, Path(made, name), faults)).path for name in "ab"]
        rehearsal = Rehearsal([view / "record" for view in views])
        try:
            rehearsal.run()
            outcome = "; ".join(Rehearsal([source / "record"]).broken_laws()) or "correct"
            counts = _count([view / "store" for view in views])
        except HpcElasticError as refused:
            outcome, counts = f"refused: {refused}".replace(str(views[0]), "DIR"), "refused"
        report = probe.recorded(source / "record")
        return Outcome(
            way=report.way if report is not None else "",
            flock=_flock(views) if faults is None or not (faults.errors or faults.lost_replies) else "-",
            run=outcome,
            counts=counts,
            slowest_s=max(rehearsal.delays.values(), default=-1.0),
            delays=rehearsal.delays,
        )


def _count(roots: list[Path]) -> str:
    told = sorted(count_together(roots, writers=_WRITERS, each=_EACH))
    return "correct" if told == list(range(1, _WRITERS * _EACH + 1)) else f"wrong: {len(told)} of {told[-1:]}"


def _flock(views: list[Path]) -> str:
    alone = ask_flock(views[0], patience_s=2.0)
    together = ask_flock(views[0], views[1], patience_s=2.0)
    return alone if alone == together else f"{alone}; between mounts: {together}"


def table(kinds: Mapping[str, Mapping[str, Any]]) -> str:
    """The results as a table in Markdown."""
    rows = [
        "| what the two mounts do | creates by | `flock` | a whole run | slowest record | 16 writers count |",
        "| --- | --- | --- | --- | ---: | --- |",
    ]
    for name, one in kinds.items():
        slowest = f"{one['slowest_s']:.1f} s" if one["slowest_s"] >= 0 else ""
        run = str(one["run"]).partition(":")[0]
        cells = (name.strip(), one["way"] or "-", one["flock"], run, slowest, one["counts"])
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Measure every kind, show the table, and keep it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the results in docs/")
    args = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"nothing measured: {reason}")
        return
    kinds = {}
    for name, faults in KINDS.items():
        kinds[name] = asdict(measure(faults))
        print(f"{name}: {kinds[name]['run']}, {kinds[name]['slowest_s']} s", flush=True)
    print(table(kinds))
    if args.write:
        measured.write("filesystems", {"kinds": kinds})


if __name__ == "__main__":
    main()
