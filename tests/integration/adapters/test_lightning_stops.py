"""What the callback does in a real Trainer, besides what the example shows on Slurm."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hpc_elastic.exit_codes import ExitCode
from tests.examples import folders
from tests.examples.example_runs import TIMEOUT_S, agent_command, run, started
from tests.integration.adapters.trainings import told_by
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs_torch, pytest.mark.needs_lightning]

SAMPLES, EPOCHS = 512, 2
TRAINING = folders.EXAMPLES / "with_lightning" / "train.py"

ACCUMULATING = """
import os, signal, warnings
warnings.simplefilter("ignore")
os.environ |= {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}
os.environ |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.plugins.environments import SLURMEnvironment
from hpc_elastic.adapters.lightning import elastic_callback, resume_path
from hpc_elastic import worker

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(1, 1)
    def training_step(self, batch, number):
        if number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            print("requeue", slurm.auto_requeue, signal.getsignal(signal.SIGUSR1) == before)
        return self.net(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

class Telling(worker.Context):
    def should_stop(self, step):
        print("step", step)
        return step == 2

heard, slurm, before = [], SLURMEnvironment(), signal.getsignal(signal.SIGUSR1)
signal.signal(signal.SIGTERM, lambda *_: heard.append("TERM"))
ctx = Telling(checkpoint_dir=os.path.join(os.getcwd(), "saved"))
data = torch.utils.data.DataLoader(torch.zeros(12, 1))
trainer = Trainer(max_epochs=1, accumulate_grad_batches=3, accelerator="cpu", logger=False,
                  enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                  callbacks=[elastic_callback(ctx)], plugins=[slurm])
print("requeue", slurm.auto_requeue)
print(resume_path(ctx))
try:
    trainer.fit(Model(), data)
except SystemExit as left:
    print("left", left.code, heard, trainer.received_sigterm, trainer.global_step)
print("saved", torch.load(resume_path(ctx), weights_only=False)["global_step"])
"""


AT_THE_END_OF_AN_EPOCH = """
import os, warnings
warnings.simplefilter("ignore")
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset
from hpc_elastic import worker
from hpc_elastic.adapters.lightning import elastic_callback, resume_path, trainer_options
from hpc_elastic.adapters.loading import ElasticLoader
from hpc_elastic.sampling import ElasticBatches

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(1, 1)
    def training_step(self, batch, number):
        seen.extend(batch[0].flatten().int().tolist())
        return self.net(batch[0]).sum()
    def validation_step(self, batch, number):
        validated.append(self.current_epoch)
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.0)
        schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 1))
        return [optimizer], schedulers[-1:]

class Telling(worker.Context):
    def should_stop(self, step):
        return step >= self.stop_at

data, seen, validated, schedulers = TensorDataset(torch.arange(48.0).reshape(48, 1)), [], [], []

def fit(batch, stop_at):
    ctx = Telling(checkpoint_dir=os.path.join(os.getcwd(), "saved"))
    ctx.stop_at = stop_at
    loader = ElasticLoader(ElasticBatches(48, batch), lambda taken: DataLoader(data, batch_sampler=taken))
    trainer = Trainer(max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                      callbacks=[elastic_callback(ctx)], **trainer_options())
    try:
        saved = resume_path(ctx, loader=loader)
        trainer.fit(Model(), loader, DataLoader(data, batch_size=48), ckpt_path=saved)
    except SystemExit:
        pass
    return trainer.global_step

# What one rank calls another batch is for the run the same as another number of ranks.
print("steps", fit(16, 2), fit(8, 8), fit(24, 9), fit(16, 1000))
print("every", {number: seen.count(number) for number in range(48)} == dict.fromkeys(range(48), 4))
print("validated", validated, "schedulers", schedulers[-1].last_epoch)
"""


def a_few_more(run_dir: Path) -> Callable[[], bool]:
    """Whether five steps more than now have been made."""
    before = len(folders.steps(run_dir))
    return lambda: len(folders.steps(run_dir)) >= before + 5


def test_a_stop_at_the_end_of_an_epoch_leaves_nothing_out_though_the_world_changes(tmp_path: Path) -> None:
    said = told_by(AT_THE_END_OF_AN_EPOCH, tmp_path)

    assert said[-3:] == [
        "steps 4 9 10 14",
        "every True",
        "validated [0, 1, 2, 3] schedulers 4",
    ]


def test_steps_are_those_of_the_optimizer_and_neither_term_nor_the_requeue_is_left_to_lightning(
    tmp_path: Path,
) -> None:
    said = told_by(ACCUMULATING, tmp_path)

    told = [line for line in said if line.startswith(("requeue", "None", "step", "left", "saved"))]
    assert told == [
        "requeue True",
        "None",
        "requeue False True",
        "step 0",
        "step 1",
        "step 2",
        "left 0 ['TERM'] False 3",
        "saved 3",
    ]


def test_one_rank_goes_on_in_the_middle_of_the_epoch_that_two_ranks_began_and_two_go_on_after_it(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    words = ["--standalone", "--run-dir", str(run_dir), str(TRAINING), "--step-seconds"]

    for ranks in (2, 1):
        asked, until = (
            agent_command(run_dir, "--nproc-per-node", str(ranks), *words, "0.5"),
            a_few_more(run_dir),
        )
        with started(asked, tmp_path / f"{ranks}.out") as agent:
            wait_until(until, TIMEOUT_S, f"{ranks} ranks make a few steps")
            agent.send_signal(signal.SIGUSR2)
            assert agent.wait(TIMEOUT_S) == ExitCode.SAVED, (tmp_path / f"{ranks}.out").read_text()
    ended = run(agent_command(run_dir, "--nproc-per-node", "2", *words, "0"), tmp_path)

    assert ended.returncode == 0, ended.stdout
    assert sorted(folders.samples(run_dir)) == sorted([*range(SAMPLES)] * EPOCHS)
    steps = folders.steps(run_dir)
    assert steps == [*range(len(steps))]
    assert SAMPLES * EPOCHS // 16 < len(steps) < SAMPLES * EPOCHS // 8
