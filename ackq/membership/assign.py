"""Assign partitions by rendezvous hashing, in numbers that differ by one at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import mmh3


def weight(share: int, member: bytes) -> int:
    """Return the weight of partition ``share`` for ``member``; every process computes the same."""
    return mmh3.hash(b"%d:%b" % (share, member), 0, signed=False)


def assign(
    partitions: int, members: Iterable[bytes], previous: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return the owner of every partition.

    Guarantee: each partition has exactly one owner. The largest and smallest number of partitions
    of a member differ by one at most. As few partitions as possible change owners. Weights decide
    which: a member with too many gives up those with its lowest weights, and a partition without
    an owner goes to the member with the highest weight that has room.

    Args:
        partitions: how many; they are numbered from 0.
        members: the present members, at least one, in any order.
        previous: the previous owners; they may include members that are gone.
    """
    present = sorted(set(members))
    kept: dict[bytes, list[int]] = {member: [] for member in present}
    for share in range(partitions):
        if (owner := previous.get(share, b"")) in kept:
            kept[owner].append(share)
    owners: dict[int, bytes] = {}
    room: dict[bytes, int] = {}
    for member, quota in _quotas(partitions, kept).items():
        strongest = sorted(kept[member], key=lambda each: (-weight(each, member), each))
        owners |= dict.fromkeys(strongest[:quota], member)
        room[member] = quota - min(quota, len(strongest))
    for _, share, member in sorted(
        (-weight(share, member), share, member)
        for share in range(partitions)
        if share not in owners
        for member in present
        if room[member]
    ):
        if room[member] and share not in owners:
            owners[share] = member
            room[member] -= 1
    return owners


def _quotas(partitions: int, kept: Mapping[bytes, list[int]]) -> dict[bytes, int]:
    """Return how many partitions each member gets; those that keep most get the larger numbers."""
    floor, larger = divmod(partitions, len(kept))
    by_load = sorted(kept, key=lambda member: (-len(kept[member]), member))
    return {member: floor + (rank < larger) for rank, member in enumerate(by_load)}
