"""Which backend `hpc-elastic run` was told to use, from options and environment; connects to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hpc_elastic.cli.run_options import RunOptions
from hpc_elastic.errors import UsageError
from hpc_elastic.rendezvous import choice
from hpc_elastic.rendezvous.choice import Wanted

if TYPE_CHECKING:
    from hpc_elastic.backends.etcd_endpoints import EtcdAddress

_VARIABLE: Final = "HPC_ELASTIC_ETCD"
_LONGEST_REQUEST_S: Final = 5.0
_SHORTEST_REQUEST_S: Final = 1.0


def wanted(options: RunOptions, env: Mapping[str, str]) -> Wanted:
    """What this node was told. Raises `UsageError` for an etcd that cannot be meant."""
    name = options.rdzv_backend
    if name == choice.FILE and options.rdzv_endpoint:
        raise UsageError(
            f"--rdzv-endpoint {options.rdzv_endpoint} with --rdzv-backend file: drop one of the two"
        )
    if options.is_standalone and name == choice.AUTO and not options.rdzv_endpoint:
        name = choice.FILE  # nobody else is to be met
    endpoint = options.rdzv_endpoint or env.get(_VARIABLE, "")
    address_of = _parser(options, env)
    if name == choice.FILE or (name == choice.AUTO and not endpoint):
        return Wanted(name, None, address_of)
    if not endpoint:
        raise UsageError(
            f"--rdzv-backend {name} without an address: give --rdzv-endpoint HOST:PORT, or {_VARIABLE}"
        )
    return Wanted(name, address_of(endpoint), address_of)


def from_outside(options: RunOptions, env: Mapping[str, str]) -> Wanted:
    """How to reach the etcd of a run that was started with `options`, from a shell with environment `env`.

    What the record says is reached by the run's settings, for which the environment stands in.
    """
    address_of = _parser(options, env)
    endpoint = options.rdzv_endpoint or env.get(_VARIABLE, "")
    return Wanted(choice.AUTO, address_of(endpoint) if endpoint else None, address_of)


def _parser(options: RunOptions, env: Mapping[str, str]) -> Callable[[str], EtcdAddress]:
    def address_of(text: str) -> EtcdAddress:
        from hpc_elastic.backends import etcd_endpoints

        # A member that does not answer must not make this node look silent for several heartbeats.
        timeout_s = min(_LONGEST_REQUEST_S, max(_SHORTEST_REQUEST_S, options.conf["heartbeat"]))
        return etcd_endpoints.parse(text, options.etcd_settings, env, request_timeout_s=timeout_s)

    return address_of
