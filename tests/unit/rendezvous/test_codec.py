"""Records as bytes: what comes back, and what is refused."""

from __future__ import annotations

import json
import sys
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_elastic.errors import RecordCorrupt
from hpc_elastic.rendezvous.codec import MAX_RECORD_BYTES, decode, decode_as, encode
from hpc_elastic.rendezvous.record import (
    Cause,
    Closed,
    Drain,
    End,
    Member,
    Presence,
    Reason,
    Record,
    Round,
    Verdict,
)

KINDS = get_args(Record)
ROUND = Round(
    1, (1,), (Member("1-a-0", "a", 2, "default", "10.0.0.1"),), "10.0.0.1", 29500, "why", 0, 0, "t", "w"
)
VERDICT = Verdict(3, started=True, why="all", created_at="t", writer="1-a-0")


def body_of(record: Record) -> dict[str, Any]:
    return dict(json.loads(encode(record)))


def decode_body(body: object) -> Record:
    return decode(json.dumps(body).encode())


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of one field's type, as the records use it."""
    inside = get_args(hint)
    if hint is int:
        return st.integers(1 - 2**63, 2**63 - 1)
    if hint is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if type(None) in inside:
        return st.none() | values_of(inside[0])
    if inside:
        return st.lists(values_of(inside[0]), max_size=3).map(tuple)
    return records_of(hint) if hasattr(hint, "__match_args__") else st.from_type(hint)


def records_of(kind: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, vars(sys.modules[kind.__module__]))
    return st.builds(kind, **{name: values_of(hints[name]) for name in kind.__match_args__})


@given(st.sampled_from(KINDS).flatmap(records_of))
@settings(max_examples=300, deadline=None)
def test_every_record_comes_back_as_it_was(record: Record) -> None:
    assert decode(encode(record)) == record


@given(st.binary(max_size=300))
def test_any_other_bytes_are_refused_with_the_one_error(raw: bytes) -> None:
    with pytest.raises(RecordCorrupt):
        decode(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from([ROUND, VERDICT, End(1, Cause.DRAIN, "n", 0, 0, "", 0, "t", "w")]), st.data())
@settings(max_examples=300, deadline=None)
def test_a_field_with_any_other_value_is_taken_or_refused_but_never_passes_as_another_type(
    record: Record, data: st.DataObject
) -> None:
    body = body_of(record)
    name = data.draw(st.sampled_from(sorted(set(body) - {"schema", "type"})))
    body[name] = data.draw(JSON)

    try:
        found = decode_body(body)
    except RecordCorrupt:
        return
    assert type(getattr(found, name)) is type(getattr(record, name))


def test_a_newer_writer_may_add_fields() -> None:
    body = {**body_of(VERDICT), "mood": {"very": "good"}}

    assert decode_body(body) == VERDICT


def test_an_older_writer_may_lack_fields_that_have_a_default() -> None:
    body = body_of(Closed(2, 1, True, 1, 0, "", "t", "w", failures=3, changes=1))
    del body["failures"], body["changes"]

    assert decode_body(body) == Closed(2, 1, True, 1, 0, "", "t", "w")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 2, this version reads 1"),
        ({"schema": True}, "schema True"),
        ({"type": "sonnet"}, "type 'sonnet' is unknown"),
        ({"round": "3"}, "round = '3': a whole number"),
        ({"round": True}, "round = True: a whole number"),
        ({"round": 2**64}, "of 64 bits"),
        ({"started": 1}, "true or false belongs there"),
        ({"why": None}, "why = None: a text"),
    ],
)
def test_what_does_not_belong_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(RecordCorrupt, match=message):
        decode_body({**body_of(VERDICT), **change})


def test_a_missing_field_is_named() -> None:
    body = body_of(VERDICT)
    del body["started"]

    with pytest.raises(RecordCorrupt, match="a verdict record lacks the field 'started'"):
        decode_body(body)


def test_an_unknown_cause_is_refused_with_the_known_ones() -> None:
    body = {**body_of(End(1, Cause.DRAIN, "n", 0, 0, "", 0, "t", "w")), "cause": "boredom"}

    with pytest.raises(RecordCorrupt, match=r"cause = 'boredom'.*'worker failed'"):
        decode_body(body)


def test_numbers_that_are_not_finite_are_refused() -> None:
    raw = encode(Drain(1, Reason.PREEMPTED, 5.0, True, (), "t", "w")).replace(b"5.0", b"Infinity")

    with pytest.raises(RecordCorrupt, match="finite"):
        decode(raw)


def test_a_record_that_is_too_long_is_not_parsed() -> None:
    with pytest.raises(RecordCorrupt, match="at most"):
        decode(b" " * (MAX_RECORD_BYTES + 1))


def test_a_record_under_the_wrong_key_is_refused_with_the_key() -> None:
    with pytest.raises(RecordCorrupt, match="nodes/a: holds a record of type 'verdict'"):
        decode_as(encode(VERDICT), Presence, key="nodes/a")


def test_a_round_of_a_thousand_nodes_stays_small() -> None:
    members = tuple(
        Member(
            f"1-node{place:04}-0a1b2c3d",
            f"node{place:04}",
            8,
            "default",
            f"10.0.{place // 256}.{place % 256}",
        )
        for place in range(1000)
    )
    record = Round(1, (1,), members, "10.0.0.0", 29500, "first", 0, 0, "t", "w")

    assert len(encode(record)) < 160_000
    assert decode(encode(record)) == record
