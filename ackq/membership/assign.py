"""Who owns which share: rendezvous weights, capped so that nobody has two more than another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import mmh3


def weight(share: int, member: bytes) -> int:
    """Return how strongly ``member`` draws ``share``; the same for everybody who computes it."""
    return mmh3.hash(b"%d:%b" % (share, member), 0, signed=False)


def assign(
    partitions: int, members: Iterable[bytes], previous: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return the owner of every share.

    Guarantee: each share has exactly one owner; the largest and the smallest number of shares
    that a member owns differ by one at most; no fewer shares could change their owner. What
    moves is chosen by weight: a member that has too many gives up those that it draws least,
    and a share without an owner goes to whom it is drawn to most, of those with room.

    Args:
        shares: how many; they are numbered from 0.
        members: who is there now, at least one; the order does not matter.
        previous: who owned what; members that are gone may be among them.
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
    """Return how many shares each member gets: the larger numbers go to who has most already."""
    floor, larger = divmod(partitions, len(kept))
    by_load = sorted(kept, key=lambda member: (-len(kept[member]), member))
    return {member: floor + (rank < larger) for rank, member in enumerate(by_load)}
