"""The ranks of a node's workers: counted from the members of a round, equal on every node."""

from __future__ import annotations

from collections.abc import Sequence

from hpc_elastic.rendezvous.record import Member, Round
from hpc_elastic.values import dataclass


@dataclass(frozen=True)
class WorkerRanks:
    """Where one worker stands. Group is the set of nodes: `group_rank` is this node's place."""

    local_rank: int
    local_world_size: int
    global_rank: int
    world_size: int
    group_rank: int
    group_world_size: int
    role: str
    role_rank: int
    role_world_size: int


def of_node(agreed: Round, group_rank: int) -> tuple[WorkerRanks, ...]:
    """The ranks of the workers of the node at `group_rank`.

    Global ranks are consecutive by group rank, role ranks consecutive within a role; nodes may
    have different numbers of workers.
    """
    return of_members(agreed.members, group_rank)


def of_members(members: Sequence[Member], group_rank: int) -> tuple[WorkerRanks, ...]:
    """The same, of the members by group rank."""
    me = members[group_rank]
    before = members[:group_rank]
    first_global = sum(member.slots for member in before)
    first_of_role = sum(member.slots for member in before if member.role == me.role)
    role_world_size = sum(member.slots for member in members if member.role == me.role)
    return tuple(
        WorkerRanks(
            local_rank=local_rank,
            local_world_size=me.slots,
            global_rank=first_global + local_rank,
            world_size=sum(member.slots for member in members),
            group_rank=group_rank,
            group_world_size=len(members),
            role=me.role,
            role_rank=first_of_role + local_rank,
            role_world_size=role_world_size,
        )
        for local_rank in range(me.slots)
    )
