"""Where an etcd is and how to talk to it: parsed once, from an option, its settings and the environment.

Passwords come from a file or from the environment only: a command line, a URL and a record are
read by others.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hpc_elastic.errors import BadEnvironment, UsageError
from hpc_elastic.values import dataclass

DEFAULT_PORT: Final = 2379
DEFAULT_PREFIX: Final = "/hpc_elastic/p2p"
REQUEST_TIMEOUT_S: Final = 5.0
VARIABLE: Final = "HPC_ELASTIC_ETCD"

# Key of `--rdzv-conf`, or of a rendezvous URL, and the variable that stands in where it is not given.
SETTINGS: Final[dict[str, str]] = {
    "protocol": f"{VARIABLE}_PROTOCOL",
    "cacert": f"{VARIABLE}_CACERT",
    "cert": f"{VARIABLE}_CERT",
    "key": f"{VARIABLE}_KEY",
    "user": f"{VARIABLE}_USER",
    "password_file": f"{VARIABLE}_PASSWORD_FILE",
    "etcd_prefix": f"{VARIABLE}_PREFIX",
}
PASSWORD_VARIABLE: Final = f"{VARIABLE}_PASSWORD"

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9._-]+)+")


class Password:
    """A text that no log, message or traceback shows by accident."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The password itself, for the one request that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "'***'" if self._text else "''"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.reveal() == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True)
class Endpoint:
    """One member of an etcd cluster. `host` has no brackets; `str()` has them where it needs them."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class EtcdAddress:
    """Everything that a connection needs. A request is given up after `request_timeout_s`."""

    endpoints: tuple[Endpoint, ...]
    is_tls: bool = False
    cacert: str = ""
    cert: str = ""
    key: str = ""
    user: str = ""
    password: Password = Password()
    prefix: str = DEFAULT_PREFIX
    request_timeout_s: float = REQUEST_TIMEOUT_S

    @property
    def protocol(self) -> str:
        """`http` or `https`."""
        return "https" if self.is_tls else "http"

    def __str__(self) -> str:
        return f"{self.protocol}://{','.join(map(str, self.endpoints))}"


def configured(given: str, env: Mapping[str, str]) -> str:
    """The endpoints that were named: by option, else by the environment; empty where by neither."""
    return given or env.get(VARIABLE, "")


def parse(
    text: str,
    settings: Mapping[str, str],
    env: Mapping[str, str],
    *,
    request_timeout_s: float = REQUEST_TIMEOUT_S,
) -> EtcdAddress:
    """The address that `text` and `settings` give; the environment stands in for settings not given.

    Raises `UsageError` for what cannot be used, with nothing connected.
    """
    chosen = {name: settings.get(name, "") or env.get(variable, "") for name, variable in SETTINGS.items()}
    if "password" in settings:
        raise UsageError(
            f"a password does not belong on a command line or into a URL: set {PASSWORD_VARIABLE}, or "
            "password_file to a file that only you can read"
        )
    endpoints, named_protocol = _endpoints(text)
    is_tls = _is_tls(named_protocol, chosen)
    prefix = (chosen["etcd_prefix"] or DEFAULT_PREFIX).rstrip("/")
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"etcd_prefix {prefix!r}: expected a path such as {DEFAULT_PREFIX}")
    _check_files(chosen)
    password = _password(chosen["password_file"], env)
    if password.reveal() and not chosen["user"]:
        raise UsageError(f"an etcd password without a user: set user, or {SETTINGS['user']}")
    return EtcdAddress(
        endpoints=endpoints,
        is_tls=is_tls,
        cacert=chosen["cacert"],
        cert=chosen["cert"],
        key=chosen["key"],
        user=chosen["user"],
        password=password,
        prefix=prefix,
        request_timeout_s=request_timeout_s,
    )


def _endpoints(text: str) -> tuple[tuple[Endpoint, ...], str]:
    """All members in `text`, and the protocol where a scheme names it."""
    found: list[Endpoint] = []
    protocols: set[str] = set()
    for word in filter(None, (each.strip() for each in text.split(","))):
        scheme, has_scheme, rest = word.rpartition("://")
        if has_scheme:
            protocols.add(scheme.lower())
        found.append(_endpoint(rest.rstrip("/"), word))
    if not found:
        raise UsageError(f"etcd endpoint {text!r} names no host; write HOST:PORT, several with commas")
    if len(protocols) > 1 or not protocols <= {"http", "https"}:
        raise UsageError(f"etcd endpoint {text}: use http:// or https://, the same for all hosts, or neither")
    return tuple(dict.fromkeys(found)), protocols.pop() if protocols else ""


def _endpoint(text: str, whole: str) -> Endpoint:
    if "@" in text:
        shown = text.rpartition("@")[2]
        raise UsageError(
            f"etcd endpoint ...@{shown}: a user or password does not belong into an endpoint; set "
            f"{SETTINGS['user']} and {PASSWORD_VARIABLE}"
        )
    host, port = _split(text)
    if not (_is_ipv6(host) if ":" in host else _HOST.fullmatch(host)):
        raise UsageError(f"etcd endpoint {whole}: {host!r} is no host; write HOST:PORT or [IPV6]:PORT")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"etcd endpoint {whole}: {port!r} is no port from 1 to 65535")
    return Endpoint(host, int(port))


def _split(text: str) -> tuple[str, str]:
    """Host and port: an IPv6 address is in brackets when a port follows, and needs none when not."""
    if text.startswith("[") and "]" in text:
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") if rest else str(DEFAULT_PORT)
    if text.count(":") > 1:
        return text, str(DEFAULT_PORT)
    host, colon, port = text.partition(":")
    return host, port if colon else str(DEFAULT_PORT)


def _is_ipv6(host: str) -> bool:
    from ipaddress import IPv6Address

    try:
        IPv6Address(host)  # with its zone, if it has one
    except ValueError:
        return False
    return True


def _is_tls(named: str, chosen: Mapping[str, str]) -> bool:
    protocol = (chosen["protocol"] or named).lower()
    if protocol not in ("", "http", "https"):
        raise UsageError(f"protocol {protocol!r}: expected http or https")
    if named and protocol != named:
        raise UsageError(f"protocol {protocol} and an endpoint with {named}://; make them agree")
    has_files = bool(chosen["cacert"] or chosen["cert"])
    if protocol == "http" and has_files:
        raise UsageError("cacert and cert belong to https; use protocol=https, or drop them")
    return protocol == "https" or has_files


def _check_files(chosen: Mapping[str, str]) -> None:
    for name in ("cacert", "cert", "key"):
        if chosen[name] and not Path(chosen[name]).is_file():
            raise UsageError(f"{name} {chosen[name]} is not a file; correct it, or {SETTINGS[name]}")
    if chosen["key"] and not chosen["cert"]:
        raise UsageError(f"key {chosen['key']} without a certificate; give cert too")


def _password(file: str, env: Mapping[str, str]) -> Password:
    if not file:
        return Password(env.get(PASSWORD_VARIABLE, ""))
    try:
        mode = Path(file).stat().st_mode
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as bad:
        raise BadEnvironment(f"password_file {file} cannot be read: {bad}") from bad
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadEnvironment(f"password_file {file} can be read by others; `chmod go-rwx {file}`")
    return Password(text.removesuffix("\n").removesuffix("\r"))
