"""`make demo` tells a whole preemption on one screen, and leaves nothing when it is interrupted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).resolve().parents[3]
SCREEN_LINES = 24
SCREEN_COLUMNS = 120
STORY_S = 120  # "in about two minutes", by the story's own clock
FRESH_S = 900  # with a virtual environment, on a busy machine
# A clone has none of these.
MADE_HERE = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")

DEMO = (sys.executable, "-m", "hpc_elastic.testing.demo")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path, for sockets, that every user may enter: `tmp_path` is neither."""
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def start_demo(place: Path) -> Iterator[Start]:
    """Starts the demo with its files below `place`, in a process group of its own."""
    with ExitStack() as stack:

        def start(*options: str, command: Sequence[str] = DEMO, cwd: Path = ROOT) -> subprocess.Popen[str]:
            demo = stack.enter_context(
                subprocess.Popen(
                    [*command, *options],
                    env={**outside_of_make(), "TMPDIR": str(place)},
                    cwd=cwd,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    start_new_session=True,
                )
            )
            stack.callback(interrupt, demo)
            return demo

        yield start


def outside_of_make() -> dict[str, str]:
    """Our environment without what `make test` puts into it: a make within a make says more."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}


def interrupt(demo: subprocess.Popen[str]) -> None:
    """Ctrl-C: the whole process group hears it."""
    if demo.poll() is None:
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait(timeout=180)


def processes_that_name(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if text in words:
            found.append(words)
    return found


def leaves_no_process(place: Path) -> None:
    """What was told to end may need a moment on a busy machine."""
    wait_until(lambda: processes_that_name(str(place)) == [], 60.0, "no process is left")


@pytest.mark.needs_slurm
@pytest.mark.timeout(FRESH_S + 60)
def test_make_demo_in_a_fresh_clone_tells_a_preemption_on_a_real_slurm_on_one_screen(
    start_demo: Start, place: Path
) -> None:
    """As a newcomer sees it: nothing is set up, so the first lines say what that does."""
    clone = shutil.copytree(ROOT, place / "clone", symlinks=True, ignore=MADE_HERE)

    demo = start_demo(command=["make", "demo"], cwd=clone)
    printed, _ = demo.communicate(timeout=FRESH_S)

    assert demo.returncode == 0, printed
    set_up, begins, story = printed.partition("A training job loses its nodes")
    assert all(line.startswith("set-up: ") for line in set_up.splitlines()), set_up
    told = begins + story
    assert len(told.splitlines()) <= SCREEN_LINES
    assert max(map(len, told.splitlines())) <= SCREEN_COLUMNS
    assert float(re.findall(r"^ *([0-9.]+) s ", told, re.MULTILINE)[-1]) <= STORY_S
    stopped, resumed = re.search(r"stopped after step (\d+)", told), re.search(r"resumed at step (\d+)", told)
    assert stopped
    assert resumed
    assert int(resumed[1]) == int(stopped[1]) + 1
    assert "Restarts=1" in told
    assert "COMPLETED" in told
    leaves_no_process(place)


def test_the_demo_tells_it_on_the_local_cluster_too(start_demo: Start, place: Path) -> None:
    demo = start_demo("--local")
    told, _ = demo.communicate(timeout=280)

    assert demo.returncode == 0, told
    assert told.startswith("on the embedded local cluster instead of a real Slurm")
    leaves_no_process(place)


@pytest.mark.parametrize(
    "options",
    [pytest.param((), marks=pytest.mark.needs_slurm, id="slurm"), pytest.param(("--local",), id="local")],
)
@pytest.mark.parametrize("scene", ["wait while it starts", "RUNNING"])
def test_an_interrupted_demo_leaves_no_process_and_no_file(
    start_demo: Start, place: Path, options: tuple[str, ...], scene: str
) -> None:
    demo = start_demo(*options)
    assert demo.stdout is not None
    if scene == "RUNNING":
        assert any(scene in line for line in demo.stdout)
    else:
        wait_until(lambda: list(place.glob("hpc-elastic-demo-*")), timeout_s=120, what="its directory")
    interrupt(demo)

    assert demo.returncode == 130
    assert list(place.iterdir()) == []
    leaves_no_process(place)
