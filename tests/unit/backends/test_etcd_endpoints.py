"""Endpoints of etcd as people write them, and what is refused before anything is connected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpc_elastic.backends.etcd_endpoints import DEFAULT_PREFIX, Endpoint, parse
from hpc_elastic.errors import BadEnvironment, UsageError


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("host", ["host:2379"]),
        ("host:1", ["host:1"]),
        ("127.0.0.1", ["127.0.0.1:2379"]),
        ("::1", ["[::1]:2379"]),
        ("[::1]", ["[::1]:2379"]),
        ("[::1]:4001", ["[::1]:4001"]),
        ("fe80::1%eth0", ["[fe80::1%eth0]:2379"]),
        ("a,b:1 , [::1]:2", ["a:2379", "b:1", "[::1]:2"]),
        ("http://a,http://b:1/", ["a:2379", "b:1"]),
        ("https://a.example.org:1", ["a.example.org:1"]),
        ("a,a:2379", ["a:2379"]),
    ],
)
def test_hosts_are_read_as_people_write_them(text: str, members: list[str]) -> None:
    assert [str(one) for one in parse(text, {}, {}).endpoints] == members


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no host"),
        (" , ", "names no host"),
        ("h:x", "'x' is no port"),
        ("h:0", "'0' is no port"),
        ("h:65536", "'65536' is no port"),
        ("h:", "'' is no port"),
        (":2379", "'' is no host"),
        ("a b", "'a b' is no host"),
        ("[::1", "is no host"),
        ("1:2:3", "'1:2:3' is no host"),
        ("[::1]x:1", "is no port"),
        ("ftp://a", "use http:// or https://"),
        ("http://a,https://b", "the same for all hosts"),
        ("user:secret@host", "does not belong into an endpoint"),
    ],
)
def test_what_is_no_endpoint_is_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(text, {}, {})


def test_a_refused_endpoint_does_not_repeat_its_password() -> None:
    with pytest.raises(UsageError) as refused:
        parse("http://user:secret@host:1", {}, {})

    assert "secret" not in str(refused.value)


def test_the_defaults_are_plain_http_and_our_prefix() -> None:
    address = parse("host", {}, {})

    assert (address.protocol, address.prefix, address.user) == ("http", DEFAULT_PREFIX, "")
    assert address.endpoints == (Endpoint("host", 2379),)


def test_settings_come_from_the_option_and_else_from_the_environment(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    env = {
        "HPC_ELASTIC_ETCD_CACERT": str(ca),
        "HPC_ELASTIC_ETCD_USER": "env",
        "HPC_ELASTIC_ETCD_PASSWORD": "secret",
        "HPC_ELASTIC_ETCD_PREFIX": "/env",
    }

    address = parse("host", {"user": "option", "etcd_prefix": "/a/b/"}, env)

    assert (address.cacert, address.user, address.prefix) == (str(ca), "option", "/a/b")
    assert address.is_tls
    assert address.password.reveal() == "secret"


def test_a_password_is_never_shown_and_never_taken_from_the_command_line() -> None:
    address = parse("host", {"user": "u"}, {"HPC_ELASTIC_ETCD_PASSWORD": "secret"})

    assert "secret" not in repr(address) + str(address)
    with pytest.raises(UsageError, match="HPC_ELASTIC_ETCD_PASSWORD"):
        parse("host", {"user": "u", "password": "secret"}, {})


def test_a_password_file_must_be_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    file.chmod(0o600)
    assert parse("host", {"user": "u", "password_file": str(file)}, {}).password.reveal() == "secret"

    file.chmod(0o640)

    with pytest.raises(BadEnvironment, match="chmod go-rwx"):
        parse("host", {"user": "u", "password_file": str(file)}, {})
    with pytest.raises(BadEnvironment, match="cannot be read"):
        parse("host", {"user": "u", "password_file": str(tmp_path / "none")}, {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "ftp"}, "expected http or https"),
        ({"cacert": "/nowhere"}, "cacert /nowhere is not a file"),
        ({"key": "/etc/hostname"}, "without a certificate"),
        ({"protocol": "http", "cacert": "/etc/hostname"}, "belong to https"),
        ({"etcd_prefix": "no slash"}, "expected a path such as /hpc_elastic/p2p"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse("host", settings, {})


def test_a_password_without_a_user_is_refused() -> None:
    with pytest.raises(UsageError, match="without a user"):
        parse("host", {}, {"HPC_ELASTIC_ETCD_PASSWORD": "secret"})


def test_a_scheme_and_a_protocol_must_agree() -> None:
    with pytest.raises(UsageError, match="make them agree"):
        parse("http://host", {"protocol": "https"}, {})
