"""Jobs that share a run meet in one place, whatever each would have chosen for itself."""

from __future__ import annotations

from hpc_elastic.backends.etcd_endpoints import EtcdAddress
from hpc_elastic.backends.memory import MemoryBackend
from hpc_elastic.clock import SYSTEM_CLOCK
from hpc_elastic.rendezvous import choice, keys
from hpc_elastic.rendezvous.choice import Wanted
from hpc_elastic.rendezvous.codec import decode_as
from hpc_elastic.rendezvous.record import GUESTS, BackendChoice
from hpc_elastic.rendezvous.standing import JobStart


def address_of(endpoint: str) -> EtcdAddress:
    raise AssertionError(f"nothing was chosen at {endpoint}")


def chosen(ledger: MemoryBackend, wanted: str, start: JobStart) -> BackendChoice:
    meeting = choice.open_meeting(
        Wanted(wanted, None, address_of), ledger, start, run_id="r", name=start.job_id, clock=SYSTEM_CLOCK
    )
    return meeting.choice


def element(index: int, array: str = "c/70") -> JobStart:
    return JobStart("c", str(70 + index), str(index), share=array)


def test_the_first_element_of_a_pool_chooses_for_all() -> None:
    ledger = MemoryBackend()

    first, second = chosen(ledger, "file", element(0)), chosen(ledger, "auto", element(1))

    assert (first.why, second.why) == ("as told", "as told")
    assert second.writer == first.writer
    assert (first.attempt, second.attempt) == (1, 2)
    noted = ledger.read(keys.backend_key(2))
    assert noted is not None
    assert decode_as(noted, BackendChoice, key="") == second, "the batch side looks below its own attempt"


def test_another_array_of_the_same_run_chooses_anew() -> None:
    ledger = MemoryBackend()
    chosen(ledger, "file", element(0))

    assert chosen(ledger, "auto", element(1, "c/90")).why == "no etcd is configured"


def test_a_guest_meets_where_the_newest_start_of_its_host_does() -> None:
    ledger = MemoryBackend()
    guest = JobStart("c", "90", share=GUESTS)
    chosen(ledger, "auto", JobStart("c", "7"))
    chosen(ledger, "file", JobStart("c", "7", restart_count=1))

    assert chosen(ledger, "auto", guest).why == "as told"
