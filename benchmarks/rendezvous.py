"""How long N agents take to agree on a round, with how much work: ours beside torchrun's, in the same run.

    python -m benchmarks.rendezvous [--nodes 2,8,32,128] [--repetitions 3] [--idle-seconds 60] [--write]

The agents are processes on this machine, over one directory or over loopback, all ready before the start.
The contenders take turns, so that a busy moment of the machine meets all of them. Ends with status 1 when a
goal is missed. Where torch is not installed only our own numbers are given.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks import measured
from benchmarks.comparison import GOALS, Results, missed_goals, ratios, shown
from benchmarks.contenders import CONTENDERS, LOCAL, Contender, Meeting
from benchmarks.gathering import Gathering, crowd
from benchmarks.idle import Idle, measure_idle, why_not
from hpc_elastic.testing.etcd_member import program
from hpc_elastic.testing.etcd_server import EtcdOptions, EtcdServer

ENOUGH_S: Final = 20.0


def measure_once(contender: Contender, meeting: Meeting) -> Gathering:
    """One gathering of fresh processes, in a process of its own that has only this contender imported."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _gather(contender, meeting, write_fd)
    os.close(write_fd)
    with open(read_fd, "rb") as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    if not said:
        raise RuntimeError(f"the process that measures {contender.name} ended without a word")
    return Gathering(**json.loads(said))


def _gather(contender: Contender, meeting: Meeting, write_fd: int) -> None:
    try:
        _hide_chatter(meeting.folder)
        with crowd(meeting.nodes, contender.prepare(meeting)) as members:
            found = members.gather()
            os.write(write_fd, json.dumps(asdict(found)).encode())
    finally:
        os._exit(0)


def _hide_chatter(folder: Path) -> None:
    """torch's C++ tells of every connection that ends; it goes into a file."""
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)


def measure(sizes: Sequence[int], repetitions: int, contenders: Sequence[Contender], folder: Path) -> Results:
    """Each contender for each size, in turns."""
    results: Results = {}
    with _etcd(folder / "etcd", any(one.needs_etcd for one in contenders)) as endpoint:
        for nodes in sizes:
            for repetition in range(repetitions):
                for contender in contenders:
                    before = results.get(contender.name, {}).get(nodes, [])
                    if not contender.is_ours and any(map(_lasts_too_long, before)):
                        continue
                    place = folder / f"{contender.name.replace(' ', '-')}-{nodes}-{repetition}"
                    meeting = Meeting(nodes, place, endpoint, _free_port())
                    found = measure_once(contender, meeting)
                    results.setdefault(contender.name, {}).setdefault(nodes, []).append(found)
                    print(shown(contender.name, nodes, found), flush=True)
    return results


def _lasts_too_long(one: Gathering) -> bool:
    """Whether once is enough: it would fail again, or the whole would take more than ten minutes."""
    return bool(one.failed) or one.seconds > ENOUGH_S


@contextlib.contextmanager
def _etcd(folder: Path, is_needed: bool) -> Iterator[str]:
    if not is_needed:
        yield ""
        return
    server = EtcdServer.start(folder, EtcdOptions(v2=True))
    try:
        yield server.endpoint
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        port: int = probe.getsockname()[1]
        return port


def present(wanted: str) -> list[Contender]:
    """Those of the contenders that this machine has what they need for."""
    absent = [] if find_spec("torch") else [one for one in CONTENDERS if not one.is_ours]
    absent += [] if program() else [one for one in CONTENDERS if one.needs_etcd]
    names = {name.strip() for name in wanted.split(",") if name.strip()}
    return [one for one in CONTENDERS if one not in absent and (not names or one.name in names)]


def as_json(results: Results, idle: Idle | None, missed: Sequence[str]) -> dict[str, Any]:
    return {
        "what": "seconds until all of N agents have returned from next_rendezvous(), processor seconds and "
        "backend operations of all of them together, and what an idle member asks of the filesystem",
        "goals": GOALS,
        "missed": list(missed),
        **ratios(results),
        "gatherings": {
            name: {str(nodes): [asdict(one) for one in found] for nodes, found in sizes.items()}
            for name, sizes in results.items()
        },
        "idle": asdict(idle) if idle else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", default="2,8,32,128", help="sizes, with commas")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--contenders", default="", help=", ".join(one.name for one in CONTENDERS))
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="0: do not watch an idle member")
    parser.add_argument("--directory", type=Path, help="where the shared directory is made, else in $TMPDIR")
    parser.add_argument(
        "--write", action="store_true", help="keep the result in docs/measured/rendezvous.json"
    )
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="rendezvous-", dir=options.directory) as scratch:
        sizes = [int(size) for size in options.nodes.split(",")]
        results = measure(sizes, options.repetitions, present(options.contenders), Path(scratch))
        idle = _watch(Path(scratch) / "idle", options.idle_seconds)
    for sentence in _summary(results, idle):
        print(sentence)
    missed = missed_goals(results, idle)
    for sentence in missed:
        print(f"goal missed: {sentence}")
    if options.write:
        print(f"written to {measured.write('rendezvous', as_json(results, idle, missed))}")
    return 1 if missed else 0


def _watch(folder: Path, seconds: float) -> Idle | None:
    if not seconds:
        return None
    if why_not():
        print(f"an idle member is not watched: {why_not()}")
        return None
    folder.mkdir()
    return measure_idle(folder, 8, seconds)


def _summary(results: Results, idle: Idle | None) -> Iterator[str]:
    found = ratios(results)
    for name, sizes in found["time_ratios"].items():
        yield f"{name}: " + ", ".join(f"{ratio:.3f} at {nodes}" for nodes, ratio in sizes.items())
    for name, line in found["operations"].items():
        formula = f"{line['constant']:.0f} + {line['per_node']:.1f} N"
        yield (
            f"{name}: operations = {formula}, R^2 {line['r_squared']:.4f}; from 8 nodes on they grow with "
            f"N^{line['exponent']:.2f}, {line['growth']:.2f} times as many per node in the largest world"
        )
    if idle is not None:
        yield (
            f"idle member of {idle.nodes}: {idle.calls_per_s:.2f} filesystem calls a second {idle.calls}; "
            f"the leader, which watches all: {idle.leader_calls_per_s:.2f}; a notice reached all in "
            f"{idle.notice_s:.2f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
