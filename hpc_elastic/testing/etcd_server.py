"""Real etcd servers on loopback for tests: started, paused, killed, restarted, emptied, removed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpc_elastic.backends import etcd_endpoints
from hpc_elastic.backends.etcd_client import EtcdClient, text_of
from hpc_elastic.backends.etcd_endpoints import DEFAULT_PREFIX, PASSWORD_VARIABLE, VARIABLE, EtcdAddress
from hpc_elastic.backends.etcd_transport import EtcdAnswer, Transport
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import BackendUnavailable, HpcElasticError
from hpc_elastic.testing.etcd_certificates import Certificates
from hpc_elastic.testing.etcd_member import EtcdMember, program
from hpc_elastic.testing.etcd_users import admit_by_v2, admit_by_v3
from hpc_elastic.testing.sandbox import ports

PACKAGE: Final = "etcd-server"
_READY_TIMEOUT_S: Final = 120.0
# On a busy machine a server may be without a turn, or wait for its disk, for seconds. What has to fail sooner
# is told so.
_REQUEST_TIMEOUT_S: Final = 30.0
_STARTS: Final = 3
_PORT_TAKEN: Final = "address already in use"


class _PortLost(HpcElasticError):
    """Somebody else listens where a server was to."""


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
        for _ in range(_STARTS - 1):
            try:
                return cls._start_once(folder, options)
            except _PortLost:
                continue  # a free port was chosen, and somebody else was quicker to listen there
        return cls._start_once(folder, options)

    @classmethod
    def _start_once(cls, folder: Path, options: EtcdOptions) -> EtcdServer:
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

    def address(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        request_timeout_s: float = _REQUEST_TIMEOUT_S,
        **settings: str,
    ) -> EtcdAddress:
        """The parsed address; `settings` and `environment` take the place of its own."""
        env = self.environment if environment is None else environment
        return etcd_endpoints.parse(
            self.endpoint, {**self.settings, **settings}, env, request_timeout_s=request_timeout_s
        )

    def wait_until_ready(self) -> None:
        """Until the members that run take requests."""
        deadline_s = SYSTEM_CLOCK.monotonic_s() + _READY_TIMEOUT_S
        for member in self.members:
            while member.process is not None and not self._is_healthy(member):
                if member.process.poll() is not None or SYSTEM_CLOCK.monotonic_s() > deadline_s:
                    end = member.end_of_log()
                    kind = _PortLost if _PORT_TAKEN in end else HpcElasticError
                    raise kind(f"etcd {member.name} does not start; its log ends:\n{end}")
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
        """The member that leads the cluster, once one does."""
        deadline_s = SYSTEM_CLOCK.monotonic_s() + _READY_TIMEOUT_S
        while True:
            for member in self.members:
                if self._leads(member):
                    return member
            if SYSTEM_CLOCK.monotonic_s() > deadline_s:
                raise HpcElasticError("no member of this etcd cluster has come to lead it; see their logs")
            SYSTEM_CLOCK.sleep_s(0.02)

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
        return etcd_endpoints.parse(text, self.settings, {}, request_timeout_s=_REQUEST_TIMEOUT_S)

    def _is_healthy(self, member: EtcdMember) -> bool:
        transport = Transport(self._one(member))
        try:
            return transport.get("/health").get("health") == "true"
        except (BackendUnavailable, EtcdAnswer):
            return False
        finally:
            transport.close()

    def _leads(self, member: EtcdMember) -> bool:
        transport = Transport(self._one(member))
        try:
            status = transport.post("/v3/maintenance/status", {}, {})
        except (BackendUnavailable, EtcdAnswer):
            return False
        finally:
            transport.close()
        return bool(status.get("leader") == status["header"]["member_id"])

    def _enable_auth(self) -> None:
        address, options = self._one(self.members[0]), self.options
        admit_by_v3(address, options.user, options.password)
        if options.v2:
            admit_by_v2(address, options.user, options.password)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
