"""The accelerators that this process may use, and which of them a worker is to see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hpc_elastic.errors import UsageError

# In the order in which runtimes look; an empty value hides all devices, and so do the words below.
_CUDA, _ROCR, _HIP, _LEVEL_ZERO = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)
_VISIBILITY: Final = (_CUDA, _ROCR, _HIP, _LEVEL_ZERO)
_HIDES_ALL: Final = frozenset({"-1", "NoDevFiles", "void", "none"})
_ON_NODE: Final = "SLURM_GPUS_ON_NODE"
_NVIDIA: Final = "nvidia"
_INTEL_VENDOR: Final = "0x8086"


def accelerators(environment: Mapping[str, str], root: Path = Path("/")) -> int:
    """How many there are for this process: by their visibility variable, else by Slurm, else by devices."""
    for name in _VISIBILITY:
        if name in environment:
            shown = _listed(environment[name])
            return 0 if not shown or shown[0] in _HIDES_ALL else len(shown)
    given = environment.get(_ON_NODE, "")
    if given.isascii() and given.isdecimal():
        return int(given)
    return _nvidia(root) or _amd(root)


def xpus(environment: Mapping[str, str], root: Path = Path("/")) -> int:
    """How many Intel devices there are for this process, those within processors included."""
    if _LEVEL_ZERO in environment:
        return len(_listed(environment[_LEVEL_ZERO]))
    vendors = root.glob("sys/class/drm/renderD*/device/vendor")
    return sum(1 for vendor in vendors if _read(vendor) == _INTEL_VENDOR)


def own_device(environment: Mapping[str, str], local_rank: int) -> dict[str, str]:
    """The visibility variables with which a worker sees the device of its local rank alone.

    Raises `UsageError` where there are fewer devices than workers.
    """
    given = {name: _listed(environment[name]) for name in _VISIBILITY if environment.get(name)}
    for name, shown in given.items():
        if local_rank >= len(shown):
            raise UsageError(
                f"{name}={environment[name]} shows {len(shown)} devices, local rank {local_rank} wants its "
                "own; start fewer workers, or ask for more devices"
            )
    if not given:
        return dict.fromkeys((_CUDA, _LEVEL_ZERO), str(local_rank))
    chosen = {name: shown[local_rank] for name, shown in given.items()}
    inner = [name for name in (_HIP, _CUDA) if name in given]
    if _ROCR in given and inner:
        # HIP counts among the devices that ROCR shows, of which one is left.
        chosen[_ROCR] = _picked(given[_ROCR], chosen[inner[0]], local_rank)
        chosen.update(dict.fromkeys(inner, "0"))
    return chosen


def _picked(shown: list[str], index: str, local_rank: int) -> str:
    """The device of an index; Slurm may give both variables the same words, which are no indices then."""
    is_index = index.isascii() and index.isdecimal() and int(index) < len(shown)
    return shown[int(index) if is_index else local_rank]


def _listed(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


def _nvidia(root: Path) -> int:
    try:
        names = [entry.name for entry in (root / "dev").iterdir()]
    except OSError:
        return 0
    return sum(1 for name in names if name.startswith(_NVIDIA) and name[len(_NVIDIA) :].isdecimal())


def _amd(root: Path) -> int:
    # Processors are nodes of this topology too, and have no identity as an accelerator.
    ids = root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id")
    return sum(1 for each in ids if _read(each) not in ("", "0"))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
