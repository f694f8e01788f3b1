"""How workers end by themselves, and what the agent learns of it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hpc_elastic.workers.failures import ProcessFailure
from hpc_elastic.workers.group import GroupPhase, WorkerExit
from tests.integration.processes.bench import PATIENCE_S, PYTHON, Bench, until_exited, until_gone
from tests.waiting import wait_until

SEGFAULT = "import ctypes; print('before', flush=True); ctypes.string_at(0)"
FAIL = """
def load(batch):
    raise RuntimeError(f"batch {batch} is empty")

load(7)
"""


def failure(bench: Bench, ended: WorkerExit) -> ProcessFailure:
    return ProcessFailure.read(
        local_rank=ended.local_rank,
        global_rank=ended.global_rank,
        pid=ended.pid,
        exitcode=ended.returncode,
        error_file=bench.error_file(ended.local_rank),
        now_s=0.0,
    )


@pytest.mark.parametrize(
    ("script", "returncode", "message"),
    [
        ("pass", 0, "exited with status 0"),
        ("raise SystemExit(42)", 42, "exited with status 42"),
        ("import os; os._exit(3)", 3, "exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", -9, "killed by SIGKILL (signal 9)"),
        ("import os; os.kill(os.getpid(), 15)", -15, "killed by SIGTERM (signal 15)"),
        ("import os; os.abort()", -6, "killed by SIGABRT (signal 6)"),
        (SEGFAULT, -11, "killed by SIGSEGV (signal 11)"),
        (FAIL, 1, "RuntimeError: batch 7 is empty"),
        ("raise SystemExit('no data in /data')", 1, "SystemExit: no data in /data"),
        ("import no_such_module", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = = 1", 1, "invalid syntax"),
        ("raise KeyboardInterrupt", -2, "KeyboardInterrupt"),
    ],
)
def test_a_worker_that_ends_is_reported_with_its_status_and_its_cause(
    bench: Bench, script: str, returncode: int, message: str
) -> None:
    group = bench.start(bench.script(script))

    state = until_exited(group)

    (ended,) = state.exits
    assert state.phase is GroupPhase.EXITED
    assert (ended.returncode, ended.was_asked, ended.global_rank) == (returncode, False, 10)
    assert message in failure(bench, ended).message
    assert (state.first_failure is None) == (returncode == 0)


def test_a_crash_in_native_code_leaves_the_python_line_in_the_log(bench: Bench) -> None:
    until_exited(bench.start(bench.script(SEGFAULT)))

    assert "Fatal Python error: Segmentation fault" in bench.err()
    assert "train.py" in bench.err()
    assert bench.out() == "before\n"


def test_an_exception_is_captured_without_a_decorator(bench: Bench) -> None:
    state = until_exited(bench.start(bench.script(FAIL)))

    told = failure(bench, state.exits[0])
    assert told.traceback == bench.err()
    assert "bootstrap" not in told.traceback
    assert "line 5, in <module>" in told.traceback


def test_an_exception_in_a_forked_child_is_not_taken_for_the_workers(bench: Bench) -> None:
    script = "import os\nif os.fork() == 0:\n    raise ValueError('child')\nos.wait()\nprint('went on')"

    state = until_exited(bench.start(bench.script(script)))

    assert state.exits[0].returncode == 0
    assert bench.out() == "went on\n"
    assert not bench.error_file().exists()


@pytest.mark.parametrize(("program", "status"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_run_ends_as_in_a_shell(bench: Bench, program: str, status: int) -> None:
    state = until_exited(bench.start(bench.command(program)))

    assert state.exits[0].returncode == status
    assert program in bench.err()
    assert program in failure(bench, state.exits[0]).message


def test_a_command_is_run_as_it_is(bench: Bench) -> None:
    state = until_exited(bench.start(bench.command("sh", "-c", 'echo "$1"; exit 5', "sh", "a b")))

    assert state.exits[0].returncode == 5
    assert bench.out() == "a b\n"


def test_what_a_worker_printed_is_complete_however_it_ends(bench: Bench) -> None:
    script = "import os\nfor n in range(20_000):\n    print('line', n)\nos.kill(os.getpid(), 9)"

    until_exited(bench.start(bench.script(script)))

    assert bench.out().splitlines() == [f"line {n}" for n in range(20_000)]


def test_logs_are_appended_to_and_never_cut(bench: Bench) -> None:
    for _ in range(2):
        until_exited(bench.start(bench.script("print('life')")))

    assert bench.out() == "life\nlife\n"


def test_a_worker_is_in_a_session_of_its_own_and_has_no_input(bench: Bench) -> None:
    script = "import os, sys\nprint(os.getsid(0) == os.getpgrp() == os.getpid(), repr(sys.stdin.read()))"

    until_exited(bench.start(bench.script(script)))

    assert bench.out() == "True ''\n"


def test_a_worker_inherits_no_descriptor_but_the_page(bench: Bench, tmp_path: Path) -> None:
    script = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])"
    with open(tmp_path / "open", "wb"):
        until_exited(bench.start(bench.script(script)))

    assert bench.out() == "[0, 1, 2]\n"


def test_notice_signals_do_not_hurt_workers_at_any_moment(bench: Bench) -> None:
    for _ in range(20):
        group = bench.start(bench.script("import time; print('up'); time.sleep(0.02)"))
        for signum in (signal.SIGUSR1, signal.SIGUSR2):
            group.signal(signum)

        assert until_exited(group).exits[0].returncode == 0


def test_notice_signals_do_not_hurt_the_helpers_of_workers(bench: Bench) -> None:
    script = (
        "import subprocess, sys\n"
        "helper = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print('up')\n"
        "import time; time.sleep(0.2)\n"
        "helper.communicate(b'go\\n')\n"
        "sys.exit(helper.returncode)"
    )
    group = bench.start(bench.script(script))
    bench.wait_for("up")

    group.signal(signal.SIGUSR1)

    assert until_exited(group).exits[0].returncode == 0


def test_a_script_may_take_the_notice_signals_back(bench: Bench) -> None:
    script = (
        "import signal, time\ntold = []\nsignal.signal(signal.SIGUSR1, lambda *_: told.append('told'))\n"
        "print('up')\nwhile not told: time.sleep(0.02)\nprint(*told)"
    )
    group = bench.start(bench.script(script))
    bench.wait_for("up")

    group.signal(signal.SIGUSR1)

    assert until_exited(group).exits[0].returncode == 0
    assert bench.out() == "up\ntold\n"


def test_a_worker_that_cannot_be_started_takes_the_others_with_it(bench: Bench) -> None:
    starts = bench.starts(3, {})
    blocked = bench.directory / "file"
    blocked.touch()
    (bench.directory / "2.out").symlink_to(blocked / "no")

    with pytest.raises(OSError, match=r"2\.out"):
        bench.start(bench.command(PYTHON, "-c", "import time; time.sleep(600)"), workers=len(starts))

    wait_until(lambda: not bench.left(), timeout_s=PATIENCE_S, what="the killed ones have ended")


def test_50_restarts_leave_no_descriptor_and_no_process(bench: Bench) -> None:
    program = bench.command("true")
    fds = Path("/proc/self/fd")
    before = sorted(fds.iterdir())

    for _ in range(50):
        group = bench.start(program, workers=2)
        until_exited(group)
        assert until_gone(group, grace_s=1).phase is GroupPhase.GONE

    # Awaited: other threads of this process open and close files of their own.
    wait_until(lambda: sorted(fds.iterdir()) == before, PATIENCE_S, "the same descriptors as before are open")
    assert bench.left() == []
