"""Requests to one of several etcd members over HTTP: the next member when one does not answer.

A request may be sent twice, as may any request to a backend; the connection is kept for the next.
urllib3 is imported with the first connection: an agent that does not use etcd never pays for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hpc_elastic.backends import etcd_failures
from hpc_elastic.backends.etcd_endpoints import VARIABLE, Endpoint, EtcdAddress
from hpc_elastic.errors import BackendRefused, BackendUnavailable

if TYPE_CHECKING:
    from urllib3.connectionpool import HTTPConnectionPool
    from urllib3.response import BaseHTTPResponse

_CONNECT_TIMEOUT_S: Final = 3.0
_KEPT_CONNECTIONS: Final = 4
_MOST_ANSWER_BYTES: Final = 64 * 1024 * 1024

# gRPC codes with which a member says that another one, or it itself later, may do better: unknown,
# deadline exceeded, aborted, internal, unavailable.
_PASSING_CODES: Final = {2, 4, 10, 13, 14}


class EtcdAnswer(Exception):
    """etcd has answered, and the answer is an error. Never leaves this package of modules."""

    def __init__(self, endpoint: Endpoint, status: int, code: int, message: str) -> None:
        super().__init__(f"{endpoint}: {message} (HTTP {status}, code {code})")
        self.endpoint = endpoint
        self.status = status
        self.code = code
        self.message = message

    @property
    def is_passing(self) -> bool:
        """Whether asking another member, or asking again, may help."""
        return self.code in _PASSING_CODES or self.status in (502, 503, 504)

    @property
    def is_of_no_gateway(self) -> bool:
        """Whether the server knows no such path at all."""
        return self.status == 404 and self.code == 0


class Transport:
    """Connections to the members of one cluster. Threads may share it."""

    def __init__(self, address: EtcdAddress) -> None:
        self.address = address
        self._pools: dict[Endpoint, HTTPConnectionPool] = {}
        self._at = 0

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """The answer of the first member that gives one.

        Raises `EtcdAnswer` when it is an error, `BackendUnavailable` when none answers,
        `BackendRefused` when none ever will.
        """
        raw = json.dumps(body, separators=(",", ":")).encode()
        return self._ask("POST", path, raw, headers)

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a plain GET, as `post`."""
        return self._ask("GET", path, None, {})

    @contextmanager
    def stream(
        self, path: str, body: bytes, headers: Mapping[str, str], idle_s: float
    ) -> Iterator[BaseHTTPResponse]:
        """An open answer that goes on until a side ends it, or nothing has come for `idle_s`.

        It comes from the member that answered last; after a failure the next one is asked.
        """
        endpoint = self._endpoint()
        with self._failures(endpoint):
            response = self._pool(endpoint).urlopen(
                "POST", path, body, headers=dict(headers), retries=False, preload_content=False,
                timeout=self._timeout(idle_s),
            )  # fmt: skip
            try:
                if response.status != 200:
                    raise _error(endpoint, response.status, response.data)
                yield response
            finally:
                response.close()

    def move_on(self, endpoint: Endpoint | None = None) -> None:
        """Ask the next member from now on, unless somebody has moved on from `endpoint` already."""
        if endpoint is None or endpoint == self._endpoint():
            self._at = (self._at + 1) % len(self.address.endpoints)

    def close(self) -> None:
        """Give the connections back."""
        for pool in list(self._pools.values()):
            pool.close()

    def _ask(self, method: str, path: str, raw: bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
        failed: Exception | None = None
        for _ in self.address.endpoints:
            endpoint = self._endpoint()
            try:
                with self._failures(endpoint):
                    return self._answer(endpoint, method, path, raw, headers)
            except BackendRefused:
                raise
            except BackendUnavailable as silent:
                failed = silent
            except EtcdAnswer as answer:
                if not answer.is_passing:
                    raise
                failed = etcd_failures.unavailable(self.address, endpoint, answer.message)
            self.move_on(endpoint)
        raise failed or BackendUnavailable(f"etcd {self.address} names no endpoint")

    def _answer(
        self, endpoint: Endpoint, method: str, path: str, raw: bytes | None, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        from urllib3.exceptions import ProtocolError

        def ask() -> BaseHTTPResponse:
            return self._pool(endpoint).urlopen(
                method, path, raw, headers=dict(headers), retries=False, timeout=self._timeout(None)
            )

        try:
            response = ask()
        except ProtocolError:
            response = ask()  # a kept connection that the server had closed, or it was restarted
        if response.status != 200:
            raise _error(endpoint, response.status, response.data)
        return _decode(endpoint, response.data)

    def _endpoint(self) -> Endpoint:
        return self.address.endpoints[self._at % len(self.address.endpoints)]

    def _timeout(self, idle_s: float | None) -> Any:
        from urllib3.util.timeout import Timeout

        limit_s = self.address.request_timeout_s
        return Timeout(connect=min(_CONNECT_TIMEOUT_S, limit_s), read=idle_s or limit_s)

    def _pool(self, endpoint: Endpoint) -> HTTPConnectionPool:
        pool = self._pools.get(endpoint)
        if pool is None:
            pool = self._pools.setdefault(endpoint, self._new_pool(endpoint))
        return pool

    def _new_pool(self, endpoint: Endpoint) -> HTTPConnectionPool:
        from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

        where = self.address
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        if not where.is_tls:
            return HTTPConnectionPool(host, endpoint.port, maxsize=_KEPT_CONNECTIONS)
        return HTTPSConnectionPool(
            host,
            endpoint.port,
            maxsize=_KEPT_CONNECTIONS,
            cert_reqs="CERT_REQUIRED",
            ca_certs=where.cacert or None,
            cert_file=where.cert or None,
            key_file=where.key or None,
        )

    @contextmanager
    def _failures(self, endpoint: Endpoint) -> Iterator[None]:
        """Transport failures as errors of ours, with what to change."""
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (HTTPError, OSError) as failed:
            raise etcd_failures.explain(self.address, endpoint, failed) from failed


def _decode(endpoint: Endpoint, raw: bytes) -> dict[str, Any]:
    if len(raw) > _MOST_ANSWER_BYTES:
        raise BackendUnavailable(f"etcd at {endpoint} answers with {len(raw)} bytes, more than any of ours")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise not_etcd(str(endpoint), repr(raw[:80]))
    return body


def not_etcd(where: str, said: str) -> BackendRefused:
    """Another program answers there."""
    return BackendRefused(
        f"{where} does not answer like etcd: {said[:100]}; check --rdzv-endpoint or {VARIABLE}"
    )


def _error(endpoint: Endpoint, status: int, raw: bytes) -> Exception:
    if b"HTTP request to an HTTPS server" in raw:
        return BackendRefused(f"etcd at {endpoint} speaks TLS only; use protocol=https and give cacert")
    try:
        body = json.loads(raw)
        code, message = int(body.get("code", 0)), str(body.get("message") or body.get("error"))
    except (ValueError, AttributeError, TypeError, RecursionError):
        code, message = 0, raw[:120].decode("utf-8", "replace").strip()
    return EtcdAnswer(endpoint, status, code, message)
