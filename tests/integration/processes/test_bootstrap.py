"""A script under our bootstrap cannot tell: everything it sees and shows is what plain Python does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpc_elastic.workers import bootstrap
from hpc_elastic.workers.process import Kind, Program
from tests.integration.processes.bench import PATIENCE_S, PYTHON
from tests.waiting import wait_until

SCRIPTS: dict[str, str | bytes] = {
    "looks around": (
        "import sys\n"
        "print(sys.argv, sys.path, sys.orig_argv[1:], sys.flags)\n"
        "print(sorted(globals()), __name__, __file__, __package__, __doc__)\n"
        "print(type(__spec__), type(__loader__))\n"
        "print(sys.modules['__main__'].__dict__ is globals(), __builtins__)\n"
    ),
    "has a neighbour": "import neighbour\nprint(neighbour.__file__)\n",
    "raises": "def f():\n    raise ValueError('é')\nf()\n",
    "raises from": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n",
    "raises while it handles": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('k')\n",
    "has bad syntax": "x = 1\ny = = 2\n",
    "declares its encoding": "# -*- coding: latin-1 -*-\nprint('\xe9')\n".encode("latin-1"),
    "exits with a number": "import sys; sys.exit(3)",
    "exits with a text": "import sys; sys.exit('no data')",
    "exits with nothing": "import sys; sys.exit()",
    "is interrupted": "raise KeyboardInterrupt",
    "has its own hook": "import sys\nsys.excepthook = lambda *a: print(a[0], a[2].tb_lineno)\n1 / 0\n",
    "has a postlude": "import atexit, threading\natexit.register(print, 'end')\n1 / 0\n",
    "leaves a thread": (
        "import threading\n"
        "def late():\n"
        "    threading.main_thread().join()\n"
        "    print('late')\n"
        "threading.Thread(target=late).start()\n"
        "print('early')\n"
    ),
    "warns": "import warnings\nwarnings.warn('careful')\n",
    "has features": "def f(x: undefined): return f.__annotations__\nprint('never')\n",
    "has annotations": "x: int = 3\nprint(__annotations__)\n",
    "spawns": (
        "import multiprocessing as mp, pickle\n"
        "class Thing: pass\n"
        "def work(n): return n * 2\n"
        "if __name__ == '__main__':\n"
        "    print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, [1, 2]))\n"
    ),
    "inspects itself": "import inspect, sys\nprint(inspect.getsource(sys.modules['__main__']))\n",
}


def outcome(command: list[str], cwd: Path) -> tuple[int, str, str]:
    env = {key: value for key, value in os.environ.items() if key != bootstrap.ERROR_FILE_VARIABLE}
    ended = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


def under_bootstrap(kind: Kind, target: str, *args: str) -> list[str]:
    return Program(kind, target, args).argv(PYTHON)


def written(directory: Path, script: str | bytes) -> None:
    (directory / "neighbour.py").touch()
    content = script if isinstance(script, bytes) else script.encode()
    (directory / "train.py").write_bytes(content)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
@pytest.mark.parametrize("as_path", ["train.py", "./train.py", "absolute", "link.py"])
def test_a_script_runs_as_under_plain_python(tmp_path: Path, name: str, as_path: str) -> None:
    (tmp_path / "real").mkdir()
    written(tmp_path / "real", SCRIPTS[name])
    (tmp_path / "real" / "link.py").symlink_to("train.py")
    target = str(tmp_path / "real" / "train.py") if as_path == "absolute" else as_path

    plain = outcome([PYTHON, target, "--lr", "0.1"], tmp_path / "real")
    ours = outcome(under_bootstrap(Kind.SCRIPT, target, "--lr", "0.1"), tmp_path / "real")

    assert ours == plain


@pytest.mark.parametrize(
    "name", ["looks around", "has a neighbour", "raises", "exits with a number", "has bad syntax"]
)
def test_a_module_runs_as_under_plain_python(tmp_path: Path, name: str) -> None:
    written(tmp_path, SCRIPTS[name])

    plain = outcome([PYTHON, "-m", "train", "--lr", "0.1"], tmp_path)

    assert outcome(under_bootstrap(Kind.MODULE, "train", "--lr", "0.1"), tmp_path) == plain


@pytest.mark.parametrize("target", ["absent.py", "absent/train.py", "locked/train.py", "train.py/more"])
def test_a_script_that_is_not_there_is_told_as_plain_python_tells_it(tmp_path: Path, target: str) -> None:
    written(tmp_path, "pass")

    plain = outcome([PYTHON, target], tmp_path)

    assert plain[0] == 2
    assert outcome(under_bootstrap(Kind.SCRIPT, target), tmp_path) == plain


@pytest.mark.parametrize("module", ["no_such_module", "no_such.module", "train.more"])
def test_a_module_that_is_not_there_is_told_as_plain_python_tells_it(tmp_path: Path, module: str) -> None:
    written(tmp_path, "pass")

    plain = outcome([PYTHON, "-m", module], tmp_path)

    assert plain[0] == 1
    assert outcome(under_bootstrap(Kind.MODULE, module), tmp_path) == plain


def test_a_folder_with_a_main_module_runs_as_under_plain_python(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "__main__.py").write_text("import sys, other\nprint(sys.argv, sys.path[0], __file__)\n1 / 0\n")
    (folder / "other.py").touch()

    for target in ("app", "./app/", "sub/../app", str(folder)):
        plain = outcome([PYTHON, target, "x"], tmp_path)

        assert outcome(under_bootstrap(Kind.SCRIPT, target, "x"), tmp_path) == plain


def test_the_only_trace_of_us_in_a_script_is_two_frames_below_it(tmp_path: Path) -> None:
    written(tmp_path, "import sys\nf = sys._getframe()\nwhile f := f.f_back:\n    print(f.f_code.co_name)\n")

    shown = outcome(under_bootstrap(Kind.SCRIPT, "train.py"), tmp_path)[1]

    assert shown.split() == ["_run_script", "_watch_errors", "main", "<module>"]


def test_a_worker_starts_with_hardly_an_import_more_than_plain_python(tmp_path: Path) -> None:
    written(tmp_path, "import sys; print(*sys.modules)")

    plain = set(outcome([PYTHON, "train.py"], tmp_path)[1].split())
    ours = set(outcome(under_bootstrap(Kind.SCRIPT, "train.py"), tmp_path)[1].split())

    assert ours - plain <= {"__future__", "_ctypes", "faulthandler"}


def test_a_worker_whose_agent_is_gone_before_it_could_bind_itself_ends(tmp_path: Path) -> None:
    written(tmp_path, "print('never')")
    nobody = "1" if os.getpid() != 1 else "2"

    command = [PYTHON, bootstrap.__file__, nobody, "--script", "train.py"]

    assert outcome(command, tmp_path) == (-9, "", "")


def test_stop_signals_reach_a_worker_whose_agent_ignores_or_blocks_them(
    tmp_path: Path,
) -> None:
    written(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nprint('never')\n")
    worker = under_bootstrap(Kind.SCRIPT, "train.py")[1:]
    parent = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])\n"
        f"worker = [sys.executable, {worker[0]!r}, str(os.getpid()), *{worker[2:]!r}]\n"
        "print(subprocess.run(worker).returncode)\n"
    )

    assert outcome([PYTHON, "-c", parent], tmp_path) == (0, "-15\n", "")


def test_lines_appear_as_they_are_printed(tmp_path: Path) -> None:
    written(tmp_path, "import sys\nprint('first')\nsys.stdin.read()\n")
    log = tmp_path / "log"

    with open(log, "wb") as file:
        command = under_bootstrap(Kind.SCRIPT, "train.py")
        worker = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=file)
    try:
        wait_until(lambda: log.read_text() == "first\n", timeout_s=PATIENCE_S, what="the first line")
    finally:
        worker.communicate()
