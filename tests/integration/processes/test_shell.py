"""Commands where a shell has something else in mind: readers that leave, full disks, closed streams."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.submission.run_records import RunRecord

ROOT: Final = Path(__file__).resolve().parents[3]
PATIENCE_S: Final = 120.0
# Half a page of output each, a record of a run not being needed.
COMMANDS: Final = [["--help"], ["run", "--help"], ["status", "one"], ["logs", "one"]]
each_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a run is whose rank 0 has printed something."""
    logs = tmp_path / "one" / "logs" / "1" / "1"
    logs.mkdir(parents=True)
    (logs / "0.out").write_text("step 1\n" * 10)
    return tmp_path


def ended(
    home: Path, *words: str, redirected: str = "", env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """`hpc-elastic` with these words in a shell, and with that behind them."""
    around = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HPC_ELASTIC_HOME": str(home)}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {redirected}', "bash", sys.executable, "-m", "hpc_elastic", *words],
        env={**around, **(env or {})},
        timeout=PATIENCE_S,
        check=False,
        **given,
    )


@each_command
@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_reader_that_has_seen_enough_is_no_error(home: Path, words: list[str], buffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    found = ended(home, *words, stdout=writing, env={"PYTHONUNBUFFERED": buffered})

    os.close(writing)
    assert (found.returncode, found.stderr) == (0, b"")


@each_command
def test_a_full_disk_is_one_line_that_says_so(home: Path, words: list[str]) -> None:
    """The status of an agent stays what it was: it decides what becomes of a job."""
    found = ended(home, *words, redirected=">/dev/full")

    assert found.returncode == (0 if words[0] == "run" else 1)
    assert found.stderr == b"hpc-elastic: standard output cannot be written: No space left on device\n"


@each_command
@pytest.mark.parametrize("closed", ["<&- 2>&-", ">&-"])
def test_closed_streams_are_no_error_and_nobody_elses_files_take_their_place(
    home: Path, words: list[str], closed: str
) -> None:
    found = ended(home, *words, redirected=closed)

    assert (found.returncode, found.stderr) == (0, b"")
    assert (found.stdout == b"") == (" >&-" in f" {closed}")


def test_an_error_does_not_go_to_standard_output_where_standard_error_is_closed(home: Path) -> None:
    found = ended(home, "status", "two", redirected="2>&-")

    assert (found.returncode, found.stdout) == (64, b"")


def test_names_are_shown_in_a_locale_that_has_no_letters_for_them(home: Path) -> None:
    (home / "größe").mkdir()
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    for encoding in ({}, {"PYTHONIOENCODING": "ascii"}):
        found = ended(home, "status", "größe", env={**plain, **encoding})

        assert found.returncode == 0, found.stderr
        assert found.stdout.startswith(b"run gr")


def test_nothing_is_coloured_for_a_pipe(home: Path) -> None:
    found = ended(home, "status", "one", env={"TERM": "xterm-256color"})

    assert b"\x1b" not in found.stdout


@contextmanager
def in_a_terminal(home: Path, *words: str, **env: str) -> Iterator[Callable[[str], str]]:
    """A command whose output is a terminal: a call waits for a text there and tells all that was shown."""
    screen, inside = os.openpty()
    around = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HPC_ELASTIC_HOME": str(home)}
    shown = bytearray()

    def read_up_to(text: str) -> str:
        while text.encode() not in shown or not text:
            assert select.select([screen], [], [], PATIENCE_S)[0], f"no {text!r} after {bytes(shown)!r}"
            try:
                shown.extend(os.read(screen, 65536))
            except OSError:  # the last one who could write has ended
                break
        return shown.decode()

    command = [sys.executable, "-m", "hpc_elastic", *words]
    with subprocess.Popen(command, env={**around, "TERM": "xterm", **env}, stdout=inside) as process:
        os.close(inside)
        try:
            yield read_up_to
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            os.close(screen)


@pytest.mark.parametrize(
    ("env", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_has_colours_unless_it_wants_none(
    home: Path, env: dict[str, str], is_coloured: bool
) -> None:
    RunRecord(home / "one").close(succeeded=True)

    with in_a_terminal(home, "status", "one", **env) as read_up_to:
        shown = read_up_to("")

    assert ("\033[32mdone\033[0m" in shown) == is_coloured
    assert ("\033" in shown) == is_coloured
    assert "one" in shown


def test_a_watched_run_is_shown_in_place_until_it_is_over(home: Path) -> None:
    run = RunRecord(home / "one")
    run.begin()

    with in_a_terminal(home, "status", "one", "-w") as read_up_to:
        assert read_up_to("next: ").startswith("\033[H\033[2J"), "on a screen of its own"
        run.close(succeeded=True)
        shown = read_up_to("")

    assert "\033[32mdone" in shown.rpartition("\033[2J")[2]


@pytest.mark.parametrize("words", [["status", "one", "-w"], ["logs", "one", "-f"]], ids=" ".join)
def test_an_interrupt_ends_what_goes_on_showing_without_a_word(home: Path, words: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "hpc_elastic", *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HPC_ELASTIC_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as shown:
        assert shown.stdout is not None
        assert shown.stdout.readline() != b""
        shown.send_signal(signal.SIGINT)
        _, complaint = shown.communicate(timeout=PATIENCE_S)

    assert shown.returncode == 130
    assert b"Traceback" not in complaint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("command", ["status", "logs", "drain"])
def test_the_run_of_another_user_is_one_line_that_says_whose_it_is(home: Path, command: str) -> None:
    for folder in (home, *home.parents[:-1]):
        if folder.stat().st_uid == 0 and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    (home / "one").chmod(0o700)

    found = ended(home, command, str(home / "one"), env={"PYTHONDONTWRITEBYTECODE": "1"}, user=65534)

    assert (found.returncode, found.stdout) == (64, b"")
    assert f"{home}/one belongs to root, and you may not read it; ".encode() in found.stderr
    assert found.stderr.count(b"\n") == 1
