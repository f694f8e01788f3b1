"""One agent of three goes, in whatever way, while the ranks of the others save: every save is whole."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.rendezvous.record import Outcome, Presence
from hpc_elastic.status import snapshot
from tests.integration.agent.agents import Agents, agents_in

PIECES = 20
PIECE_S = 0.1
# In all longer than the liveness time of these agents: a peer is missed while the others are still writing.
LONG_PIECE_S = 0.4
SAVER = f"""
import os, pathlib, sys, time
from hpc_elastic import worker

ctx, way, piece_s = worker.context(), sys.argv[1], float(sys.argv[2])
path = pathlib.Path(ctx.checkpoint_dir) / str(ctx.rank)
print("started", flush=True)
step = 0
while not ctx.should_stop(step):
    step += 1
    time.sleep(0.01)
print("saving", flush=True)
if ctx.rank == 1 and way == "fails":
    os._exit(3)
with open(path, "w") as file:
    for piece in range({PIECES}):
        file.write(f"{{step}} {{piece}}\\n")
        file.flush()
        while ctx.rank == 1 and way in ("is killed", "breaks"):
            time.sleep(1)  # however late that comes, it comes while this rank saves
        time.sleep(0.0 if ctx.rank == 1 and way == "ends early" else piece_s)
ctx.saved(step)
print("saved", step, flush=True)
ctx.leave()
"""


# An agent with a fault of its own: it shows once its worker saves.
BROKEN = """
import os, sys
from hpc_elastic.agent.local_round import LocalRound
from hpc_elastic.cli.main import main

def look(self, **given):
    if os.path.exists("broken"):
        raise OSError("no space left on device")
    return whole(self, **given)

whole, LocalRound.look = LocalRound.look, look
raise SystemExit(main(sys.argv[4:]))
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("way", "status"), [("fails", 81), ("ends early", 80), ("is killed", -signal.SIGKILL), ("breaks", 1)]
)
def test_an_agent_that_goes_while_its_peers_save_costs_no_save(agents: Agents, way: str, status: int) -> None:
    script, broken = agents.script(SAVER), agents.folder / "broken.py"
    broken.write_text(BROKEN)
    piece_s = LONG_PIECE_S if way == "is killed" else PIECE_S
    for index in range(3):
        inside = (sys.executable, str(broken)) if way == "breaks" and index == 1 else ()
        agents.start(index, script, way, str(piece_s), nodes="2:3", count=3, inside=inside)
    for rank in range(3):
        agents.wait_for_line("started", rank, 1)

    agents.signal("n0", signal.SIGTERM)
    for rank in range(3):
        agents.wait_for_line("saving", rank, 1)
    if way == "is killed":
        agents.signal("n1", signal.SIGKILL)
    if way == "breaks":
        (agents.folder / "broken").touch()

    assert agents.statuses() == {"n0": 80, "n1": status, "n2": 80}
    (step,) = {agents.output(rank, 1)[-1].removeprefix("saved ") for rank in (0, 2)}
    for rank in (0, 2):
        written = (agents.run_dir / "checkpoints" / str(rank)).read_text().splitlines()
        assert written == [f"{step} {piece}" for piece in range(PIECES)]
    for name in ("n0", "n2"):
        assert presence(agents, name).outcome is Outcome.SAVED
        assert f"saved at step {step}" in presence(agents, name).reason
        assert "Traceback" not in agents.console(name)
    assert len(snapshot.read(agents.run_dir).rounds) == 1, "nobody began anew while the others saved"


def presence(agents: Agents, name: str) -> Presence:
    return next(one for one in snapshot.read(agents.run_dir).presences if one.name == name)
