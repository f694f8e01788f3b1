"""From a round of any rendezvous to the ranks of this node's workers."""

from __future__ import annotations

from typing import Final

from hpc_elastic.agent import ranks
from hpc_elastic.agent.api import WorkerGroup
from hpc_elastic.agent.board import Board, Introduction
from hpc_elastic.clock import Clock
from hpc_elastic.errors import RanksMissing, RendezvousStateError, RendezvousTimeoutError
from hpc_elastic.rendezvous.api import RendezvousInfo, RendezvousStoreInfo
from hpc_elastic.rendezvous.record import Member
from hpc_elastic.values import replace

_PATIENCE_S: Final = 300.0
_LOOK_S: Final = 1.0


def enter(group: WorkerGroup, info: RendezvousInfo, failures: int) -> int:
    """Note in `group` which round it is in, and where its ranks meet; the failures of the run so far.

    `failures` are those that this node knows of; a record of the run knows better, also of earlier starts.
    """
    spec = group.spec
    meets_at = info.bootstrap_store_info
    if meets_at is None and (spec.master_addr is None or spec.master_port is None):
        meets_at = RendezvousStoreInfo.build(info.rank, info.store, local_addr=spec.local_addr)
    group.store = info.store
    group.group_rank = info.rank
    group.group_world_size = info.world_size
    group.master_addr = spec.master_addr or (meets_at.master_addr if meets_at else None)
    group.master_port = spec.master_port or (meets_at.master_port if meets_at else None)
    group.round_number = info.round
    names = info.participants or tuple(f"node{rank}" for rank in range(info.world_size))
    group.members = tuple(Member(name, name, 0, "", "") for name in names)
    return failures if info.failures is None else info.failures


def introductions(
    group: WorkerGroup, board: Board, mine: Introduction, clock: Clock, *, is_identical: bool
) -> list[Introduction] | None:
    """What each node says of itself; None where the round is over before all have said it.

    Where all nodes are known to be alike (`is_identical`) nobody is asked. Raises
    `RendezvousTimeoutError` where a node that seems to be there stays silent.
    """
    if is_identical:
        return [replace(mine, address="")] * len(group.members)  # the first node's address is not this one's
    give_up_at_s = clock.monotonic_s() + _PATIENCE_S
    while True:
        try:
            return board.introduce(mine, _LOOK_S)
        except RanksMissing as late:
            if group.spec.rdzv_handler.num_nodes_waiting() > 0:
                return None
            if clock.monotonic_s() >= give_up_at_s:
                missing = ", ".join(group.members[rank].name for rank in late.ranks)
                raise RendezvousTimeoutError(
                    f"run {group.spec.rdzv_handler.get_run_id()}: {missing} (of {len(group.members)} nodes) "
                    f"came to the round and said nothing for {_PATIENCE_S:g} s; look at their agents"
                ) from late


def assign(group: WorkerGroup, known: list[Introduction]) -> None:
    """Give `group` its members and its workers their ranks; the count of failures is the highest one known.

    A node that came later knows less than one that was there, never more.
    """
    if group.group_rank is None or len(known) != len(group.members):
        raise RendezvousStateError(
            f"{len(known)} nodes have said who they are in a round of {len(group.members)}"
        )
    group.members = tuple(
        Member(member.node, member.name, said.slots, said.role, "")
        for member, said in zip(group.members, known, strict=True)
    )
    group.restart_count = max(said.failures for said in known)
    group.master_addr = group.spec.master_addr or known[0].address or group.master_addr
    for worker, given in zip(group.workers, ranks.of_members(group.members, group.group_rank), strict=True):
        worker.id = None
        worker.global_rank = given.global_rank
        worker.world_size = given.world_size
        worker.role_rank = given.role_rank
        worker.role_world_size = given.role_world_size
