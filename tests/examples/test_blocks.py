"""Code on the pages that nobody types at a prompt: each block is run by a test, or it says here why not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hpc_elastic.testing.etcd_server import EtcdServer
from tests.examples import folders, pages
from tests.examples.example_runs import ROOT
from tests.examples.pages import Block
from tests.integration.agent.agents import Agents, agents_in

HERE: Final = "tests/examples/test_blocks.py"
README: Final = "tests/examples/test_readme.py"
SLURM: Final = "tests/integration/slurm/test_lines_of_pages.py"
# By page and first line: the test that takes the block from the page and runs it.
RUN: Final = {
    ("README.md", "# train.py"): f"{README}::test_the_script_of_a_page_goes_on_after",
    (
        "docs/quickstart.md",
        "from hpc_elastic import worker",
    ): f"{README}::test_the_script_of_a_page_goes_on_after",
    ("README.md", "import hpc_elastic"): f"{SLURM}::test_python_that_submits",
    ("docs/pools.md", "job = hpc_elastic.submit("): f"{SLURM}::test_python_that_submits",
    ("docs/from-submitit.md", "# submitit"): f"{SLURM}::test_python_that_submits",
    (
        "docs/sandbox.md",
        "def test_my_job_survives",
    ): f"{SLURM}::test_the_test_that_the_page_of_the_sandbox_shows",
    ("docs/from-torchrun.md", "srun --ntasks-per-node=1"): f"{SLURM}::test_lines_that_submit",
    ("docs/from-lightning.md", "# Lightning under Slurm"): f"{HERE}::test_the_page_for_lightning",
    ("docs/from-lightning.md", "from hpc_elastic import worker"): f"{HERE}::test_the_page_for_lightning",
    ("docs/other-languages.md", '{"reason"'): f"{HERE}::test_a_notice_file_has_what_the_page",
    ("docs/etcd.md", "hpc-elastic run --rdzv-backend etcd"): f"{HERE}::test_the_lines_about_etcd",
    ("docs/filesystems.md", "export HPC_ELASTIC_HOME="): f"{HERE}::test_runs_are_kept_where_the_page",
    ("docs/hangs.md", "hpc-elastic run --watchdog"): f"{HERE}::test_lines_with_options",
    ("docs/failures.md", "hpc-elastic run --health-command"): f"{HERE}::test_lines_with_options",
    ("docs/hangs.md", "ctx = worker.context()"): f"{HERE}::test_a_scope_with_a_deadline",
}
SHOWN: Final = {
    ("README.md", "notice     Slurm signals"): "a story in five lines",
    ("docs/output.md", "<run directory>/logs"): "names of files",
    ("docs/preemption.md", "training"): "a picture",
    ("docs/hangs.md", "rank 3 failed"): "what an agent says; tests/integration/agent/test_watchdog.py",
    ("examples/preemptible/README.md", "hpc-elastic sandbox preempt"): "lines of the README, typed by "
    "tests/examples/test_readme.py and tests/examples/test_first_hour.py",
}
TRAIN: Final = 'import os\nprint("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\n'
# Shows the notice when it is told to look.
READER: Final = """
import os, signal, sys, time

def look(signum, frame):
    print(open(os.environ["HPC_ELASTIC_NOTICE_FILE"]).read(), flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, look)
print("started", flush=True)
while True:
    time.sleep(0.05)
"""
PATIENCE_S: Final = 300.0


def named(block: Block, among: dict[tuple[str, str], str]) -> list[str]:
    return [
        test for (page, first), test in among.items() if page == block.page and block.first.startswith(first)
    ]


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_block_of_code_is_run_by_a_test_or_says_why_not(page: str) -> None:
    """Lines at a prompt are for `test_commands.py`; the page of the commands is made from their parsers."""
    others = [one for one in pages.blocks(page) if one.language != "console" and page != "docs/cli.md"]

    assert [one.first for one in others if len(named(one, RUN) + named(one, SHOWN)) != 1] == []


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_block_of_code_says_its_language(page: str) -> None:
    assert [one.first for one in pages.blocks(page) if not one.language] == []


def test_the_table_names_tests_and_blocks_that_are_there() -> None:
    for test in RUN.values():
        path, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), test
    for page, first in (*RUN, *SHOWN):
        assert pages.block(page, first)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def typed(folder: Path, lines: str, path: Path | None = None, **env: str) -> str:
    """What a shell in `folder` shows of some lines, each of which has to work."""
    (folder / "train.py").touch()
    around = folders.surroundings()
    around["PATH"] = f"{path}:{around['PATH']}" if path else around["PATH"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HPC_ELASTIC_")}
    ended = subprocess.run(
        ["bash", "-ec", lines],
        cwd=folder,
        env={**kept, **around, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, f"{lines}\n{ended.stdout}"
    return ended.stdout


@pytest.mark.parametrize(
    ("page", "first"), [("docs/hangs.md", "hpc-elastic run"), ("docs/failures.md", "hpc-elastic run")]
)
def test_lines_with_options_of_run_train(page: str, first: str, tmp_path: Path) -> None:
    for name in ("nvidia-smi", "dcgmi"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train.py").write_text(TRAIN)

    assert "rank 0 of 1" in typed(tmp_path, pages.block(page, first), tmp_path)


def test_a_scope_with_a_deadline_is_left_in_time(tmp_path: Path) -> None:
    lines = [
        "class loss:\n    backward = staticmethod(lambda: print('backward'))",
        "from hpc_elastic import worker",
    ]
    lines += [pages.block("docs/hangs.md", "ctx = worker.context()"), "print('left')"]
    (tmp_path / "train.py").write_text("\n".join(lines))

    shown = typed(tmp_path, "hpc-elastic run --standalone train.py")

    assert "] backward\n" in shown
    assert "] left\n" in shown


def test_runs_are_kept_where_the_page_about_file_systems_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (line,) = pages.block("docs/filesystems.md", "export HPC_ELASTIC_HOME=").splitlines()
    line = line.replace("/path/on/a/shared/file/system", str(tmp_path))

    typed(tmp_path, f"{line}\nhpc-elastic run --standalone --rdzv-id mine train.py", USER="me")

    assert (tmp_path / "me" / "mine" / "run.json").exists()


@pytest.mark.needs_etcd
def test_the_lines_about_etcd_let_nodes_meet_there(etcd_server: EtcdServer, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    lines = pages.block("docs/etcd.md", "hpc-elastic run --rdzv-backend etcd")
    for number in (1, 2, 3):
        lines = lines.replace(f"etcd{number}:2379", etcd_server.endpoint)

    shown = typed(tmp_path, f"{lines}\nhpc-elastic run train.py")

    assert shown.count("meets in etcd") == shown.count("] rank 0 of 1\n") == 2


def test_a_notice_file_has_what_the_page_about_other_languages_says(agents: Agents) -> None:
    shown = json.loads(pages.block("docs/other-languages.md", '{"reason"'))
    agents.start(1, agents.script(READER))
    agents.wait_for_line("started", 0, 1)
    agents.signal("n1", signal.SIGUSR1)

    assert agents.status("n1") == 80, agents.console("n1")
    assert set(json.loads(agents.output(0, 1)[-1])) == set(shown)


@pytest.mark.needs_torch
@pytest.mark.needs_lightning
def test_the_page_for_lightning_trains(tmp_path: Path) -> None:
    """What stands above `# here` is what the reader has; it is compiled only."""
    trainer = pages.block("docs/from-lightning.md", "# Lightning under Slurm")
    before, here = trainer.split("# here\n")
    compile(before, "before", "exec")
    data = pages.block("docs/from-lightning.md", "from hpc_elastic import worker")
    (tmp_path / "train.py").write_text(
        LIGHTNING + data + here.replace("max_epochs=90", "max_epochs=2, **QUIET")
    )

    shown = typed(
        tmp_path, f"{sys.executable} -m hpc_elastic run --standalone train.py 3", OMP_NUM_THREADS="1"
    )

    assert "max_epochs=2` reached" in shown


LIGHTNING: Final = """
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

QUIET = dict(logger=False, enable_progress_bar=False, enable_model_summary=False)
model, dataset = Model(), TensorDataset(torch.zeros(64, 4))
"""
