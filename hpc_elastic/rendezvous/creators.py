"""The handlers of our own backends, made from parameters."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from hpc_elastic import settings
from hpc_elastic.backends.base import Backend
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import RunDirectoryError
from hpc_elastic.rendezvous import keys
from hpc_elastic.rendezvous.api import RendezvousHandler, RendezvousParameters, own_address
from hpc_elastic.rendezvous.handler import EtcdRendezvousHandler, Part, RecordRendezvousHandler
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings

_LOOPBACK: Final = "127.0.0.1"
_NO_LIMIT: Final = 2**31
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
# A file name ends at 255 bytes, and a node or a temporary may add to it.
_LONGEST_SEGMENT: Final = 180
_TIMES: Final = (
    "join_timeout timeout last_call_timeout close_timeout heartbeat_timeout heartbeat join_window store_lost"
)
_OPTIONS: Final = frozenset(
    f"{_TIMES} min_nodes max_nodes allow_loopback job_id node_name restart_count".split()
)
_OPTIONS_OF_STATIC: Final = frozenset(f"{_TIMES} min_nodes max_nodes rank store_dir restart_count".split())

# The records of `memory`, by endpoint and run id: the nodes are threads of this process.
_MEMORY: Final[dict[tuple[str, str], MemoryBackend]] = {}
_MEMORY_LOCK: Final = threading.Lock()


def create_memory(params: RendezvousParameters) -> RendezvousHandler:
    """Nodes that are threads of one process; `endpoint` is any word that they share."""

    _warn_of_unknown(params)

    def open_backend() -> Backend:
        with _MEMORY_LOCK:
            return _MEMORY.setdefault((params.endpoint, params.run_id), MemoryBackend())

    return RecordRendezvousHandler(_part(params, address=params.local_addr or _LOOPBACK), open_backend)


def create_file(params: RendezvousParameters) -> RendezvousHandler:
    """Nodes that share the directory `endpoint`; the run is below it, with mode 0700.

    Raises `ValueError` without an `endpoint`. The first use raises `RunDirectoryError` where the run's
    directory belongs to somebody else, or others can write to it.
    """
    if not params.endpoint:
        raise ValueError("rendezvous endpoint '': backend file wants a directory that all nodes share")
    if "\0" in str(params.endpoint):
        raise ValueError(f"rendezvous endpoint {params.endpoint!r}: no directory has such a name")
    _warn_of_unknown(params)
    root = Path(params.endpoint).absolute() / _segment(params.run_id)

    def open_backend() -> Backend:
        from hpc_elastic.backends.file import FileBackend

        _refuse_foreign(root)
        return FileBackend(root)

    return RecordRendezvousHandler(_part(params), open_backend)


def create_etcd(params: RendezvousParameters) -> RendezvousHandler:
    """Nodes that reach the etcd at `endpoint`, `HOST[:PORT]`, several with commas.

    Backend `etcd` takes v3 where the server speaks it, else v2; `etcd-v3` and `etcd-v2` force one. The
    options are `etcd_prefix`, `protocol`, `cacert`, `cert`, `key`, `user` and `password_file`; with
    `run_dir` the ledger of the run is kept in that directory too, as an agent keeps it.
    """
    return make_etcd(params, os.environ)  # noqa: TID251 - the password may be there, and nowhere else


def make_etcd(params: RendezvousParameters, env: Mapping[str, str]) -> RendezvousHandler:
    """The same with the environment given. Raises `UsageError` for an address that cannot be used."""
    from hpc_elastic.backends import etcd_endpoints

    _warn_of_unknown(params, {*_etcd_options(), "run_dir"})
    given = {name: str(value) for name, value in params.config.items() if name in _etcd_options()}
    address = etcd_endpoints.parse(etcd_endpoints.configured(params.endpoint, env), given, env)

    def open_backend() -> Backend:
        from hpc_elastic.rendezvous.choice import open_etcd

        live = open_etcd(params.backend, address, _segment(params.run_id), SYSTEM_CLOCK)[1]
        run_dir = params.get("run_dir")
        return live if run_dir is None else _with_ledger(live, Path(run_dir).absolute())

    return EtcdRendezvousHandler(_part(params), open_backend)


def create_static(params: RendezvousParameters) -> RendezvousHandler:
    """A fixed world of `min_nodes` nodes: see `static.StaticRendezvousHandler`."""
    from hpc_elastic.rendezvous.static import StaticRendezvousHandler

    _warn_of_unknown(params, known=_OPTIONS_OF_STATIC)
    return StaticRendezvousHandler.parse(params, os.environ)  # noqa: TID251 - this world is told by it


def _with_ledger(live: Backend, run_dir: Path) -> Backend:
    from hpc_elastic.backends.file import FileBackend
    from hpc_elastic.rendezvous.mirrored import MirroredBackend

    _refuse_foreign(run_dir)
    return MirroredBackend.open(live, FileBackend(run_dir / "record"))


def _etcd_options() -> frozenset[str]:
    from hpc_elastic.backends.etcd_endpoints import SETTINGS

    return frozenset({*SETTINGS, "password"})


def _warn_of_unknown(
    params: RendezvousParameters, more: Iterable[str] = (), known: frozenset[str] = _OPTIONS
) -> None:
    """Say which options have no effect: one with a slip in its name would otherwise just be without any."""
    known = known.union(more)
    unknown = sorted(map(str, set(params.config) - known))
    if unknown:
        warnings.warn(
            f"rendezvous backend {params.backend!r} does not use the options {', '.join(unknown)}; "
            f"it knows {', '.join(sorted(known - {'password'}))}",
            stacklevel=3,
        )


def _checked_run_id(run_id: object) -> str:
    """Runs that have no name of their own would all be the same one."""
    if not isinstance(run_id, str) or not run_id:
        raise ValueError(f"rendezvous run id {run_id!r}: expected a text, the same for all nodes of a run")
    return run_id


def _at_least(least: int, name: str, given: object) -> int:
    if type(given) is not int or not least <= given < 2**31:
        raise ValueError(f"{name} {given!r}: expected a whole number of at least {least}")
    return given


def _part(params: RendezvousParameters, address: str = "") -> Part:
    timeout = params.timeout
    may_be_local = params.get_as_bool("allow_loopback", default=address == _LOOPBACK)
    host = own_address()
    return Part(
        backend=params.backend,
        run_id=_checked_run_id(params.run_id),
        start=JobStart("", str(params.get("job_id", params.run_id)), "", _restart_count(params)),
        seat=Seat(
            name=str(params.get("node_name", host.partition(".")[0])),
            order=_at_least(0, "node_rank", params.node_rank),
            host=host,
            address=address or params.local_addr or (_LOOPBACK if may_be_local else host),
            slots=_at_least(1, "local_world_size", params.local_world_size),
        ),
        settings=Settings(
            min_nodes=params.min_nodes,
            max_nodes=params.max_nodes,
            expected_nodes=params.max_nodes,
            # What failures lead to is for those who use the handler; the record only counts them.
            max_restarts=_NO_LIMIT,
            restart_backoff_s=0.0,
            same_failures=0,
            node_failures=0,
            heartbeat_s=timeout.heartbeat.total_seconds(),
            join_timeout_s=timeout.join.total_seconds(),
            last_call_s=timeout.last_call.total_seconds(),
            join_window_s=_seconds(params, "join_window", settings.JOIN_WINDOW_S),
            store_lost_s=_seconds(params, "store_lost", settings.STORE_LOST_S),
            allow_loopback=bool(may_be_local),
        ),
        close_timeout=timeout.close,
    )


def _restart_count(params: RendezvousParameters) -> int:
    """Which start of the run this is, where somebody counts: older ones are ended by it."""
    return params.get_as_int("restart_count", 0) or 0


def _seconds(params: RendezvousParameters, name: str, default_s: float) -> float:
    given = params.get_as_seconds(name)
    seconds = default_s if given is None else given.total_seconds()
    if seconds < 0:
        raise ValueError(f"rendezvous option {name}={params.get(name)!r}: expected at least 0 s")
    return seconds


def _segment(run_id: str) -> str:
    """A name for the run in a directory or an etcd: none can reach elsewhere, and none is too long."""
    written = keys.segment(_checked_run_id(run_id))
    if len(written) <= _LONGEST_SEGMENT:
        return f"run-{written}"
    whole = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()
    # No segment has two underscores with nothing between them.
    return f"run-{written[: _LONGEST_SEGMENT - len(whole)]}__{whole}"


def _refuse_foreign(root: Path) -> None:
    try:
        found = root.stat()
    except OSError:
        return  # it will be made, or the first write says why not
    move = "give another endpoint, or another run id"
    if found.st_uid != os.geteuid():
        raise RunDirectoryError(
            f"directory {root} belongs to uid {found.st_uid}, not to you ({os.geteuid()}); {move}"
        )
    if found.st_mode & _OTHERS_WRITE:
        raise RunDirectoryError(
            f"directory {root} has mode {stat.S_IMODE(found.st_mode):04o}: others could change the run; "
            f"`chmod go-w {root}`"
        )
