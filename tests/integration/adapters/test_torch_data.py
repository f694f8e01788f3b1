"""The batches of the sampler in torch's own loader, with worker processes that read ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.adapters.trainings import told_by

PROGRAM = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from hpc_elastic.adapters.loading import ElasticLoader
from hpc_elastic.sampling import ElasticBatches

samples = TensorDataset(torch.arange(64))

def loader(rank, ranks):
    batches = ElasticBatches(64, 4, rank=rank, world_size=ranks)
    return ElasticLoader(batches, lambda sampler: DataLoader(samples, batch_sampler=sampler, num_workers=1))

seen, state = [], None
for ranks, steps in ((4, 2), (2, 1), (3, 100)):
    loaders = [loader(rank, ranks) for rank in range(ranks)]
    for one in loaders:
        if state is not None:
            one.load_state_dict(state)
        for step, (numbers,) in enumerate(one, 1):
            seen += numbers.tolist()
            if step == steps:
                break
    state = loaders[0].state_dict()
print(sorted(seen) == list(range(64)), state["batches"]["epoch"])
print(sum(len(batch[0]) for batch in DataLoader(samples, batch_sampler=ElasticBatches(64, 4, world_size=2))))
"""


@pytest.mark.needs_torch
def test_a_loader_with_worker_processes_gives_each_sample_once_though_the_world_changes_twice(
    tmp_path: Path,
) -> None:
    assert told_by(PROGRAM, tmp_path) == ["True 1", "32"], "and as batch_sampler itself, one rank's half"
