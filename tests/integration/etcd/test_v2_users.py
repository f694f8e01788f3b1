"""etcd v2 with a user and a password, against a server that lets guests do nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_elastic.backends.etcd_endpoints import PASSWORD_VARIABLE, SETTINGS, EtcdAddress
from hpc_elastic.backends.etcd_v2 import EtcdV2Backend
from hpc_elastic.errors import BackendRefused
from hpc_elastic.stores.etcd import EtcdStore
from hpc_elastic.testing.etcd_server import EtcdServer

pytestmark = pytest.mark.needs_etcd

PASSWORD = "right-for-v2"
USER = SETTINGS["user"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    from hpc_elastic.testing.etcd_server import EtcdOptions

    started = EtcdServer.start(
        tmp_path_factory.mktemp("etcd-users"), EtcdOptions(v2=True, user="trainer", password=PASSWORD)
    )
    yield started
    started.stop()


def opened(address: EtcdAddress) -> EtcdV2Backend:
    return EtcdV2Backend.open(address, f"run/{os.urandom(6).hex()}")


def test_the_right_password_gives_all_operations_of_a_backend_and_of_a_store(server: EtcdServer) -> None:
    backend = opened(server.address())

    assert backend.create("rounds/1", b"x") == b"x"
    assert backend.create("rounds/1", b"y") == b"x"
    backend.overwrite("nodes/a", b"beat")
    assert backend.read("nodes/a") == b"beat"
    assert backend.names("rounds") == {"1"}
    assert EtcdStore(backend, "stores/1").add("counter", 2) == 2
    backend.remove("rounds/1")
    assert backend.read("rounds/1") is None
    backend.close()


def test_the_password_may_come_from_a_file(server: EtcdServer, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o600)

    backend = opened(server.address({USER: "trainer"}, password_file=str(secret)))

    assert backend.create("rounds/1", b"x") == b"x"
    backend.close()


def test_a_wrong_password_is_refused_by_name_and_shown_to_nobody(server: EtcdServer) -> None:
    with pytest.raises(BackendRefused, match=r"refuses user 'trainer'.* the password is wrong") as refused:
        opened(server.address({USER: "trainer", PASSWORD_VARIABLE: "wrong-for-v2"}))

    assert PASSWORD_VARIABLE in str(refused.value)
    assert "wrong-for-v2" not in str(refused.value)


def test_without_a_user_the_refusal_says_what_to_set(server: EtcdServer) -> None:
    with pytest.raises(BackendRefused, match=f"wants a user and a password; set {USER} and"):
        opened(server.address({}))


def test_keys_outside_of_what_the_user_may_touch_are_named(server: EtcdServer) -> None:
    with pytest.raises(BackendRefused, match="refuses user 'trainer' the keys below /elsewhere"):
        opened(server.address(etcd_prefix="/elsewhere"))
