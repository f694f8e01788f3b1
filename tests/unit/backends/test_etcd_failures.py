"""Why an etcd member could not be talked to, in words that say what to change."""

from __future__ import annotations

import pytest
from urllib3.exceptions import ProtocolError

from hpc_elastic.backends.etcd_endpoints import Endpoint, parse
from hpc_elastic.backends.etcd_failures import explain
from hpc_elastic.errors import BackendUnavailable

ENDPOINT = Endpoint("db1", 2379)
# urllib3's words for a server that closes: in order, or with bytes of ours unread.
HUNG_UP = {
    "closed": ProtocolError("Connection aborted.", "Remote end closed connection without response"),
    "reset": ProtocolError("Connection aborted.", ConnectionResetError(104, "Connection reset by peer")),
    "reset while reading": ConnectionResetError(104, "Connection reset by peer"),
}


@pytest.mark.parametrize("failed", HUNG_UP.values(), ids=HUNG_UP)
def test_a_server_that_hangs_up_on_plain_http_may_speak_tls_only(failed: Exception) -> None:
    told = explain(parse("db1", {}, {}), ENDPOINT, failed)

    assert isinstance(told, BackendUnavailable)
    assert "http://db1:2379 is out of reach: it hangs up; if it speaks TLS only, use protocol=https" in str(
        told
    )


@pytest.mark.parametrize("failed", HUNG_UP.values(), ids=HUNG_UP)
def test_a_server_that_hangs_up_on_tls_is_not_told_to_speak_it(failed: Exception) -> None:
    address = parse("db1", {"protocol": "https"}, {})

    assert "use protocol=https" not in str(explain(address, ENDPOINT, failed))
