"""The assignment as a pure function: one owner each, a spread of one, nothing moved in vain."""

import itertools
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ackq.membership.assign import assign

members = st.sets(st.binary(min_size=1, max_size=6), min_size=1, max_size=9)
partitions = st.integers(1, 40)


def loads(owners: dict[int, bytes], present: set[bytes]) -> list[int]:
    counted = Counter(owners.values())
    return sorted(counted[member] for member in present)


def fewest_moves(size: int, present: set[bytes], previous: dict[int, bytes]) -> int:
    """Return how many shares must change their owner, by trying every fair set of loads."""
    had = Counter(owner for owner in previous.values() if owner in present)
    floor, larger = divmod(size, len(present))
    kept = max(
        sum(min(had[member], floor + (member in chosen)) for member in present)
        for chosen in itertools.combinations(sorted(present), larger)
    )
    return size - kept


@given(partitions, members)
def test_each_share_has_one_owner_and_the_spread_is_one_at_most(
    size: int, present: set[bytes]
) -> None:
    owners = assign(size, present, {})
    assert sorted(owners) == list(range(size))
    assert set(owners.values()) <= present
    counted = loads(owners, present)
    assert counted[-1] - counted[0] <= 1


@settings(max_examples=300)
@given(partitions, st.lists(members, min_size=2, max_size=6))
def test_no_more_shares_move_than_must(size: int, history: list[set[bytes]]) -> None:
    previous: dict[int, bytes] = {}
    for present in history:
        owners = assign(size, present, previous)
        assert sorted(owners) == list(range(size))
        counted = loads(owners, present)
        assert counted[-1] - counted[0] <= 1
        moved = sum(owners[share] != previous.get(share) for share in range(size))
        assert moved == fewest_moves(size, present, previous)
        previous = owners


@given(partitions, members, st.randoms())
def test_all_members_compute_the_same(size: int, present: set[bytes], random: object) -> None:
    order = sorted(present)
    random.shuffle(order)  # type: ignore[attr-defined]
    assert assign(size, order, {}) == assign(size, present, {})


@given(partitions, members, st.dictionaries(st.integers(-3, 50), st.binary(max_size=3)))
def test_whatever_was_written_down_before_can_be_gone_on_from(
    size: int, present: set[bytes], previous: dict[int, bytes]
) -> None:
    owners = assign(size, present, previous)
    assert sorted(owners) == list(range(size))
    assert set(owners.values()) <= present


def test_sixteen_shares_of_three_are_five_or_six_each_as_they_come_and_go() -> None:
    owners: dict[int, bytes] = {}
    for present in ({b"a"}, {b"a", b"b"}, {b"a", b"b", b"c"}, {b"b", b"c"}, {b"b", b"c", b"d"}):
        owners = assign(16, present, owners)
        fair = {16 // len(present), -(-16 // len(present))}
        assert set(loads(owners, present)) <= fair


def test_more_members_than_shares_leave_some_without_one() -> None:
    owners = assign(3, {b"%d" % n for n in range(5)}, {})
    assert sorted(Counter(owners.values()).values()) == [1, 1, 1]


def test_members_of_one_size_are_spread_over_the_shares() -> None:
    """No member gets a neat range: neighbours in number go to different owners."""
    owners = assign(64, {b"a", b"b", b"c", b"d"}, {})
    changes = sum(owners[n] != owners[n + 1] for n in range(63))
    assert changes > 30
