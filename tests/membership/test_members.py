"""Members join, leave, fall silent and come back, on every server and through both faces."""

import time
from typing import Any

import pytest

import ackq
from tests.membership.conftest import MakeMember
from tests.servers import Target
from tests.waiting import wait_until


def shares_of(members: list[Any]) -> list[int]:
    return sorted(share for member in members for share in member.partitions)


def settled(members: list[Any], size: int = 16) -> bool:
    """Say whether these members own everything among them, with a spread of one."""
    counted = [len(member.partitions) for member in members]
    return shares_of(members) == list(range(size)) and max(counted) - min(counted) <= 1


def test_one_member_owns_everything(make_member: MakeMember) -> None:
    member = make_member()
    assert member.partitions == ()
    assignment = member.join()
    assert assignment.partitions == member.partitions == tuple(range(16))
    assert (assignment.generation, assignment.members) == (1, 1)
    assert member.join() == assignment


def test_shares_are_shared_out_anew_when_a_member_joins_or_leaves(
    make_member: MakeMember,
) -> None:
    members = [make_member(session_timeout=3) for _ in range(3)]
    present: list[Any] = []
    for member in members:
        member.join()
        present.append(member)
        wait_until(lambda: settled(present), "all members to agree")
    kept = [set(member.partitions) for member in members[1:]]
    assert members[0].leave()
    wait_until(lambda: settled(members[1:]), "the others to take over")
    assert all(had <= set(member.partitions) for had, member in zip(kept, members[1:], strict=True))
    assert not members[0].leave()
    members[0].join()
    wait_until(lambda: settled(members), "it to be back")


def test_a_member_that_left_joins_again_under_a_new_name(make_member: MakeMember) -> None:
    member = make_member()
    left = member.join().session
    member.leave()
    assert member.partitions == ()
    # Whatever was taken under the old name is fenced off for good.
    assert member.join().session != left
    assert member.partitions == tuple(range(16))


def test_who_joins_has_its_shares_at_once_and_the_others_lose_them_by_the_generation(
    make_member: MakeMember,
) -> None:
    one, other = make_member(), make_member()
    before = one.join()
    after = other.join()
    assert len(after.partitions) == 8
    assert after.generation == before.generation + 1
    assert one.heartbeat().generation == after.generation
    assert settled([one, other])


def test_a_silent_member_is_fenced_off_and_joins_again_under_a_new_name(
    make_member: MakeMember, target: Target, name: str
) -> None:
    one, other = make_member(session_timeout=0.6), make_member(session_timeout=0.6)
    one.join()
    other.join()
    session = one.session.name
    # What a frozen process looks like to the others: its session ended.
    target.control.zadd(f"{name}:members", {session: 1})
    other.heartbeat()
    assert other.partitions == tuple(range(16))
    assert target.control.zscore(f"{name}:members", session) is None
    assignment = one.heartbeat()
    assert assignment.session != session.decode()
    other.heartbeat()
    assert settled([one, other])


def test_a_session_that_ran_out_unnoticed_goes_on(
    make_member: MakeMember, target: Target, name: str
) -> None:
    member = make_member()
    before = member.join()
    target.control.zadd(f"{name}:members", {member.session.name: 1})
    assert member.heartbeat() == before


def test_beats_keep_a_session_alive(make_member: MakeMember, target: Target, name: str) -> None:
    one, other = make_member(session_timeout=1), make_member(session_timeout=1)
    one.join()
    generation = other.join().generation

    def ends() -> list[float]:
        found: Any = target.control.zrange(f"{name}:members", 0, -1, withscores=True)
        return [end for _, end in found]

    last = max(ends())  # in µs
    wait_until(lambda: min(ends()) > last + 1_200_000, "both to beat for longer than a session")
    assert one.heartbeat().generation == other.heartbeat().generation == generation


def test_a_member_that_dies_is_noticed_when_its_session_ends(
    make_member: MakeMember, target: Target, name: str
) -> None:
    member = make_member(session_timeout=1)
    seconds, micros = target.control.eval("return redis.call('TIME')", 1, f"{name}:members")
    member.join()
    target.control.zadd(f"{name}:members", {"dead": int(seconds) * 10**6 + int(micros) + 700_000})
    target.control.hincrby(f"{name}:group", "generation", 1)
    member.heartbeat()
    assert len(member.partitions) == 8
    began = time.monotonic()
    wait_until(lambda: len(member.partitions) == 16, "its shares to come back")
    assert time.monotonic() - began < 5


def test_members_that_disagree_on_the_number_of_shares_are_refused(
    make_member: MakeMember,
) -> None:
    one = make_member(partitions=16)
    one.join()
    with pytest.raises(ackq.ConfigurationError, match="has 16 partitions, not 8"):
        make_member(partitions=8).join()
    assert one.heartbeat().partitions == tuple(range(16))
    one.leave()
    assert make_member(partitions=8).join().partitions == tuple(range(8))


def test_more_members_than_shares(make_member: MakeMember) -> None:
    members = [make_member(partitions=2) for _ in range(4)]
    for member in members:
        member.join()
    for member in members:
        member.heartbeat()
    assert shares_of(members) == [0, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"partitions": 0},
        {"partitions": 1025},
        {"partitions": True},
        {"session_timeout": 0},
        {"session_timeout": 3601},
        {"session_timeout": float("nan")},
    ],
)
def test_a_setting_out_of_range_is_refused(
    make_member: MakeMember, settings: dict[str, Any]
) -> None:
    with pytest.raises(ackq.ConfigurationError):
        make_member(**settings)


def test_a_key_of_another_type_is_named(make_member: MakeMember, target: Target, name: str) -> None:
    target.control.set(f"{name}:owners", "x")
    with pytest.raises(ackq.KeyTypeError, match=f"{name}:owners' is a string, not a hash"):
        make_member().join()
    assert not target.control.exists(f"{name}:members")
    target.control.unlink(f"{name}:owners")
