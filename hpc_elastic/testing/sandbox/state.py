"""What is on record about a sandbox, written before each daemon is started."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from hpc_elastic.errors import SandboxError
from hpc_elastic.testing.sandbox.layout import Layout
from hpc_elastic.testing.sandbox.options import SandboxOptions
from hpc_elastic.testing.sandbox.processes import ProcessId

_SCHEMA: Final = 1


@dataclass(frozen=True)
class DaemonRecord:
    """A daemon that is being started (`process` None) or was started."""

    name: str
    process: ProcessId | None = None


@dataclass(frozen=True)
class SandboxState:
    """One sandbox: how it was asked for, who uses it, what was started."""

    cluster: str
    user: str
    options: SandboxOptions
    controller_port: int
    node_ports: tuple[int, ...]
    is_up: bool = False
    daemons: tuple[DaemonRecord, ...] = ()

    def with_daemon(self, daemon: DaemonRecord) -> SandboxState:
        """The same with one daemon's record added or replaced."""
        return replace(self, daemons=(*self._all_but(daemon.name), daemon))

    def without_daemon(self, name: str) -> SandboxState:
        """The same without one daemon's record."""
        return replace(self, daemons=self._all_but(name))

    def brought_up(self) -> SandboxState:
        """The same, with every daemon answering."""
        return replace(self, is_up=True)

    def process_of(self, daemon: str) -> ProcessId | None:
        """The process on record for a daemon."""
        return next((known.process for known in self.daemons if known.name == daemon), None)

    def _all_but(self, name: str) -> tuple[DaemonRecord, ...]:
        return tuple(known for known in self.daemons if known.name != name)


def write(layout: Layout, state: SandboxState) -> None:
    """Replace the record at once: a reader sees the old one or the new one."""
    temporary = layout.state_file.with_name("sandbox.json.new")
    temporary.write_text(json.dumps({"schema": _SCHEMA, **asdict(state)}, indent=1))
    temporary.chmod(0o644)
    temporary.replace(layout.state_file)


def read(layout: Layout) -> SandboxState | None:
    """The record, or None where there is none."""
    try:
        text = layout.state_file.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise SandboxError(f"cannot read {layout.state_file}: {problem.strerror}") from problem
    try:
        return _parse(json.loads(text))
    except (ValueError, KeyError, TypeError) as problem:
        raise SandboxError(
            f"{layout.state_file} is not a sandbox's record ({problem}); "
            f"`hpc-elastic sandbox down --dir {layout.directory}` removes what is left"
        ) from problem


def _parse(document: dict[str, Any]) -> SandboxState:
    if document["schema"] != _SCHEMA:
        raise ValueError(f"schema {document['schema']}, this version reads {_SCHEMA}")
    daemons = tuple(
        DaemonRecord(item["name"], ProcessId(**item["process"]) if item["process"] else None)
        for item in document["daemons"]
    )
    return SandboxState(
        cluster=document["cluster"],
        user=document["user"],
        options=SandboxOptions(**document["options"]),
        controller_port=document["controller_port"],
        node_ports=tuple(document["node_ports"]),
        is_up=document["is_up"],
        daemons=daemons,
    )
