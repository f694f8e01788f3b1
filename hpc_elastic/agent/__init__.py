"""What starts, watches and ends the workers of a node; the public names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpc_elastic.agent.api import DEFAULT_ROLE as DEFAULT_ROLE
    from hpc_elastic.agent.api import ElasticAgent as ElasticAgent
    from hpc_elastic.agent.api import MonitorResult as MonitorResult
    from hpc_elastic.agent.api import RunResult as RunResult
    from hpc_elastic.agent.api import Worker as Worker
    from hpc_elastic.agent.api import WorkerGroup as WorkerGroup
    from hpc_elastic.agent.api import WorkerGroupFailureException as WorkerGroupFailureException
    from hpc_elastic.agent.api import WorkerSpec as WorkerSpec
    from hpc_elastic.agent.api import WorkerState as WorkerState
    from hpc_elastic.agent.api import return_values as return_values
    from hpc_elastic.agent.local_elastic import LocalElasticAgent as LocalElasticAgent
    from hpc_elastic.agent.logs_specs import LogsSpecs as LogsSpecs
    from hpc_elastic.agent.simple import SimpleElasticAgent as SimpleElasticAgent
    from hpc_elastic.errors import SignalException as SignalException
    from hpc_elastic.workers.failures import ChildFailedError as ChildFailedError
    from hpc_elastic.workers.failures import ProcessFailure as ProcessFailure
    from hpc_elastic.workers.failures import record as record
    from hpc_elastic.workers.streams import Std as Std

_API = "hpc_elastic.agent.api"
_HOMES = {
    "ChildFailedError": "hpc_elastic.workers.failures",
    "DEFAULT_ROLE": _API,
    "ElasticAgent": _API,
    "LocalElasticAgent": "hpc_elastic.agent.local_elastic",
    "LogsSpecs": "hpc_elastic.agent.logs_specs",
    "MonitorResult": _API,
    "ProcessFailure": "hpc_elastic.workers.failures",
    "RunResult": _API,
    "SignalException": "hpc_elastic.errors",
    "SimpleElasticAgent": "hpc_elastic.agent.simple",
    "Std": "hpc_elastic.workers.streams",
    "Worker": _API,
    "WorkerGroup": _API,
    "WorkerGroupFailureException": _API,
    "WorkerSpec": _API,
    "WorkerState": _API,
    "record": "hpc_elastic.workers.failures",
    "return_values": _API,
}

__all__ = [
    "DEFAULT_ROLE",
    "ChildFailedError",
    "ElasticAgent",
    "LocalElasticAgent",
    "LogsSpecs",
    "MonitorResult",
    "ProcessFailure",
    "RunResult",
    "SignalException",
    "SimpleElasticAgent",
    "Std",
    "Worker",
    "WorkerGroup",
    "WorkerGroupFailureException",
    "WorkerSpec",
    "WorkerState",
    "record",
    "return_values",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
