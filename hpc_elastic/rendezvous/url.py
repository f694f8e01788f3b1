"""The URL form: `etcd://HOST[:PORT]/RUN_ID?min_workers=N...`, and the same for every other backend."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from hpc_elastic.rendezvous.api import RendezvousHandler, RendezvousParameters
from hpc_elastic.rendezvous.registry import RendezvousHandlerRegistry, get_registry

if TYPE_CHECKING:
    from urllib.parse import SplitResult

ETCD_PORT: Final = 2379
_FORM: Final = "write BACKEND://ENDPOINT/RUN_ID?min_workers=N"
_HOSTS: Final = re.compile(r"[^/?#]*")
_LIMITS: Final = ("min_workers", "max_workers")


def handler_from_url(url: str, registry: RendezvousHandlerRegistry | None = None) -> RendezvousHandler:
    """The handler that a URL describes. Raises `ValueError` as `parse` and the registry do."""
    return (registry or get_registry()).create_handler(parse(url))


def parse(url: str) -> RendezvousParameters:
    """The parameters in a URL: scheme, endpoint, run id, and options behind the question mark.

    `min_workers` is required and `max_workers` is the same where it is not given; both count nodes.
    `timeout`, `last_call_timeout`, `etcd_prefix`, `protocol`, `cacert`, `cert`, `key` and all others
    become options. The port of etcd is 2379 where none is given. `file:///shared/runs/RUN_ID` has a
    directory for its endpoint. Raises `ValueError` that names the part that is wrong; a password is
    refused, and not repeated in the message.
    """
    parts = _split(url)
    if "@" in parts.netloc or _is_cut_in_a_password(parts):
        host = parts.netloc.rpartition("@")[2] if "@" in parts.netloc else "..."
        raise ValueError(
            f"{parts.scheme}://...@{host}: no user or password belongs into a "
            "URL; give user and password_file as options, or set HPC_ELASTIC_ETCD_USER and "
            "HPC_ELASTIC_ETCD_PASSWORD"
        )
    options = _options(parts)
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if not parts.scheme:
        raise ValueError(f"rendezvous URL {shown!r} names no backend; {_FORM}")
    endpoint, run_id = _places(parts)
    if not run_id:
        raise ValueError(f"rendezvous URL {shown} names no run; {_FORM}")
    least = _count(options, "min_workers", shown)
    if least is None:
        raise ValueError(f"rendezvous URL {shown} has no min_workers; {_FORM}")
    most = _count(options, "max_workers", shown)
    kept = {name: value for name, value in options.items() if name not in _LIMITS}
    return RendezvousParameters(
        parts.scheme, endpoint, run_id, least, least if most is None else most, config=kept
    )


def _split(url: str) -> SplitResult:
    """The parts of a URL. `urlsplit` knows one host: between commas it refuses an IPv6 address."""
    scheme, _, rest = url.partition("://")
    hosts = _HOSTS.match(rest)
    netloc = hosts.group() if hosts else ""
    return (
        urlsplit(f"{scheme}://host{rest[len(netloc) :]}")._replace(netloc=netloc) if rest else urlsplit(url)
    )


def _is_cut_in_a_password(parts: SplitResult) -> bool:
    """Whether a password with '/', '?' or '#' in it has ended the host: no message may repeat its parts."""
    ports = [host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.split(",")]
    has_more = "@" in parts.path + parts.query + parts.fragment
    return has_more and any(port and not port.isdecimal() for port in ports)


def _options(parts: SplitResult) -> dict[str, str]:
    if parts.fragment:
        raise ValueError(f"rendezvous URL with #{parts.fragment}: write a '#' in an option as %23")
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(given)
    if len(options) < len(given):
        names = [name for name, _ in given]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"rendezvous URL gives {', '.join(twice)} twice; give each option once")
    if "password" in options:
        raise ValueError(
            "rendezvous URL with a password: others can read it; give password_file, or set "
            "HPC_ELASTIC_ETCD_PASSWORD"
        )
    return options


def _places(parts: SplitResult) -> tuple[str, str]:
    """Endpoint and run id. The run id is the last part of the path."""
    folder, _, run_id = parts.path.rpartition("/")
    if parts.scheme.startswith("etcd"):
        if folder.strip("/"):
            raise ValueError(
                f"rendezvous URL with path {parts.path}: expected /RUN_ID; a '/' in it is written %2F"
            )
        if not parts.netloc:
            raise ValueError(f"rendezvous URL {parts.scheme}://{parts.path} names no host; {_FORM}")
        return ",".join(map(_with_port, parts.netloc.split(","))), unquote(run_id)
    return parts.netloc + unquote(folder), unquote(run_id)


def _with_port(host: str) -> str:
    has_port = ":" in host.rpartition("]")[2]
    return host if has_port else f"{host}:{ETCD_PORT}"


def _count(options: dict[str, str], name: str, shown: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ValueError(f"rendezvous URL {shown}: {name}={text}, expected a whole number")
    return int(text)
