"""Workers that do what they should not: their agent ends in time all the same, and nothing of them stays."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.integration.agent.agents import PATIENCE_S, Agents, agents_in
from tests.waiting import wait_until

_HOSTILE: Final = {
    "ignores all signals": """
        for signum in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(signum, signal.SIG_IGN)
        """,
    "has 500 children that ignore TERM": """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(500):
            if os.fork() == 0:
                time.sleep(600)
        """,
    "starts daemons without a trace of their origin": """
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.setsid()
                    os.chdir("/")
                    os.closerange(0, 256)
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    os.execve("/bin/sleep", ["sleep", "600"], {})
                os._exit(0)
        """,
    "starts anew when it is told to end": """
        def again(signum, frame):
            if os.fork() > 0:
                os._exit(0)

        signal.signal(signal.SIGTERM, again)
        """,
    "closes its descriptors and removes its directory": """
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        os.closerange(0, 256)
        """,
    "prints without end and without a newline": """
        threading.Thread(target=lambda: [os.write(1, b"x" * 65536) for _ in range(400)], daemon=True).start()
        """,
}
_BEGIN: Final = "import os, pathlib, signal, sys, threading, time\n"
_GO_ON: Final = (
    "\npathlib.Path(os.environ['HPC_ELASTIC_RUN_DIR'], 'did it').touch()\nwhile True: time.sleep(0.1)\n"
)
# Mounted for the agent and its workers alone: it goes with them.
_ON_A_SMALL_DISK: Final = 'mkdir -p "$0" && mount -t tmpfs -o size=400k,mode=700 small "$0" && exec "$@"'


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def script(way: str) -> str:
    """A worker that does this, leaves a mark, and sleeps."""
    return _BEGIN + "\n".join(line.removeprefix(" " * 8) for line in _HOSTILE[way].splitlines()) + _GO_ON


@pytest.mark.parametrize("way", _HOSTILE)
def test_an_agent_ends_in_time_with_all_that_its_worker_has_started(agents: Agents, way: str) -> None:
    name = agents.start(0, "--shutdown-timeout", "2", "--tee", "3", agents.script(script(way)))
    wait_until((agents.run_dir / "did it").exists, PATIENCE_S, f"the worker {way}")

    began_s = time.monotonic()
    agents.signal(name, signal.SIGTERM)

    assert agents.status(name) in (80, 81)
    # Two seconds for the worker, ten for what does not die; the rest is for a busy machine.
    assert time.monotonic() - began_s < 60.0


def test_what_a_killed_guard_would_have_ended_is_ended_by_the_next_one(agents: Agents) -> None:
    """It is missed at the next round, so that a later SIGKILL of the agent leaves no helper behind."""
    script = """
import os, pathlib, subprocess, sys, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("up", flush=True)
while os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if pathlib.Path(sys.argv[1]).exists():
        raise ValueError
    time.sleep(0.02)
time.sleep(600)
"""
    may_fail = agents.folder / "may fail"
    name = agents.start(0, agents.script(script), may_fail)
    agents.wait_for_line("up", 0, 1)
    (guard,) = guards_of(agents.processes[name].pid)
    subprocess.run(["kill", "-KILL", str(guard)], check=True)
    may_fail.touch()
    agents.wait_for_line("up", 0, 2)

    agents.signal(name, signal.SIGKILL)

    agents.wait_until_nothing_is_left()
    assert agents.status(name) == -signal.SIGKILL


def guards_of(pid: int) -> list[int]:
    """The guards among the children of this process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in children if b"guard.py" in Path(f"/proc/{each}/cmdline").read_bytes()]


def can_mount() -> bool:
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "small", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def on_a_small_disk(agents: Agents, place: Path, text: str, *words: str) -> str:
    """The agent's name, whose worker has this text and which sees 400 KiB mounted at `place`."""
    if not can_mount():
        pytest.skip("only root can mount")
    inside = ("unshare", "-m", "sh", "-c", _ON_A_SMALL_DISK, str(place))
    return agents.start(0, *words, agents.script(text), inside=inside)


def test_a_full_disk_for_logs_is_the_failure_of_the_worker_and_is_named(agents: Agents) -> None:
    text = "while True: print('x' * 1000)"
    words = ("--max-restarts", "1", "--restart-backoff", "0", "--rdzv-id", "r")
    name = on_a_small_disk(
        agents, agents.folder / "logs", text, *words, "--log-dir", str(agents.folder / "logs")
    )

    assert agents.status(name) in (1, 120)  # that of Python where it cannot flush its output
    assert "[Errno 28] No space left on device" in agents.console(name).splitlines()[-1]


@pytest.mark.parametrize(("lasts", "status"), [("for a moment", 0), ("for ever", 84)])
def test_a_full_disk_for_the_record_is_waited_for_as_long_as_its_budget_lasts(
    agents: Agents, lasts: str, status: int
) -> None:
    text = """
import os, pathlib, sys, time
rest = pathlib.Path(os.environ["HPC_ELASTIC_RUN_DIR"], "rest")
with open(rest, "wb", buffering=0) as file:
    try:
        while True: file.write(b"x" * 4096)
    except OSError:
        pass
time.sleep(1.5 if sys.argv[1] == "for a moment" else 600)
rest.unlink()
"""
    budget_s = 60 if status == 0 else 2
    conf = ("--rdzv-conf", f"heartbeat=0.3,last_call=0.5,join_window=0.1,store_lost={budget_s}")
    if not can_mount():
        pytest.skip("only root can mount")
    inside = ("unshare", "-m", "sh", "-c", _ON_A_SMALL_DISK, str(agents.run_dir))
    name = agents.start(0, *conf, agents.script(text), lasts, inside=inside)

    assert agents.status(name) == status, agents.console(name)
    assert status == 0 or "No space left on device" in agents.console(name)
