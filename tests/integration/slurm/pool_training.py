"""What the elements of a pool train in tests: every rank counts steps, rank 0 saves.

    pool_training.py PAUSE_S

In the checkpoint directory: `state.json` has the last saved step, `rounds/<round>.<rank>` the first and the
last step that a rank took in a round. A file `enough` there lets every rank come to its end.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from hpc_elastic import worker


def main(pause_s: float) -> None:
    ctx = worker.context()
    folder = Path(ctx.checkpoint_dir)
    state, enough = folder / "state.json", folder / "enough"
    noted = folder / "rounds" / f"{ctx.round}.{ctx.rank}"
    noted.parent.mkdir(exist_ok=True)
    step = first = json.loads(state.read_text())["step"] + 1 if state.exists() else 0
    while not enough.exists():
        threading.Event().wait(pause_s)
        _replace(noted, {"first": first, "last": step, "world": ctx.world_size})
        ctx.progress(step)
        if ctx.should_stop(step):
            if ctx.rank == 0:
                _replace(state, {"step": step})
            ctx.saved(step)
            ctx.leave()
        step += 1


def _replace(path: Path, content: dict[str, int]) -> None:
    written = path.with_suffix(f"{path.suffix}.tmp")
    written.write_text(json.dumps(content))
    written.replace(path)


if __name__ == "__main__":
    main(float(sys.argv[1]))
