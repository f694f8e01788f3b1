"""A process that takes part in a run until it is closed: `walker.py RECORD PLACE NODES`."""

from __future__ import annotations

import select
import sys
from pathlib import Path

from hpc_elastic.backends.file import FileBackend
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Cause, Outcome
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings

ROUND_S = 4.0


def settings(nodes: int) -> Settings:
    return Settings(
        min_nodes=2,
        max_nodes=nodes,
        expected_nodes=nodes,
        heartbeat_s=0.5,
        last_call_s=1.0,
        join_window_s=0.2,
        shutdown_timeout_s=3.0,
        allow_loopback=True,
    )


def walk(record: Path, place: int, nodes: int) -> int:
    seat = Seat(f"n{place}", place, "host", "127.0.0.1", slots=1)
    member = Membership.open(FileBackend(record), JobStart("c", "1"), seat, settings(nodes))
    member.start()
    member.join()
    wanted, began_s = 1, 0.0
    while True:
        select.select([member.fileno()], [], [], 0.2)
        member.acknowledge()
        now_s, standing = SYSTEM_CLOCK.monotonic_s(), member.standing()
        if standing.error is not None or standing.closed is not None:
            done = standing.closed is not None and standing.closed.succeeded
            member.leave(Outcome.DONE if done else Outcome.UNSAVED, str(standing.error), 5.0)
            return 0 if done else 1
        if standing.round is None or standing.round.number < wanted:
            began_s = now_s
        elif standing.end is not None or standing.drain is not None:
            if standing.end is None:
                member.report_step(None)
                member.end_round(Cause.DRAIN)
            member.join()
            wanted = standing.round.number + 1
        elif now_s - began_s > ROUND_S:
            member.mark_done()


if __name__ == "__main__":
    sys.exit(walk(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
