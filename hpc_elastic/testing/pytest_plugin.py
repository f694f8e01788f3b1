"""Fixtures that give a test a private real Slurm or etcd: ours, and those of projects built on this one.

`slurm_sandbox`       one sandbox for the whole session: four nodes, 20 s of grace, requeue
`make_slurm_sandbox`  others, by the options of `SandboxOptions`
`user_dir`            an empty directory that the sandbox's ordinary user owns
`etcd_server`         one etcd for the whole session: a single member that speaks v3 and v2
`make_etcd_server`    others, by the options of `EtcdOptions`: clusters, TLS, users

Where Slurm is not installed, or we are not root, or where etcd is not installed, the tests are
skipped with the reason. With `--require slurm,etcd` (an option of this project's own tests) that is a
failure.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from hpc_elastic.testing.etcd_server import EtcdServer
    from hpc_elastic.testing.sandbox import Sandbox

# pytest is loaded with this plug-in everywhere the package is installed: nothing is imported here
# that a fixture does not need in that moment.

# Sockets need short paths, and the ordinary user must be able to enter: pytest's own tmp_path is
# neither.
_ROOT: Final = Path("/tmp")
_PREFIX: Final = "hpc_elastic-sandbox-"


@pytest.fixture(scope="session")
def make_slurm_sandbox(request: pytest.FixtureRequest) -> Iterator[Callable[..., Sandbox]]:
    """Bring up a sandbox with the given `SandboxOptions`; all are down at the end of the session.

    A test may end its own earlier: `sandbox.down()`.
    """
    _skip_without_slurm(request.config)
    from hpc_elastic.testing.sandbox import Sandbox, SandboxOptions

    _clear_abandoned()
    made: list[Sandbox] = []
    numbers = itertools.count(1)

    def make(**options: Any) -> Sandbox:
        sandbox = Sandbox.up(_ROOT / f"{_owner()}-{next(numbers)}", SandboxOptions(**options))
        made.append(sandbox)
        return sandbox

    yield make
    with contextlib.ExitStack() as ends:  # the failure of one must not keep the others up
        for sandbox in made:
            ends.callback(_end, sandbox)


@pytest.fixture(scope="session")
def slurm_sandbox(make_slurm_sandbox: Callable[..., Sandbox]) -> Sandbox:
    """The sandbox that tests share; leave no job of yours in it."""
    return make_slurm_sandbox()


@pytest.fixture
def user_dir(slurm_sandbox: Sandbox) -> Iterator[Path]:
    """An empty directory owned by the ordinary user of `slurm_sandbox`."""
    made = Path(tempfile.mkdtemp(prefix="hpc_elastic-test-", dir=_ROOT))
    os.chown(made, slurm_sandbox.user.uid, slurm_sandbox.user.gid)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def make_etcd_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., EtcdServer]]:
    """Start a server, or a cluster, with the given `EtcdOptions`; all end with the session.

    A test may end its own earlier: `server.stop()`.
    """
    from hpc_elastic.testing import etcd_member, etcd_server

    if etcd_member.program() is None:
        _skip(request.config, "etcd", f"etcd not installed: apt-get install {etcd_server.PACKAGE}")
    made: list[EtcdServer] = []

    def make(**options: Any) -> EtcdServer:
        folder = tmp_path_factory.mktemp("etcd")
        server = etcd_server.EtcdServer.start(folder, etcd_server.EtcdOptions(**options))
        made.append(server)
        return server

    yield make
    with contextlib.ExitStack() as ends:  # the failure of one must not keep the others up
        for server in made:
            ends.callback(server.stop)


@pytest.fixture(scope="session")
def etcd_server(make_etcd_server: Callable[..., EtcdServer]) -> EtcdServer:
    """The server that tests share; leave it running, and use a space of your own."""
    return make_etcd_server(v2=True)


def _skip_without_slurm(config: pytest.Config) -> None:
    from hpc_elastic.testing.sandbox import packages

    missing = packages.missing_programs(accounting=False)
    if missing:
        reason = packages.describe_missing(missing)
    elif os.geteuid() != 0:
        reason = "a private Slurm needs root"
    else:
        return
    _skip(config, "slurm", reason)


def _skip(config: pytest.Config, service: str, reason: str) -> NoReturn:
    """Skip the test for want of a service, or fail it where that service is required."""
    required = str(config.getoption("--require", default="")).split(",")
    if service in (name.strip() for name in required):
        pytest.fail(f"--require {service}: {reason}", pytrace=False)
    pytest.skip(reason)


def _end(sandbox: Sandbox) -> None:
    if sandbox.directory.exists():
        sandbox.down()


def _owner() -> str:
    """This process, named so that no later one can be mistaken for it."""
    from hpc_elastic.testing.sandbox import processes

    me = processes.ourselves()
    return f"{_PREFIX}{me.pid}-{me.start_time}"


def _clear_abandoned() -> None:
    """End sandboxes of sessions that were killed and could not do it themselves."""
    from hpc_elastic.errors import SandboxError
    from hpc_elastic.testing.sandbox import processes
    from hpc_elastic.testing.sandbox.layout import Layout
    from hpc_elastic.testing.sandbox.sandbox import bring_down

    for left in _ROOT.glob(f"{_PREFIX}*-*-*"):
        pid, start_time, _ = left.name.removeprefix(_PREFIX).split("-")
        if processes.is_alive(processes.ProcessId(int(pid), int(start_time))):
            continue
        # Another session may be at it, or be done with it by now; and what is not ours stays.
        with contextlib.suppress(SandboxError, FileNotFoundError):
            bring_down(Layout(left))
