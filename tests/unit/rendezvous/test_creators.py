"""What our backends are made from: values that cannot be meant are refused, unused ones are told of."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from hpc_elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousParameters,
    create_handler,
    handler_from_url,
)

QUICK = {"allow_loopback": True, "last_call_timeout": 0.1, "join_timeout": 120}


def make(backend: str, endpoint: Path | str, run_id: str = "run", **given: Any) -> RendezvousHandler:
    return create_handler(RendezvousParameters(backend, str(endpoint), run_id, **{"config": QUICK, **given}))


def world_of(handler: RendezvousHandler) -> int:
    try:
        return handler.next_rendezvous().world_size
    finally:
        handler.shutdown()


@pytest.mark.parametrize("backend", ["memory", "file", "etcd"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"run_id": ""}, "run id ''"),
        ({"run_id": 7}, "run id 7"),
        ({"local_world_size": 0}, "local_world_size 0"),
        ({"local_world_size": "two"}, "local_world_size 'two'"),
        ({"local_world_size": 2**63}, "local_world_size 9223372036854775808"),
        ({"node_rank": -1}, "node_rank -1"),
        ({"config": {"join_window": -1}}, "option join_window=-1"),
        ({"config": {"store_lost": -0.5}}, "option store_lost=-0.5"),
        ({"config": {"close_timeout": 0}}, "option close_timeout=0"),
        ({"config": {"restart_count": "x"}}, "option restart_count='x'"),
        ({"config": {"allow_loopback": "maybe"}}, "option allow_loopback='maybe'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_before_anything_is_written(
    backend: str, given: dict[str, Any], told: str, tmp_path: Path
) -> None:
    endpoint = "host" if backend == "etcd" else tmp_path

    with pytest.raises(ValueError, match=told):
        make(backend, endpoint, **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("backend", "endpoint", "options", "unused"),
    [
        ("file", "/shared", {"last_cal_timeout": 5}, "last_cal_timeout"),
        ("file", "/shared", {"etcd_prefix": "/x", "rank": 0}, "etcd_prefix, rank"),
        ("memory", "x", {"cacert": "/x"}, "cacert"),
        ("etcd", "host", {"passwd": "secret"}, "passwd"),
        ("etcd-v2", "host", {"store_dir": "/x"}, "store_dir"),
        ("static", "host", {"heartbeats": 5, "node_name": "a"}, "heartbeats, node_name"),
    ],
)
def test_an_option_that_has_no_effect_is_told_of_by_name_alone(
    backend: str, endpoint: str, options: dict[str, Any], unused: str
) -> None:
    with pytest.warns(UserWarning, match=f"'{backend}' does not use the options {unused}; it knows") as told:
        make(backend, endpoint, config=options)

    assert not any("secret" in str(one.message) for one in told)


@pytest.mark.parametrize(
    "url",
    [
        "file:///shared/run?min_workers=1&timeout=5&last_call_timeout=5&join_window=1&store_lost=9",
        "etcd://host/run?min_workers=1&etcd_prefix=/x&protocol=http&run_dir=/x&user=",
        "static://host/run?min_workers=2&rank=1&store_dir=/x&timeout=5",
    ],
)
def test_an_option_that_is_used_is_not_told_of(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        handler_from_url(url)


@pytest.mark.parametrize("run_id", ["a/../../b\0c", "..", "x" * 300, "\u00fc" * 200, "x" * 300 + "y", " \n"])
def test_any_text_is_a_run_id_and_names_one_run_below_the_directory(run_id: str, tmp_path: Path) -> None:
    assert world_of(make("file", tmp_path / "runs", run_id)) == 1
    assert world_of(make("file", tmp_path / "runs", "x" * 300 + "z")) == 1

    assert [one.name for one in tmp_path.iterdir()] == ["runs"]
    made = [one.name for one in (tmp_path / "runs").iterdir()]
    assert len(made) == 2
    assert all(name.startswith("run-") for name in made)


def test_a_name_that_no_file_can_have_is_refused_at_once(tmp_path: Path) -> None:
    config = {**QUICK, "node_name": "n" * 300}

    with pytest.raises(RendezvousConnectionError, match=r"ENAMETOOLONG.*shorter run id, node name"):
        world_of(make("file", tmp_path, config=config))


def test_an_endpoint_that_is_a_file_or_no_path_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RendezvousConnectionError, match=r"ENOTDIR.*choose another directory"):
        world_of(make("file", tmp_path / "file"))
    with pytest.raises(ValueError, match="no directory has such a name"):
        make("file", "/shared/a\0b")
