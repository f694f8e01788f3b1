"""Errors, parameters, times and what a round hands out: defaults, behaviour, refusals."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from hpc_elastic import errors, rendezvous
from hpc_elastic.exit_codes import ExitCode
from hpc_elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousClosedException,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousExhaustedError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousNonRetryableError,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeout,
    RendezvousTimeoutError,
    RendezvousTimeoutException,
)
from hpc_elastic.stores.base import Store
from hpc_elastic.stores.memory import MemoryStore
from hpc_elastic.stores.prefixed import PrefixedStore


def parameters(**given: Any) -> RendezvousParameters:
    return RendezvousParameters("file", "/shared", "run", **given)


def test_every_public_name_loads_and_an_unknown_one_does_not() -> None:
    for name in rendezvous.__all__:
        assert getattr(rendezvous, name) is not None
    assert dir(rendezvous) == sorted(rendezvous.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        rendezvous.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    "kind",
    [
        RendezvousClosedError,
        RendezvousTimeoutError,
        RendezvousConnectionError,
        RendezvousStateError,
        RendezvousGracefulExitError,
        RendezvousExhaustedError,
    ],
)
def test_all_errors_of_the_rendezvous_are_rendezvous_errors(kind: type[errors.HpcElasticError]) -> None:
    assert issubclass(kind, RendezvousError)
    assert issubclass(kind, errors.HpcElasticError)
    assert isinstance(kind.exit_code, ExitCode)


def test_an_exhausted_rendezvous_carries_its_rules_and_its_time() -> None:
    error = RendezvousExhaustedError("1 of 2 nodes", config="the rules", timeout_s=600.0)

    assert isinstance(error, RendezvousTimeoutError)
    assert (error.config, error.timeout, error.timeout_s) == ("the rules", 600.0, 600.0)
    assert RendezvousExhaustedError("bare").timeout is None


def test_the_older_names_of_errors_are_aliases() -> None:
    assert RendezvousClosedException is RendezvousClosedError
    assert RendezvousTimeoutException is RendezvousTimeoutError
    assert RendezvousNonRetryableError is RendezvousStateError


def test_parameters_have_the_defaults_of_the_contract() -> None:
    params = parameters()

    assert (params.backend, params.endpoint, params.run_id) == ("file", "/shared", "run")
    assert (params.min_nodes, params.max_nodes) == (1, 1)
    assert (params.local_addr, params.node_rank, params.local_world_size) == (None, 0, 1)
    assert params.config == {}
    assert "'file', '/shared', 'run', 1, 1" in repr(params)


def test_the_limits_may_be_given_by_position() -> None:
    params = RendezvousParameters("file", "/shared", "run", 2, 4, "10.0.0.1")

    assert (params.min_nodes, params.max_nodes, params.local_addr) == (2, 4, "10.0.0.1")


def test_the_limits_in_the_configuration_win() -> None:
    params = parameters(min_nodes=1, max_nodes=4, config={"min_nodes": "3"})
    wider = parameters(config={"min_nodes": 2, "max_nodes": 5})

    assert (params.min_nodes, params.max_nodes) == (3, 4)
    assert (wider.min_nodes, wider.max_nodes) == (2, 5)


def test_options_and_configuration_are_read_together_and_the_callers_mapping_is_left_alone() -> None:
    config = {"a": 1, "b": 2}
    params = parameters(config=config, b=3)

    assert (params.get("a"), params.get("b"), params.get("c"), params.get("c", 9)) == (1, 3, None, 9)
    assert config == {"a": 1, "b": 2}


def test_an_empty_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="backend ''"):
        RendezvousParameters("", "/shared", "run")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"min_nodes": 0}, "min_nodes 0: expected at least 1"),
        ({"min_nodes": -1}, "min_nodes -1"),
        ({"min_nodes": 3, "max_nodes": 2}, "max_nodes 2: expected at least min_nodes, 3"),
        ({"config": {"min_nodes": 5}}, "max_nodes 1: expected at least min_nodes, 5"),
        ({"config": {"min_nodes": "two"}}, "option min_nodes='two'"),
    ],
)
def test_limits_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parameters(**given)


@pytest.mark.parametrize("word", [1, True, "1", "true", "True", "t", "yes", "Y"])
def test_words_for_yes_are_true(word: object) -> None:
    assert parameters(flag=word).get_as_bool("flag") is True


@pytest.mark.parametrize("word", [0, False, "0", "false", "F", "no", "n"])
def test_words_for_no_are_false(word: object) -> None:
    assert parameters(flag=word).get_as_bool("flag") is False


@pytest.mark.parametrize("word", [2, "maybe", "", 1.0, [1]])
def test_other_words_are_refused_with_the_name_of_the_option(word: object) -> None:
    with pytest.raises(ValueError, match="option flag="):
        parameters(flag=word).get_as_bool("flag")


def test_an_option_that_is_not_given_has_the_default() -> None:
    params = parameters()

    assert params.get_as_bool("flag") is None
    assert params.get_as_bool("flag", default=True) is True
    assert params.get_as_int("number") is None
    assert params.get_as_int("number", 7) == 7


@pytest.mark.parametrize(("given", "number"), [(5, 5), ("5", 5), ("-2", -2), (4.0, 4)])
def test_whole_numbers_are_read(given: object, number: int) -> None:
    assert parameters(number=given).get_as_int("number") == number


@pytest.mark.parametrize("given", ["five", "1.5", 1.5, [1], True, float("nan"), float("inf")])
def test_what_is_no_whole_number_is_refused_with_the_name_of_the_option(given: object) -> None:
    with pytest.raises(ValueError, match="option number="):
        parameters(number=given).get_as_int("number")


def test_the_times_have_the_defaults_of_the_contract() -> None:
    for timeout in (RendezvousTimeout(), parameters().timeout):
        assert timeout.join == timedelta(seconds=600)
        assert timeout.last_call == timedelta(seconds=30)
        assert timeout.close == timedelta(seconds=30)
        assert timeout.heartbeat == timedelta(seconds=5)


def test_times_take_and_give_timedeltas() -> None:
    timeout = RendezvousTimeout(*(timedelta(seconds=number) for number in (1, 2, 3, 4)))

    given = (timeout.join, timeout.last_call, timeout.close, timeout.heartbeat)
    assert [one.total_seconds() for one in given] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["join", "last_call", "close", "heartbeat"])
@pytest.mark.parametrize("seconds", [0, -1])
def test_a_time_that_is_not_positive_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"{name} timeout {seconds} s"):
        RendezvousTimeout(**{name: timedelta(seconds=seconds)})


def test_times_are_read_from_options() -> None:
    params = parameters(
        join_timeout="90.5", last_call_timeout=3, close_timeout=timedelta(seconds=4), heartbeat_timeout="2"
    )
    timeout = RendezvousTimeout.from_params(params)

    given = (timeout.join, timeout.last_call, timeout.close, timeout.heartbeat)
    assert [one.total_seconds() for one in given] == [90.5, 3, 4, 2]
    assert parameters(timeout=40, heartbeat=7).timeout.join == timedelta(seconds=40)
    assert parameters(timeout=40, heartbeat=7).timeout.heartbeat == timedelta(seconds=7)


@pytest.mark.parametrize("given", ["soon", [], 0, -3, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_refused_with_the_name_of_its_option(given: object) -> None:
    with pytest.raises(ValueError, match="option join_timeout="):
        RendezvousTimeout.from_params(parameters(join_timeout=given))


def test_rank_0_publishes_the_endpoint_that_the_store_knows() -> None:
    store = MemoryStore()
    store.master_addr_port = ("10.0.0.7", 1234)

    first = RendezvousStoreInfo.build(0, PrefixedStore("x", store))
    second = RendezvousStoreInfo.build(1, PrefixedStore("x", store))

    assert first == second == RendezvousStoreInfo("10.0.0.7", 1234)
    assert (first.master_addr, first.addr, first.port, first.master_port) == (
        "10.0.0.7",
        "10.0.0.7",
        1234,
        1234,
    )


def test_rank_0_publishes_what_it_was_given_before_anything_else() -> None:
    store = MemoryStore()
    store.master_addr_port = ("10.0.0.7", 1234)

    assert RendezvousStoreInfo.build(0, store, "10.0.0.8", 99) == RendezvousStoreInfo("10.0.0.8", 99)


def test_rank_0_finds_a_free_port_where_nobody_gave_one() -> None:
    info = RendezvousStoreInfo.build(0, MemoryStore(), "10.0.0.8")

    assert info.master_addr == "10.0.0.8"
    assert 1023 < info.port < 65536
    assert RendezvousStoreInfo.build(0, MemoryStore()).master_addr


def test_the_other_ranks_wait_for_rank_0() -> None:
    store = MemoryStore()
    got: list[RendezvousStoreInfo] = []
    waiting = threading.Thread(target=lambda: got.append(RendezvousStoreInfo.build(1, store)))
    waiting.start()
    first = RendezvousStoreInfo.build(0, store, "10.0.0.8")
    waiting.join(60)

    assert got == [first]


def test_ranks_wait_300_s_and_then_tell_of_a_timeout() -> None:
    class Late(MemoryStore):
        waited: object = None

        def get(self, key: str | bytes, timeout: float | timedelta | None = None) -> bytes:
            self.waited = timeout
            return super().get(key, 0)

    store = Late()
    with pytest.raises(RendezvousTimeoutError, match=r"rank 3: rank 0 .* 300 s"):
        RendezvousStoreInfo.build(3, store)
    assert store.waited == 300.0


def test_an_address_that_something_else_wrote_is_refused() -> None:
    store = MemoryStore()
    store.set("MASTER_ADDR", "host")
    store.set("MASTER_PORT", "http")

    with pytest.raises(RendezvousStateError, match="something else writes these keys"):
        RendezvousStoreInfo.build(1, store)


def test_what_a_round_hands_out_is_read_only() -> None:
    store: Store = MemoryStore()
    endpoint = RendezvousStoreInfo("10.0.0.7", 1234)
    info = RendezvousInfo(store, 1, 2, endpoint, ("n0", "n1"), lambda: ("n2",), 7)

    assert (info.store, info.rank, info.world_size) == (store, 1, 2)
    assert (info.bootstrap_store_info, info.participants) == (endpoint, ("n0", "n1"))
    assert (info.wait_list, info.round) == (("n2",), 7)
    assert RendezvousInfo(store, 0, 1, None).wait_list == ()
    for name in (
        "store",
        "rank",
        "world_size",
        "bootstrap_store_info",
        "participants",
        "wait_list",
        "round",
    ):
        with pytest.raises(AttributeError):
            setattr(info, name, None)


def test_a_handler_is_abstract_and_offers_no_agent_store() -> None:
    class Minimal(RendezvousHandler):
        def get_backend(self) -> str:
            return "minimal"

        def next_rendezvous(self) -> RendezvousInfo:
            return RendezvousInfo(MemoryStore(), 0, 1, None)

        def is_closed(self) -> bool:
            return False

        def set_closed(self) -> None:
            return None

        def num_nodes_waiting(self) -> int:
            return 0

        def get_run_id(self) -> str:
            return "run"

        def shutdown(self) -> bool:
            return True

    handler = Minimal()
    handler.pre_shutdown()

    assert handler.use_agent_store is False
    assert RendezvousHandler.__abstractmethods__ == {
        "get_backend",
        "next_rendezvous",
        "is_closed",
        "set_closed",
        "num_nodes_waiting",
        "get_run_id",
        "shutdown",
    }
