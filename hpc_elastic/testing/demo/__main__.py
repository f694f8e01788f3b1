"""Plays the demo, in a checkout: `python -m hpc_elastic.testing.demo`; status 0 only if it happened."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import HpcElasticError
from hpc_elastic.testing.demo.stages import LocalStage, SlurmStage
from hpc_elastic.testing.demo.story import Claim, tell
from hpc_elastic.testing.demo.watching import StoryBroken, Watch
from hpc_elastic.testing.sandbox.packages import missing_programs

_TAIL_LINES = 15
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play it on the best stage there is; the exit status."""
    chosen = _options(arguments)
    why_local = "asked for" if chosen.local else _why_no_slurm()
    if why_local:
        print(f"on the embedded local cluster instead of a real Slurm ({why_local})")
    print("A training job loses its nodes, and finishes nevertheless. It takes about a minute.\n", flush=True)
    with _stopped_by_signals():
        return _play_in_scratch(LocalStage if why_local else SlurmStage, chosen.checkout)


def _play_in_scratch(stage_type: type[SlurmStage] | type[LocalStage], checkout: Path) -> int:
    name = f"hpc-elastic-demo-{os.getpid()}-{SYSTEM_CLOCK.monotonic_s():.0f}"
    scratch = Path(tempfile.gettempdir(), name)
    try:
        scratch.mkdir()
        scratch.chmod(0o755)  # the job's user has to enter, whatever the umask
        claims = _play(stage_type, checkout, scratch)
    except KeyboardInterrupt:
        shutil.rmtree(scratch, ignore_errors=True)
        print("\ninterrupted: everything is stopped and removed")
        return 130
    except (StoryBroken, HpcElasticError, OSError) as broken:
        print(f"\nthe story broke: {broken}", file=sys.stderr)
        _show_ends_of_logs(scratch)
        return 1
    return _conclude(claims, scratch)


def _play(
    stage_type: type[SlurmStage] | type[LocalStage], checkout: Path, scratch: Path
) -> tuple[Claim, ...]:
    began_s = SYSTEM_CLOCK.monotonic_s()

    def say(line: str) -> None:
        print(f"{SYSTEM_CLOCK.monotonic_s() - began_s:6.1f} s  {line}", flush=True)

    with stage_type.open(checkout, scratch) as stage:
        try:
            say(stage.describe())
            return tell(stage, Watch(stage.run_dir, stage.look, SYSTEM_CLOCK, began_s), say)
        finally:
            _ignore_signals()  # a second Ctrl-C must not leave half a Slurm behind


def _conclude(claims: Sequence[Claim], scratch: Path) -> int:
    print()
    for claim in claims:
        print(f"  {'yes' if claim.holds else 'NO '}  {claim.words}")
    print("\nNothing runs any more. What every rank printed, yours to read and to remove:")
    print(f"  {scratch}/job/run/logs/<attempt>/<round>/<rank>.out")
    return 0 if all(claim.holds for claim in claims) else 1


def _why_no_slurm() -> str:
    if absent := missing_programs(accounting=False):
        return f"not installed: {', '.join(absent)}"
    return "" if os.geteuid() == 0 else "a private Slurm needs root"


def _show_ends_of_logs(scratch: Path) -> None:
    for path in sorted(scratch.glob("job/*.out")) + sorted(scratch.glob("job/run/logs/*/*/0.err")):
        lines = path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        print(f"\n--- the end of {path}", *lines, sep="\n", file=sys.stderr)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the block by KeyboardInterrupt, so that its clean-up runs."""
    before = {number: signal.signal(number, _interrupt) for number in _STOPPING}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _interrupt(_signum: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--local", action="store_true", help="on the local cluster, even where Slurm is there"
    )
    parser.add_argument("--checkout", type=Path, default=Path.cwd(), help="where sbatch/ and examples/ are")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
