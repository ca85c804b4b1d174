"""Assign partitions to members, in numbers that differ by one at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def assign(
    partitions: int, members: Iterable[bytes], previous: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return the owner of every partition.

    Guarantee: each partition has exactly one owner. The largest and smallest number of partitions
    of a member differ by one at most. As few partitions as possible change owners: a member with
    too many gives up those with its highest numbers. Members with room take turns to get those
    without an owner.

    Args:
        partitions: how many; they are numbered from 0.
        members: the present members, at least one, in any order.
        previous: the previous owners; they may include members that are gone.
    """
    kept: dict[bytes, list[int]] = {member: [] for member in sorted(members)}
    for share in range(partitions):
        if (owner := previous.get(share, b"")) in kept:
            kept[owner].append(share)
    owners: dict[int, bytes] = {}
    room: list[tuple[int, bytes]] = []
    for member, quota in _quotas(partitions, kept).items():
        owners |= dict.fromkeys(kept[member][:quota], member)
        room += [(place, member) for place in range(len(kept[member]), quota)]
    free = [share for share in range(partitions) if share not in owners]
    return owners | dict(zip(free, (member for _, member in sorted(room)), strict=True))


def _quotas(partitions: int, kept: Mapping[bytes, list[int]]) -> dict[bytes, int]:
    """Return how many partitions each member gets; those that keep most get the larger numbers."""
    floor, larger = divmod(partitions, len(kept))
    by_load = sorted(kept, key=lambda member: (-len(kept[member]), member))
    return {member: floor + (rank < larger) for rank, member in enumerate(by_load)}
