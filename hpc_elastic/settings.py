"""Default durations and limits, in one place; every unit is in the name."""

from __future__ import annotations

from typing import Final

HEARTBEAT_S: Final = 5.0
LIVENESS_HEARTBEATS: Final = 3
JOIN_TIMEOUT_S: Final = 600.0
LAST_CALL_S: Final = 30.0
CLOSE_TIMEOUT_S: Final = 30.0
JOIN_WINDOW_S: Final = 1.0
STORE_LOST_S: Final = 300.0

MAX_RESTARTS: Final = 3
RESTART_BACKOFF_S: Final = 1.0  # before the restart after the second failure in a row; it doubles from there
LONGEST_BACKOFF_S: Final = 60.0
SAME_FAILURES: Final = 3  # in a row and without progress end the run
NODE_FAILURES: Final = 3  # of one node, twice as many as of any other, leave it out
QUICK_FAILURE_S: Final = 60.0  # a worker without steps that fails sooner has done nothing
MONITOR_INTERVAL_S: Final = 0.1
SHUTDOWN_TIMEOUT_S: Final = 30.0
EXIT_BARRIER_TIMEOUT_S: Final = 300.0

MOST_WORKERS: Final = 4096  # of one node: more is a mistyped number

# Of more attempts than this the oldest ones' error files, notices and health reports go; logs stay.
KEPT_ATTEMPTS: Final = 50
