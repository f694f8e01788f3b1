"""A small client of etcd v3 by its JSON gateway: what the backend and the stores need, and no more."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from hpc_elastic.backends.etcd_endpoints import PASSWORD_VARIABLE, SETTINGS, EtcdAddress
from hpc_elastic.backends.etcd_transport import EtcdAnswer, Transport, not_etcd
from hpc_elastic.errors import BackendGone, BackendRefused, BackendUnavailable

# Where the gateway is, by the version of the server (etcd's "Why gRPC gateway" page).
_ROOTS: Final = (((3, 4), "/v3"), ((3, 3), "/v3beta"), ((3, 2), "/v3alpha"))

_STALE_TOKEN: Final = ("invalid auth token", "auth store is old", "user name is empty")
_NO_AUTH: Final = "authentication is not enabled"

Body = Mapping[str, Any]


class NoV3(BackendRefused):
    """The server has no JSON gateway for v3."""


class NoGateway(BackendUnavailable):
    """The server knows no such path: it is of another version, or its gateway is switched off."""


class LeaseGone(Exception):
    """The lease is not there, or not any more. Never leaves this package of modules."""


def text_of(raw: bytes) -> str:
    """Bytes as the gateway writes them."""
    return base64.b64encode(raw).decode("ascii")


def bytes_of(text: str) -> bytes:
    """Bytes as the gateway writes them, back again."""
    return base64.b64decode(text)


def revision_of(answer: Body) -> int:
    """The revision of the store that an answer tells."""
    return int(answer.get("header", {}).get("revision", 0))


def end_of(prefix: bytes) -> bytes:
    """The first key behind all that begin with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


class EtcdClient:
    """One cluster, one user. Threads may share it.

    Every call raises `BackendUnavailable` when it cannot be carried out or its outcome is unknown,
    `BackendRefused` when it never will be, and `BackendGone` when the cluster has lost its data.
    """

    def __init__(self, transport: Transport, root: str) -> None:
        self.transport = transport
        self.root = root
        self.cluster = ""
        self._revision = 0
        self._lost = ""
        self._token = ""
        self._lock = threading.Lock()

    @classmethod
    def open(cls, address: EtcdAddress) -> EtcdClient:
        """A client of a cluster that has answered, and has accepted the user.

        Raises `NoV3` where v3 cannot be had.
        """
        transport = Transport(address)
        client = cls(transport, _ROOTS[0][1])
        try:
            client.try_out()
        except NoGateway:
            client.root = _find_root(transport)
            client.try_out()
        return client

    def try_out(self) -> None:
        """One request, for all that can be wrong: the path, the user, the password, the permission."""
        self.range(f"{self.transport.address.prefix}/".encode())

    def range(self, key: bytes, end: bytes = b"", *, keys_only: bool = False) -> list[dict[str, Any]]:
        """The stored keys from `key` up to `end`, or just `key`; as the gateway tells them."""
        body = self.range_body(key, end, keys_only=keys_only)
        found: list[dict[str, Any]] = self._stored("/kv/range", body).get("kvs", [])
        return found

    @staticmethod
    def range_body(key: bytes, end: bytes = b"", *, keys_only: bool = False) -> dict[str, Any]:
        """A range, alone or inside of a transaction."""
        body: dict[str, Any] = {"key": text_of(key)}
        if end:
            body["range_end"] = text_of(end)
        return {**body, "keys_only": True} if keys_only else body

    def get(self, key: bytes) -> tuple[bytes | None, int]:
        """The value under `key`, or None, and the revision of the store that was read."""
        answer = self._stored("/kv/range", {"key": text_of(key)})
        found = answer.get("kvs", [])
        value = bytes_of(found[0].get("value", "")) if found else None
        return value, revision_of(answer)

    def put(self, values: Mapping[bytes, bytes], lease: int = 0) -> int:
        """Store all `values` at once; the revision of that. Raises `LeaseGone`."""
        puts = [{"request_put": self.put_body(key, value, lease)} for key, value in values.items()]
        return revision_of(self.txn([], puts, []))

    def txn(
        self, compare: Sequence[Body], success: Sequence[Body], failure: Sequence[Body]
    ) -> dict[str, Any]:
        """Carry out `success` if all of `compare` holds, else `failure`; the answers. Raises `LeaseGone`."""
        return self._stored("/kv/txn", {"compare": compare, "success": success, "failure": failure})

    @staticmethod
    def put_body(key: bytes, value: bytes, lease: int = 0) -> dict[str, Any]:
        """A put, alone or inside of a transaction."""
        body = {"key": text_of(key), "value": text_of(value)}
        return {**body, "lease": str(lease)} if lease else body

    def delete(self, key: bytes) -> None:
        """Remove `key` and everything below it."""
        below = {"key": text_of(key + b"/"), "range_end": text_of(end_of(key + b"/"))}
        deletes = [{"request_delete_range": {"key": text_of(key)}}, {"request_delete_range": below}]
        self.txn([], deletes, [])

    def grant(self, lease: int, ttl_s: int) -> None:
        """A lease of that number; nothing happens where it is there already."""
        try:
            self.call("/lease/grant", {"ID": str(lease), "TTL": str(ttl_s)})
        except EtcdAnswer as answer:
            if "lease already exists" not in answer.message:
                raise self._refused(answer) from answer

    def keep_alive(self, lease: int) -> bool:
        """Renew a lease; whether it was there."""
        answer = self._checked("/lease/keepalive", {"ID": str(lease)})
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    def revoke(self, lease: int) -> None:
        """End a lease, and with it all its keys."""
        try:
            self._checked("/lease/revoke", {"ID": str(lease)})
        except LeaseGone:
            return

    def headers(self) -> dict[str, str]:
        """The headers of a request of this user."""
        token = self._token or self._log_in()
        return {"Authorization": token} if token else {}

    def forget_token(self) -> None:
        """Log in anew with the next request."""
        self._token = ""

    def call(self, path: str, body: Body) -> dict[str, Any]:
        """The answer to one request; a stale token is renewed. Raises `EtcdAnswer`."""
        try:
            return self.transport.post(self.root + path, body, self.headers())
        except EtcdAnswer as answer:
            if not self.transport.address.user or not _is_stale(answer):
                raise
        self.forget_token()
        return self.transport.post(self.root + path, body, self.headers())

    def close(self) -> None:
        """Give the connections back."""
        self.transport.close()

    def _stored(self, path: str, body: Body) -> dict[str, Any]:
        """`_checked`, and the store has not gone back in its history meanwhile."""
        if self._lost:  # its new history overtakes the old one before long, and is another all the same
            raise BackendGone(self._lost)
        known = self._revision
        answer = self._checked(path, body)
        revision, cluster = self._origin(answer)
        self.cluster = self.cluster or cluster
        if revision < known:
            self._lost = (
                f"etcd at {self.transport.address} has lost its data (it was at revision {known} and is at "
                f"{revision}): it was set up anew or restored; start the run again, its ledger is in the "
                "run directory"
            )
            raise BackendGone(self._lost)
        self._revision = max(self._revision, revision)
        return answer

    def _origin(self, answer: Body) -> tuple[int, str]:
        """The revision and the cluster that an answer is of. A proxy that speaks in etcd's stead has none:
        it would look like a store that has lost its data."""
        try:
            header = answer["header"]
            return int(header["revision"]), f"{int(header['cluster_id']):x}"
        except (KeyError, TypeError, ValueError) as bad:
            raise not_etcd(str(self.transport.address), str(answer)) from bad

    def _checked(self, path: str, body: Body) -> dict[str, Any]:
        try:
            return self.call(path, body)
        except EtcdAnswer as answer:
            if "lease not found" in answer.message:
                raise LeaseGone(answer.message) from answer
            raise self._refused(answer) from answer

    def _log_in(self) -> str:
        where = self.transport.address
        if not where.user:
            return ""
        with self._lock:
            if self._token:
                return self._token
            body = {"name": where.user, "password": where.password.reveal()}
            try:
                answer = self.transport.post(f"{self.root}/auth/authenticate", body, {})
            except EtcdAnswer as refusal:
                if _NO_AUTH in refusal.message:
                    return ""
                raise self._refused(refusal) from refusal
            self._token = str(answer.get("token", ""))
            return self._token

    def _refused(self, answer: EtcdAnswer) -> BackendUnavailable:
        return explain(self.transport.address, answer)


def explain(address: EtcdAddress, answer: EtcdAnswer) -> BackendUnavailable:
    """An error of etcd as one of ours, with what to change."""
    where = f"etcd at {address.protocol}://{answer.endpoint}"
    said = answer.message
    if answer.is_of_no_gateway:
        return NoGateway(f"{where} has no JSON gateway where it was looked for (HTTP 404: {said})")
    if "authentication failed" in said:
        return BackendRefused(
            f"{where} refuses user {address.user!r} with this password; correct {PASSWORD_VARIABLE} or the "
            f"password file, or the user ({SETTINGS['user']})"
        )
    if "user name is empty" in said:
        return BackendRefused(
            f"{where} wants a user and a password; set {SETTINGS['user']} and {PASSWORD_VARIABLE}"
        )
    if "permission denied" in said:
        return BackendRefused(
            f"{where} denies user {address.user!r} the keys below {address.prefix}; have them granted for "
            "reading and writing, or choose another etcd_prefix"
        )
    if "database space exceeded" in said:
        return BackendUnavailable(
            f"{where} takes no writes: its database is full; compact and defragment it, then "
            "`etcdctl alarm disarm`"
        )
    if "too large" in said or "larger than max" in said:
        return BackendRefused(f"{where} refuses a request ({said}); raise its --max-request-bytes")
    return BackendUnavailable(f"{where} answers: {said} (code {answer.code}); it is tried again")


@contextmanager
def answers_explained(client: EtcdClient) -> Iterator[None]:
    """For a request made by `call`: errors of etcd become errors of ours."""
    try:
        yield
    except EtcdAnswer as answer:
        raise explain(client.transport.address, answer) from answer


def _is_stale(answer: EtcdAnswer) -> bool:
    return any(known in answer.message for known in _STALE_TOKEN)


def _find_root(transport: Transport) -> str:
    """The path of the gateway. Raises `NoV3` where there is none."""
    try:
        told = str(transport.get("/version").get("etcdserver", ""))
    except EtcdAnswer as answer:
        raise explain(transport.address, answer) from answer
    version = _version(told)
    root = next((path for since, path in _ROOTS if version >= since), None)
    where = transport.address
    if root is None:
        raise NoV3(f"etcd at {where} is of version {told} and speaks v2 only; use --rdzv-backend etcd-v2")
    try:
        transport.post(f"{root}/kv/range", {"key": text_of(b"\0")}, {})
    except EtcdAnswer as answer:
        if answer.is_of_no_gateway:
            raise NoV3(
                f"etcd {told} at {where} has its JSON gateway switched off; start it without "
                "--enable-grpc-gateway=false, or use --rdzv-backend etcd-v2"
            ) from answer
    return root


def _version(told: str) -> tuple[int, int]:
    numbers = told.split(".")[:2]
    if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
        return int(numbers[0]), int(numbers[1])
    return (0, 0)
