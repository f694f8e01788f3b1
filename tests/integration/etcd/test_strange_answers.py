"""An etcd behind a proxy that answers in its stead, or takes its time, is out of reach or slow, no more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from hpc_elastic.backends import etcd_endpoints
from hpc_elastic.backends.base import Backend
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.errors import BackendRefused, BackendUnavailable
from hpc_elastic.rendezvous.choice import open_etcd
from hpc_elastic.rendezvous.membership import Membership
from hpc_elastic.rendezvous.record import Outcome
from hpc_elastic.rendezvous.standing import JobStart, Seat, Settings
from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.etcd.proxy import Proxy, proxied
from tests.waiting import wait_until

pytestmark = pytest.mark.needs_etcd


def http(body: bytes, status: str = "200 OK") -> bytes:
    """A whole answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


ANSWERS = {
    "a page": http(b"<html><body>Sign in to the network</body></html>"),
    "a page with an error": http(b"<html>the site is being serviced</html>", "502 Bad Gateway"),
    "a refusal": http(b"<html>go away</html>", "403 Forbidden"),
    "a redirect": http(b"", "302 Found"),
    "an empty page": http(b""),
    "JSON of another program": http(b'{"status":"ok"}'),
    "a list": http(b"[1,2]"),
    "deep JSON": http(b"[" * 60_000),
    "deep JSON with an error": http(b'{"a":' * 60_000, "500 Internal Server Error"),
    "a strange header": http(b'{"header":[1]}'),
    "a strange revision": http(b'{"header":{"revision":"x","cluster_id":"y"}}'),
    "half an answer": http(b'{"header":{"revision":"9"}}')[:-5],
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
}


@pytest.fixture
def proxy(etcd_server: EtcdServer) -> Iterator[Proxy]:
    with proxied(etcd_server.members[0].port) as made:
        yield made


def connect(proxy: Proxy, version: str, space: str) -> Backend:
    address = etcd_endpoints.parse(proxy.endpoint, {}, {}, request_timeout_s=30.0)
    return open_etcd(version, address, space, SYSTEM_CLOCK)[1]


@pytest.mark.parametrize("version", ["etcd-v3", "etcd-v2"])
def test_whatever_answers_in_the_stead_of_an_etcd_is_an_etcd_out_of_reach(proxy: Proxy, version: str) -> None:
    backend = connect(proxy, version, f"strange-{version}")
    backend.create("rounds/1", b"kept")
    operations: list[Callable[[], object]] = [
        lambda: backend.read("nodes/other"),
        lambda: backend.names("nodes"),
        lambda: backend.create("rounds/2", b"not now"),
        lambda: backend.overwrite("nodes/mine", b"not now"),
        lambda: backend.remove("nodes/mine"),
    ]

    for name, answer in ANSWERS.items():
        proxy.say(answer)
        with pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1"):
            connect(proxy, version, "nobody")
        for operation in operations:
            proxy.say(answer)
            with pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1"):
                operation()
        proxy.say(None)
        assert backend.read("rounds/1") == b"kept", name
        assert backend.read("rounds/2") is None, name
    backend.close()


@pytest.mark.parametrize(
    "name", ["a page", "JSON of another program", "a list", "deep JSON", "a strange header"]
)
def test_a_start_that_finds_another_program_says_so_and_where(proxy: Proxy, name: str) -> None:
    proxy.say(ANSWERS[name])

    with pytest.raises(
        BackendRefused, match=r"127\.0\.0\.1.*does not answer like etcd.*check --rdzv-endpoint"
    ):
        connect(proxy, "etcd-v3", "nobody")


TIME_S = 120.0
RULES = Settings(
    2, 2, 2, heartbeat_s=2.0, last_call_s=0.5, join_window_s=0.1, store_lost_s=60.0, allow_loopback=True
)


def members(open_backend: Callable[[], Backend]) -> list[Membership]:
    made = []
    for place in (0, 1):
        seat = Seat(f"n{place}", place, f"n{place}", "127.0.0.1", slots=1)
        made.append(Membership.open(open_backend(), JobStart("c", "1"), seat, RULES))
    for one in made:
        one.start()
        one.join()
    return made


def finish(made: list[Membership]) -> None:
    """The run is done in the round in which it began, and nobody has been told of anything else."""
    for one in made:
        one.mark_done()
    wait_until(lambda: all(one.standing().closed for one in made), TIME_S, "the run is done")
    standings = [one.standing() for one in made]
    for one in made:
        one.leave(Outcome.DONE, "the test is over", 30.0)
        one.close()
    assert [one.error for one in standings] == [None, None]
    assert {one.round.number for one in standings if one.round} == {1}
    assert {one.end.cause.value for one in standings if one.end} == {"success"}


def test_a_run_outlives_a_page_in_place_of_its_etcd(proxy: Proxy) -> None:
    made = members(lambda: connect(proxy, "etcd-v3", "page"))
    wait_until(lambda: all(one.standing().round for one in made), TIME_S, "the round starts")

    for name in ("a page", "JSON of another program", "a refusal"):
        proxy.say(ANSWERS[name])
        assert not threading.Event().wait(1.0)  # some looks of each
    proxy.say(None)
    finish(made)


def test_an_etcd_that_takes_a_second_and_a_half_for_each_answer_is_slow_and_no_more(proxy: Proxy) -> None:
    proxy.delay_s = 0.05
    made = members(lambda: connect(proxy, "etcd-v3", "slow"))
    wait_until(lambda: all(one.standing().round for one in made), TIME_S, "the round starts")

    proxy.delay_s = 1.5
    assert not threading.Event().wait(RULES.liveness_s + 1.0)
    proxy.delay_s = 0.05
    finish(made)


def test_the_members_of_a_cluster_may_be_restarted_one_after_the_other(
    make_etcd_server: Callable[..., EtcdServer],
) -> None:
    server = make_etcd_server(members=3)
    made = members(lambda: open_etcd("etcd-v3", server.address(), "rolling", SYSTEM_CLOCK)[1])
    wait_until(lambda: all(one.standing().round for one in made), TIME_S, "the round starts")

    for member in server.members:
        member.kill()
        assert not threading.Event().wait(0.3)
        member.start()
        server.wait_until_ready()

    finish(made)
    server.stop()
