"""The backend of an attempt is chosen once, and nobody goes elsewhere; most of that shows without an etcd."""

from __future__ import annotations

import pytest

from hpc_elastic.backends.etcd_endpoints import EtcdAddress, parse
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.errors import RendezvousConnectionError, UsageError
from hpc_elastic.rendezvous import choice
from hpc_elastic.rendezvous.choice import Meeting, Wanted, open_meeting
from hpc_elastic.rendezvous.codec import decode, encode
from hpc_elastic.rendezvous.record import BackendChoice
from hpc_elastic.rendezvous.standing import JobStart
from tests.integration.etcd.hearing import Clock

NOBODY = "127.0.0.1:1"  # a port that no user's program may listen on
CHOSEN = BackendChoice(1, "etcd-v3", f"http://{NOBODY}", "/p", "abc", "as told", "", "n0-x")


def address_of(text: str) -> EtcdAddress:
    return parse(text, {}, {})


def told(name: str, endpoint: str = "") -> Wanted:
    return Wanted(name, address_of(endpoint) if endpoint else None, address_of)


def meet(wanted: Wanted, ledger: MemoryBackend, *, name: str = "n1", patience_s: float = 3.0) -> Meeting:
    start = JobStart("local", "7")
    return open_meeting(wanted, ledger, start, run_id="r", name=name, clock=Clock(), patience_s=patience_s)


def chosen_in(ledger: MemoryBackend) -> object:
    raw = ledger.read("attempts/1.backend")
    return raw and decode(raw)


@pytest.mark.parametrize("wanted", [told("auto"), told("file"), told("auto", NOBODY)])
def test_without_an_etcd_that_answers_the_run_directory_is_chosen_and_recorded(wanted: Wanted) -> None:
    ledger = MemoryBackend()

    meeting = meet(wanted, ledger)

    assert meeting.backend is ledger
    assert chosen_in(ledger) == meeting.choice
    assert meeting.choice.backend == "file"


def test_an_etcd_told_by_name_that_stays_silent_is_an_error_and_nothing_is_chosen() -> None:
    ledger = MemoryBackend()

    with pytest.raises(RendezvousConnectionError, match=rf"http://{NOBODY} is out of reach"):
        meet(told("etcd", NOBODY), ledger)

    assert chosen_in(ledger) is None


@pytest.mark.parametrize("wanted", [told("auto"), told("auto", NOBODY), told("etcd", NOBODY)])
def test_whoever_cannot_reach_the_chosen_etcd_fails_by_name_and_picks_no_other(wanted: Wanted) -> None:
    ledger = MemoryBackend()
    meet(told("file"), ledger)
    ledger = with_choice(CHOSEN, ledger)

    with pytest.raises(RendezvousConnectionError, match=r"attempt 1 meets in etcd-v3 .*and node n1 cannot"):
        meet(wanted, ledger)


@pytest.mark.parametrize("wanted", [told("file"), told("etcd-v2", NOBODY)])
def test_whoever_was_told_another_backend_than_the_chosen_one_is_refused(wanted: Wanted) -> None:
    ledger = MemoryBackend()
    meet(told("file"), ledger)
    ledger = with_choice(CHOSEN, ledger)

    with pytest.raises(UsageError, match=r"node n1 was told --rdzv-backend .*, as n0-x chose"):
        meet(wanted, ledger)


def test_auto_follows_the_run_directory_though_it_knows_an_etcd() -> None:
    ledger = MemoryBackend()
    first = meet(told("file"), ledger, name="n0")

    second = meet(told("auto", NOBODY), ledger)

    assert second.choice == first.choice


def test_every_attempt_chooses_anew() -> None:
    ledger = MemoryBackend()
    meet(told("file"), ledger)
    start = JobStart("local", "7", "", 1)

    second = open_meeting(told("auto"), ledger, start, run_id="r", name="n1", clock=Clock())

    assert second.choice.attempt == 2
    assert second.choice.why == "no etcd is configured"


def with_choice(wanted: BackendChoice, before: MemoryBackend) -> MemoryBackend:
    """The same ledger, with this choice of its first attempt."""
    ledger = MemoryBackend()
    attempt = before.read("attempts/1")
    assert attempt is not None
    ledger.create("attempts/1", attempt)
    ledger.create("attempts/1.backend", encode(wanted))
    return ledger


def test_the_names_of_all_backends_are_known_to_the_command_line() -> None:
    from hpc_elastic.cli import run_arguments
    from hpc_elastic.cli.parser import CommandParser

    parser = CommandParser(prog="run")
    run_arguments.add_arguments(parser)
    (option,) = (each for each in parser._actions if each.dest == "rdzv_backend")

    assert option.choices == choice.NAMES
