"""What a user asks `submit` for: parsed once, checked as a whole, carried as frozen values."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hpc_elastic.backends import etcd_endpoints
from hpc_elastic.errors import UsageError, shown
from hpc_elastic.submission import texts

SLURM: Final = "slurm"
LOCAL: Final = "local"
AUTO: Final = "auto"

_RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_WORKER_WORDS: Final = ("auto", "cpu", "gpu")
_BACKENDS: Final = ("auto", "file", "etcd", "etcd-v3", "etcd-v2")
_MOST_NODES: Final = 999_999  # what `--nnodes` takes
_MOST_NAME: Final = 200
_MOST_LOCAL_NODES: Final = 256  # each is an agent and its workers, all on this machine


@dataclass(frozen=True)
class NodeRange:
    """How many nodes a run may have; `text()` is what `--nnodes` takes."""

    min_nodes: int
    max_nodes: int

    @classmethod
    def parse(cls, value: object) -> NodeRange:
        """From 4, "4" or "2:8"; raises UsageError for everything else."""
        if isinstance(value, int) and not isinstance(value, bool):
            low = high = value
        elif isinstance(value, str) and (found := re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", value.strip())):
            low = int(found[1])
            high = int(found[2] or low)
        else:
            raise UsageError(f'nodes={value!r} is no number of nodes; give a number (4) or a range ("2:8")')
        if low < 1:
            raise UsageError(f"nodes={value!r} asks for {low} nodes; a run needs at least 1")
        if high > _MOST_NODES:
            raise UsageError(f"nodes={value!r} asks for more than {_MOST_NODES} nodes; give fewer")
        if high < low:
            raise UsageError(f'nodes={value!r} has more minimum than maximum; write it as "{high}:{low}"')
        return cls(low, high)

    def text(self) -> str:
        """`4` or `2:8`."""
        return (
            str(self.min_nodes) if self.min_nodes == self.max_nodes else f"{self.min_nodes}:{self.max_nodes}"
        )


@dataclass(frozen=True)
class Options:
    """Everything `submit` takes besides the function, as the user gave it."""

    nodes: object
    nproc_per_node: object = AUTO
    cluster: object = AUTO
    run_id: object = None
    run_dir: object = None
    name: object = None
    max_restarts: object = 3
    requeue: object = True
    pool: object = False
    rdzv_backend: object = AUTO
    rdzv_endpoint: object = None
    slurm: object = None
    setup: object = None
    python: object = None


@dataclass(frozen=True)
class SubmitRequest:
    """One checked request: of `function` and `script` one is None; `cluster` is resolved."""

    function: Callable[..., Any] | None
    script: Path | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    nodes: NodeRange
    nproc_per_node: str
    cluster: str
    run_id: str | None
    run_dir: Path | None
    name: str
    max_restarts: int
    rdzv_backend: str
    rdzv_endpoint: str
    requeue: bool
    is_pool: bool
    slurm: Mapping[str, Any]
    setup: tuple[str, ...]
    python: str | None

    @classmethod
    def parse(
        cls, fn: object, args: Sequence[Any], kwargs: Mapping[str, Any], options: Options
    ) -> SubmitRequest:
        """The request, or UsageError with the value that cannot be used. Nothing is created."""
        function, script = _target(fn, args, kwargs)
        cluster = _cluster(options.cluster)
        return cls(
            function=function,
            script=script,
            args=tuple(args),
            kwargs=dict(kwargs),
            nodes=_nodes(options.nodes, cluster),
            nproc_per_node=_nproc_per_node(options.nproc_per_node),
            cluster=cluster,
            run_id=_run_id(options.run_id),
            run_dir=_run_dir(options.run_dir),
            name=_name(options.name, fn),
            max_restarts=_max_restarts(options.max_restarts),
            rdzv_backend=_rdzv_backend(options.rdzv_backend),
            rdzv_endpoint=_rdzv_endpoint(options.rdzv_endpoint, options.rdzv_backend),
            requeue=_requeue(options.requeue),
            # One machine has no elements that come and go alone: the same agents are one elastic world.
            is_pool=_pool(options.pool) and cluster == SLURM,
            slurm=_slurm(options.slurm, options.cluster),
            setup=_setup(options.setup),
            python=_python(options.python, cluster),
        )


def _nodes(value: object, cluster: str) -> NodeRange:
    nodes = NodeRange.parse(value)
    if cluster == LOCAL and nodes.max_nodes > _MOST_LOCAL_NODES:
        raise UsageError(
            f"nodes={value!r} on cluster={LOCAL!r} would start {nodes.max_nodes} agents on this machine; "
            f"give at most {_MOST_LOCAL_NODES}, or submit to Slurm"
        )
    return nodes


def _pool(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"pool={value!r} is neither True nor False")
    return value


def _rdzv_backend(value: object) -> str:
    if value not in _BACKENDS:
        raise UsageError(f"rdzv_backend={value!r} is unknown; use one of {', '.join(_BACKENDS)}")
    return str(value)


def _rdzv_endpoint(value: object, backend: object) -> str:
    """The members of an etcd, checked as the agents will."""
    if value is None:
        return ""
    if not isinstance(value, str) or not value or backend == "file":
        raise UsageError(
            f"rdzv_endpoint={value!r} has no use with rdzv_backend={backend!r}; give HOST:PORT of an etcd, "
            "or leave it out"
        )
    etcd_endpoints.parse(value, {}, {})
    return value


def _target(
    fn: object, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any] | None, Path | None]:
    if callable(fn):
        return fn, None
    if not isinstance(fn, (str, os.PathLike)):
        raise UsageError(f"fn={fn!r} is neither a function nor the path of a script")
    script = Path(fn).expanduser().absolute()
    if not os.path.isfile(script):  # noqa: PTH113 - False, not an error, for a name that no file can have
        what = f"the script {shown(script)}" if os.fspath(fn) else "a script with an empty name"
        raise UsageError(f"{what} does not exist; give the path of a file, or a function")
    if kwargs:
        raise UsageError(
            f"a script takes no keyword arguments, but {', '.join(kwargs)} was given; use options"
        )
    for given in args:
        if not isinstance(given, (str, int, float, os.PathLike)):
            raise UsageError(f"argument {given!r} of the script {script.name} is no text; give a str")
    texts.check(f"argument of {shown(script.name)}", [str(given) for given in args])
    return None, script


def _cluster(value: object) -> str:
    if value not in (SLURM, LOCAL, AUTO):
        raise UsageError(f"cluster={value!r} is unknown; use {SLURM!r}, {LOCAL!r} or {AUTO!r}")
    has_slurm = shutil.which("sbatch") is not None
    if value == SLURM and not has_slurm:
        raise UsageError(
            f"cluster={SLURM!r}, but sbatch is not on the PATH; submit from a login node of the cluster, "
            f"or run on this machine with cluster={LOCAL!r}"
        )
    if value == AUTO:
        return SLURM if has_slurm else LOCAL
    return str(value)


def _nproc_per_node(value: object) -> str:
    text = str(value)
    if isinstance(value, bool) or not (
        text in _WORKER_WORDS or (text.isdecimal() and 0 < int(text) < 10_000)
    ):
        raise UsageError(
            f"nproc_per_node={value!r} is no number of workers; give 1 or more, or {', '.join(_WORKER_WORDS)}"
        )
    return text


def _run_id(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > 200 or not _RUN_ID.fullmatch(value):
        raise UsageError(
            f"run_id={shown(repr(value))} cannot be a directory name; use letters, digits, '.', '_' and '-'"
        )
    return value


def _run_dir(value: object) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise UsageError(f"run_dir={value!r} is no path; give a directory that all nodes see")
    texts.check("run_dir", [str(value)])
    return Path(value).expanduser().absolute()


def _name(value: object, fn: object) -> str:
    if value is None:
        own = (
            Path(fn).stem
            if isinstance(fn, (str, os.PathLike))
            else getattr(fn, "__name__", type(fn).__name__)
        )
        return re.sub(r"[^A-Za-z0-9._-]+", "-", str(own)).strip("-.")[:_MOST_NAME] or "run"
    if not isinstance(value, str) or not value.isprintable() or not value.strip() or len(value) > _MOST_NAME:
        raise UsageError(
            f"name={shown(repr(value))} cannot be a job name; "
            f"give printable text of 1 to {_MOST_NAME} characters"
        )
    return value.strip()


def _max_restarts(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"max_restarts={value!r} is no number of restarts; give 0 or more")
    return value


def _requeue(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"requeue={value!r} is neither True nor False")
    return value


def _slurm(value: object, cluster: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UsageError(f'slurm={value!r} is no dictionary of options; write slurm={{"partition": "gpu"}}')
    if cluster == LOCAL:
        raise UsageError(f"slurm={dict(value)!r} has no use with cluster={LOCAL!r}; leave one of the two out")
    return {name.lstrip("-").replace("-", "_"): given for name, given in value.items()}


def _setup(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    lines = value.splitlines() if isinstance(value, str) else value
    if not isinstance(lines, Sequence) or not all(isinstance(line, str) for line in lines):
        raise UsageError(f"setup={value!r} is no list of shell lines; give text or a list of text")
    texts.check("setup", ["\n".join(lines)])
    return tuple(lines)


def _python(value: object, cluster: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise UsageError(f"python={value!r} is no path of an interpreter")
    texts.check("python", [str(value)])
    if cluster == LOCAL and shutil.which(value) is None:
        raise UsageError(f"python={value!r} is no program that you may run here; give an interpreter's path")
    return str(value)
