"""Real etcd servers on loopback for tests: started, paused, killed, restarted, emptied, removed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hpc_elastic.backends import etcd_endpoints
from hpc_elastic.backends.etcd_client import EtcdClient, text_of
from hpc_elastic.backends.etcd_endpoints import DEFAULT_PREFIX, PASSWORD_VARIABLE, VARIABLE, EtcdAddress
from hpc_elastic.backends.etcd_transport import EtcdAnswer, Transport
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import BackendUnavailable, HpcElasticError
from hpc_elastic.testing.etcd_certificates import Certificates
from hpc_elastic.testing.etcd_users import admit_by_v2, admit_by_v3
from hpc_elastic.testing.sandbox import ports

PACKAGE: Final = "etcd-server"
_READY_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 20.0
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"


def program(name: str = "etcd") -> str | None:
    """Where a program is, or None."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SBIN}")


@dataclass(frozen=True)
class EtcdOptions:
    """How the servers are set up. `user` may read and write below the default prefix, nothing else."""

    members: int = 1
    v2: bool = False
    gateway: bool = True
    tls: bool = False
    client_certificates: bool = False
    user: str = ""
    password: str = ""
    host: str = "127.0.0.1"


@dataclass
class EtcdMember:
    """One server process with a data directory and two ports of its own."""

    name: str
    folder: Path
    port: int
    command: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its data are those it had."""
        # The kernel ends it with us, should we be killed before we can.
        setpriv = program("setpriv")
        prefix = (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                (*prefix, *self.command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def pause(self) -> None:
        """Stop it where it stands; its sockets stay open and nobody answers."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self._send(signal.SIGKILL)
            self.process.wait(_END_TIMEOUT_S)
            self.process = None

    def wipe(self) -> None:
        """Remove its data; only after `kill`."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def _send(self, signum: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(signum)


@dataclass
class EtcdServer:
    """One server, or a cluster of them, and how to reach it."""

    folder: Path
    options: EtcdOptions
    members: tuple[EtcdMember, ...] = ()
    certificates: Certificates | None = None
    ports: tuple[int, ...] = field(default=())

    @classmethod
    def start(cls, folder: Path, options: EtcdOptions = EtcdOptions()) -> EtcdServer:
        """A server, or a cluster, that answers. Raises `HpcElasticError` with the end of its log."""
        folder.mkdir(parents=True, exist_ok=True)
        chance = random.SystemRandom()
        made = cls(folder, options, ports=ports.choose_row(2 * options.members, draw=chance.randrange))
        if options.tls:
            made.certificates = Certificates.make(folder / "tls")
        made.members = tuple(made._member(number) for number in range(options.members))
        try:
            for member in made.members:
                member.start()
            made.wait_until_ready()
            if options.user:
                made._enable_auth()
        except BaseException:
            made.stop()
            raise
        return made

    @property
    def endpoint(self) -> str:
        """All members, as an option takes them."""
        return ",".join(f"{_bracketed(self.options.host)}:{member.port}" for member in self.members)

    @property
    def settings(self) -> dict[str, str]:
        """What `--rdzv-conf` has to say besides."""
        found = {}
        if self.certificates is not None:
            found["cacert"] = str(self.certificates.ca)
        if self.certificates is not None and self.options.client_certificates:
            found["cert"] = str(self.certificates.cert("client"))
            found["key"] = str(self.certificates.key("client"))
        return found

    @property
    def environment(self) -> dict[str, str]:
        """What the environment has to say besides."""
        if not self.options.user:
            return {}
        return {f"{VARIABLE}_USER": self.options.user, PASSWORD_VARIABLE: self.options.password}

    def address(self, environment: Mapping[str, str] | None = None, **settings: str) -> EtcdAddress:
        """The parsed address; `settings` and `environment` take the place of its own."""
        env = self.environment if environment is None else environment
        return etcd_endpoints.parse(self.endpoint, {**self.settings, **settings}, env, request_timeout_s=2.0)

    def wait_until_ready(self) -> None:
        """Until the members that run take requests."""
        deadline_s = SYSTEM_CLOCK.monotonic_s() + _READY_TIMEOUT_S
        for member in self.members:
            while member.process is not None and not self._is_healthy(member):
                if member.process.poll() is not None or SYSTEM_CLOCK.monotonic_s() > deadline_s:
                    raise HpcElasticError(
                        f"etcd {member.name} does not start; its log ends:\n{_tail(member)}"
                    )
                SYSTEM_CLOCK.sleep_s(0.02)

    def restart(self, *, keeps_data: bool = True) -> None:
        """Kill all members and start them again, ready."""
        for member in self.members:
            member.kill()
            if not keeps_data:
                member.wipe()
        for member in self.members:
            member.start()
        self.wait_until_ready()

    def leader(self) -> EtcdMember:
        """The member that leads the cluster now."""
        for member in self.members:
            status = self._post(member, "/v3/maintenance/status", {})
            if status.get("leader") == status["header"]["member_id"]:
                return member
        raise HpcElasticError("no member of this etcd cluster leads it just now; ask again")

    def compact(self) -> None:
        """Forget the history up to now, as an operator would."""
        client = EtcdClient.open(self.address())
        answer = client.call("/kv/range", {"key": text_of(f"{DEFAULT_PREFIX}/".encode())})
        body = {"revision": answer["header"]["revision"], "physical": True}
        client.call("/kv/compaction", body)
        client.close()

    def stop(self) -> None:
        """End all members and remove their data."""
        for member in self.members:
            member.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _member(self, number: int) -> EtcdMember:
        name = f"m{number}"
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        port, peer_port = self.ports[2 * number], self.ports[2 * number + 1]
        host = _bracketed(self.options.host)
        client_url = f"{'https' if self.options.tls else 'http'}://{host}:{port}"
        peer_url = f"http://{host}:{peer_port}"
        cluster = ",".join(f"m{i}=http://{host}:{self.ports[2 * i + 1]}" for i in range(self.options.members))
        command = (
            str(program()), "--name", name, "--data-dir", str(folder / "data"),
            "--listen-client-urls", client_url, "--advertise-client-urls", client_url,
            "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
            "--initial-cluster", cluster, "--initial-cluster-token", self.folder.name,
            *self._flags(),
        )  # fmt: skip
        return EtcdMember(name, folder, port, command)

    def _flags(self) -> list[str]:
        flags = []
        if self.options.v2:
            flags.append("--enable-v2")
        if not self.options.gateway:
            flags.append("--enable-grpc-gateway=false")
        if self.certificates is not None:
            flags += ["--cert-file", str(self.certificates.cert("server"))]
            flags += ["--key-file", str(self.certificates.key("server"))]
        if self.certificates is not None and self.options.client_certificates:
            flags += ["--client-cert-auth", "--trusted-ca-file", str(self.certificates.ca)]
        return flags

    def _one(self, member: EtcdMember) -> EtcdAddress:
        text = f"{_bracketed(self.options.host)}:{member.port}"
        return etcd_endpoints.parse(text, self.settings, {}, request_timeout_s=2.0)

    def _is_healthy(self, member: EtcdMember) -> bool:
        transport = Transport(self._one(member))
        try:
            return transport.get("/health").get("health") == "true"
        except (BackendUnavailable, EtcdAnswer):
            return False
        finally:
            transport.close()

    def _post(self, member: EtcdMember, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        transport = Transport(self._one(member))
        try:
            return transport.post(path, body, {})
        finally:
            transport.close()

    def _enable_auth(self) -> None:
        address, options = self._one(self.members[0]), self.options
        admit_by_v3(address, options.user, options.password)
        if options.v2:
            admit_by_v2(address, options.user, options.password)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _tail(member: EtcdMember) -> str:
    return "\n".join((member.folder / "log").read_text(errors="replace").splitlines()[-5:])
