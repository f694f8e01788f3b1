"""A process that takes part in a run until it is closed: `walker.py RECORD PLACE NODES`.

It works until there is a file `finish` beside the record, then it is done.
"""

from __future__ import annotations

import select
import sys
from pathlib import Path

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Cause, Outcome
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings


def finish_of(record: Path) -> Path:
    """Where a file tells all processes to be done."""
    return record.with_name("finish")


def settings(nodes: int) -> Settings:
    return Settings(
        min_nodes=2,
        max_nodes=nodes,
        expected_nodes=nodes,
        heartbeat_s=1.0,
        last_call_s=2.0,
        join_window_s=0.2,
        shutdown_timeout_s=3.0,
        allow_loopback=True,
    )


def walk(record: Path, place: int, nodes: int) -> int:
    seat = Seat(f"n{place}", place, "host", "127.0.0.1", slots=1)
    member = Membership.open(FileBackend(record), JobStart("c", "1"), seat, settings(nodes))
    member.start()
    member.join()
    wanted = 1
    while True:
        select.select([member.fileno()], [], [], 0.2)
        member.acknowledge()
        standing = member.standing()
        if standing.error is not None or standing.closed is not None:
            done = standing.closed is not None and standing.closed.succeeded
            member.leave(Outcome.DONE if done else Outcome.UNSAVED, str(standing.error), 30.0)
            return 0 if done else 1
        if standing.round is None or standing.round.number < wanted:
            continue
        if standing.end is not None or standing.drain is not None:
            if standing.end is None:
                member.report_step(None)
                member.end_round(Cause.DRAIN)
            member.join()
            wanted = standing.round.number + 1
        elif finish_of(record).exists():
            member.mark_done()


if __name__ == "__main__":
    sys.exit(walk(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
