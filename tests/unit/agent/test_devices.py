"""Accelerators are the visible ones, and a worker with a virtual local rank sees one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpc_elastic.agent import devices
from hpc_elastic.errors import UsageError


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a machine with two NVIDIA devices."""
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1,3"}, 3),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932f937,MIG-GPU-c1/1/0"}, 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, 0),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, 0),
        ({"ROCR_VISIBLE_DEVICES": "0,1"}, 2),
        ({"ZE_AFFINITY_MASK": "0.0,0.1,1.0,1.1"}, 4),
        ({"SLURM_GPUS_ON_NODE": "1"}, 1),
        ({"SLURM_GPUS_ON_NODE": "4", "CUDA_VISIBLE_DEVICES": "0,1"}, 2),
        ({"SLURM_GPUS_ON_NODE": "gpu:2"}, 2),
        ({}, 2),
    ],
)
def test_accelerators_are_the_visible_ones(environment: dict[str, str], seen: int, machine: Path) -> None:
    assert devices.accelerators(environment, machine) == seen


def test_amd_accelerators_are_told_from_processors(tmp_path: Path) -> None:
    for node, identity in enumerate(("0", "0", "29122", "8421")):
        place = tmp_path / "sys/class/kfd/kfd/topology/nodes" / str(node)
        place.mkdir(parents=True)
        (place / "gpu_id").write_text(f"{identity}\n")

    assert devices.accelerators({}, tmp_path) == 2


def test_xpus_are_the_devices_of_their_vendor(tmp_path: Path) -> None:
    for number, vendor in enumerate(("0x8086", "0x10de", "0x8086")):
        place = tmp_path / "sys/class/drm" / f"renderD{128 + number}" / "device"
        place.mkdir(parents=True)
        (place / "vendor").write_text(f"{vendor}\n")

    assert devices.xpus({}, tmp_path) == 2
    assert devices.xpus({"ZE_AFFINITY_MASK": "0"}, tmp_path) == 1
    assert devices.accelerators({}, tmp_path) == 0


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({"CUDA_VISIBLE_DEVICES": "4,5,6"}, {"CUDA_VISIBLE_DEVICES": "5"}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, {"CUDA_VISIBLE_DEVICES": "GPU-b"}),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, {"ROCR_VISIBLE_DEVICES": "3"}),
        ({"HIP_VISIBLE_DEVICES": "2,3"}, {"HIP_VISIBLE_DEVICES": "3"}),
        ({"ZE_AFFINITY_MASK": "0.0,0.1"}, {"ZE_AFFINITY_MASK": "0.1"}),
        ({}, {"CUDA_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": "1"}),
        ({"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": "1"}),
    ],
)
def test_a_worker_alone_with_its_device(environment: dict[str, str], chosen: dict[str, str]) -> None:
    assert devices.own_device(environment, 1) == chosen


def test_hip_counts_among_what_rocr_shows() -> None:
    """HIP_VISIBLE_DEVICES=1 after ROCR_VISIBLE_DEVICES=7 would be a device that is not there."""
    environment = {
        "ROCR_VISIBLE_DEVICES": "4,5,6,7",
        "HIP_VISIBLE_DEVICES": "3,2",
        "CUDA_VISIBLE_DEVICES": "3,2",
    }

    assert devices.own_device(environment, 1) == {
        "ROCR_VISIBLE_DEVICES": "6",
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    }


def test_slurm_gives_both_variables_the_same_words() -> None:
    environment = {"ROCR_VISIBLE_DEVICES": "4,5", "CUDA_VISIBLE_DEVICES": "4,5"}

    assert devices.own_device(environment, 1) == {"ROCR_VISIBLE_DEVICES": "5", "CUDA_VISIBLE_DEVICES": "0"}


def test_more_workers_than_devices_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"CUDA_VISIBLE_DEVICES=0,1 shows 2 devices, local rank 2 wants its own"
    ):
        devices.own_device({"CUDA_VISIBLE_DEVICES": "0,1"}, 2)
