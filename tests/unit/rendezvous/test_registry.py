"""The registry finds creators by name: ours, those registered, and those of installed packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpc_elastic.errors import RendezvousError
from hpc_elastic.rendezvous import (
    EtcdRendezvousHandler,
    RendezvousHandler,
    RendezvousHandlerRegistry,
    RendezvousParameters,
    create_handler,
    get_registry,
)
from hpc_elastic.rendezvous.handler import RecordRendezvousHandler
from hpc_elastic.rendezvous.static import StaticRendezvousHandler

PACKAGE = """
from hpc_elastic.rendezvous.static import FixedWorld, StaticRendezvousHandler
from hpc_elastic.rendezvous import RendezvousStoreInfo

class Handler(StaticRendezvousHandler):
    def get_backend(self):
        return "of-another-package"

def create(params):
    return Handler(FixedWorld(params.run_id, 0, 1, RendezvousStoreInfo("host", 1), ""))
"""


def of(backend: str, endpoint: str = "x") -> RendezvousParameters:
    return RendezvousParameters(backend, endpoint, "run")


def create_static(params: RendezvousParameters) -> RendezvousHandler:
    return StaticRendezvousHandler.parse(params, {})


def test_a_registered_creator_makes_the_handlers_of_its_backend() -> None:
    registry = RendezvousHandlerRegistry()
    registry.register("static", create_static)
    registry.register("static", create_static)

    assert isinstance(registry.create_handler(of("static")), StaticRendezvousHandler)
    assert "static" in registry.names()


def test_another_creator_under_a_name_that_is_taken_is_refused() -> None:
    registry = RendezvousHandlerRegistry()
    registry.register("static", create_static)

    with pytest.raises(ValueError, match="'static' is registered"):
        registry.register("static", lambda params: create_static(params))  # noqa: PLW0108 - another one
    with pytest.raises(ValueError, match="expected a name"):
        registry.register("", create_static)


def test_an_unknown_backend_is_a_value_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'c10d' is not known; known are etcd, etcd-v2, etcd-v3, file"):
        create_handler(of("c10d"))


def test_auto_is_to_be_decided_before() -> None:
    with pytest.raises(ValueError, match="'auto' is decided by the agents"):
        create_handler(of("auto"))


def test_a_creator_that_makes_the_handler_of_another_backend_is_found_out() -> None:
    registry = RendezvousHandlerRegistry()
    registry.register("mine", create_static)

    with pytest.raises(RuntimeError, match=r"'mine' was asked for.*'static'"):
        registry.create_handler(of("mine"))


@pytest.mark.parametrize(
    ("backend", "endpoint", "kind"),
    [
        ("memory", "x", RecordRendezvousHandler),
        ("file", "/shared", RecordRendezvousHandler),
        ("etcd", "host:2379", EtcdRendezvousHandler),
        ("etcd-v3", "host", EtcdRendezvousHandler),
        ("etcd-v2", "h1:1,h2:2", EtcdRendezvousHandler),
        ("static", "host:29400", StaticRendezvousHandler),
    ],
)
def test_our_backends_are_there_and_connect_to_nothing_when_made(
    backend: str, endpoint: str, kind: type[RendezvousHandler]
) -> None:
    handler = get_registry().create_handler(of(backend, endpoint))

    assert isinstance(handler, kind)
    assert handler.get_backend() == backend
    assert handler.get_run_id() == "run"
    assert handler.use_agent_store is False
    assert handler.shutdown() is True


def test_the_file_backend_wants_a_directory() -> None:
    with pytest.raises(ValueError, match="backend file wants a directory"):
        create_handler(of("file", ""))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the path with two installed packages, one of them broken."""
    for name, target in (("good", "hpc_elastic_test_good:create"), ("bad", "hpc_elastic_test_absent:create")):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        backend = "of-another-package" if name == "good" else "broken"
        (info / "entry_points.txt").write_text(f"[hpc_elastic.rendezvous_backends]\n{backend} = {target}\n")
    (tmp_path / "hpc_elastic_test_good.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("hpc_elastic_test_good", None)
    return tmp_path


def test_a_backend_of_another_package_arrives_by_its_entry_point(packages: Path) -> None:
    registry = RendezvousHandlerRegistry()

    assert registry.create_handler(of("of-another-package")).get_backend() == "of-another-package"
    assert registry.names() == ["broken", "of-another-package"]


def test_a_package_that_cannot_be_loaded_is_named(packages: Path) -> None:
    with pytest.raises(RendezvousError, match="'broken' of another package"):
        RendezvousHandlerRegistry().create_handler(of("broken"))
