"""Why an etcd member could not be talked to, said so that a person knows what to change."""

from __future__ import annotations

from hpc_elastic.backends.etcd_endpoints import VARIABLE, Endpoint, EtcdAddress
from hpc_elastic.errors import BackendRefused, BackendUnavailable


def explain(address: EtcdAddress, endpoint: Endpoint, failed: BaseException) -> BackendUnavailable:
    """A failure of urllib3, or of a socket, as an error of ours."""
    from urllib3 import exceptions

    reason = getattr(failed, "reason", None)
    if isinstance(failed, exceptions.MaxRetryError) and isinstance(reason, Exception):
        return explain(address, endpoint, reason)
    if isinstance(failed, exceptions.SSLError) or "CERTIFICATE_REQUIRED" in str(failed):
        return _explain_tls(address, endpoint, str(failed))
    if isinstance(failed, exceptions.NewConnectionError):
        return unavailable(address, endpoint, _plain(failed))
    if isinstance(failed, exceptions.TimeoutError):
        return unavailable(address, endpoint, f"no answer within {address.request_timeout_s:g} s")
    if _hung_up(failed) and not address.is_tls:
        return unavailable(address, endpoint, "it hangs up; if it speaks TLS only, use protocol=https")
    return unavailable(address, endpoint, _plain(failed))


def _hung_up(failed: BaseException) -> bool:
    """A server that closes before it has answered; with bytes of ours unread, that close is a reset."""
    return "without response" in str(failed) or any(
        isinstance(one, ConnectionResetError) for one in (failed, *failed.args)
    )


def unavailable(address: EtcdAddress, endpoint: Endpoint, why: str) -> BackendUnavailable:
    """It cannot be reached; it may be reached later."""
    return BackendUnavailable(
        f"etcd at {address.protocol}://{endpoint} is out of reach: {why}; see whether it runs and whether "
        f"the address (--rdzv-endpoint or {VARIABLE}) is right"
    )


def _explain_tls(address: EtcdAddress, endpoint: Endpoint, why: str) -> BackendUnavailable:
    where = f"etcd at https://{endpoint}"
    if "CERTIFICATE_VERIFY_FAILED" in why:
        ca = address.cacert or "the system's list"
        reason = why.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or "verify failed"
        return BackendRefused(
            f"{where} shows a certificate that {ca} does not vouch for ({reason}); give the CA that signed "
            f"it: cacert, or {VARIABLE}_CACERT"
        )
    if any(known in why for known in ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA")):
        return BackendRefused(
            f"{where} wants a certificate of the client that it trusts; give cert and key, or "
            f"{VARIABLE}_CERT and {VARIABLE}_KEY"
        )
    if "WRONG_VERSION_NUMBER" in why or "RECORD_LAYER_FAILURE" in why:
        return BackendRefused(f"{where} does not speak TLS; use protocol=http, or its TLS port")
    if "EOF" in why:
        why = (
            "it hangs up; if it does not speak TLS, use protocol=http; if it wants a certificate of the "
            "client, give cert and key"
        )
    return unavailable(address, endpoint, why)


def _plain(failed: BaseException) -> str:
    """The reason inside of the wrapping."""
    text = str(failed)
    for known in ("Connection refused", "Name or service not known", "No route to host", "timed out"):
        if known in text:
            return known.lower()
    return text or type(failed).__name__
