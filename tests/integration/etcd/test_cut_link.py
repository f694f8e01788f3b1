"""A node whose network is cut: the others go on without it, and it comes back when the network does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpc_elastic.testing.etcd_server import EtcdServer
from tests.integration.agent.agents import agents_in
from tests.integration.agent.losses import SLEEPER, TIMES, assert_goes_on_without, wait_for_round
from tests.integration.etcd.links import Link, linked

pytestmark = [pytest.mark.needs_etcd, pytest.mark.needs_netns]


@pytest.fixture
def link() -> Iterator[Link]:
    with linked() as made:
        yield made


def test_a_node_whose_network_is_cut_is_missed_in_time_and_comes_back(
    tmp_path: Path, link: Link, make_etcd_server: Callable[..., EtcdServer]
) -> None:
    server = make_etcd_server(host=link.host)
    with agents_in(tmp_path) as agents:
        where = ("--rdzv-backend", "etcd", "--rdzv-endpoint", server.endpoint, "--rdzv-conf", TIMES)
        path = agents.script(SLEEPER)
        for index in range(3):
            inside = link.inside if index == 1 else ()
            agents.start(index, *where, path, nodes="2:3", count=3, inside=inside)
        wait_for_round(agents, 1, 3)

        assert_goes_on_without(agents, link.cut, left=2)

        link.mend()
        wait_for_round(agents, 3, 3)
        agents.signal("n0", signal.SIGTERM)
        agents.statuses()
    server.stop()
