"""The scripts of a group: what each member gets, and which assignment counts."""

from tests.membership.scripted import NOW, SECOND, SESSION, Group

#: µs that a member has to compute an assignment.
ASSIGNING = 50_000


def test_an_assignment_counts_once_and_only_for_its_generation(group: Group) -> None:
    group.client.hset(group.group, "generation", 5)
    group.client.hset(group.owners, "9", "old")
    assert group.call("assign", 4, 0, "old") == 0
    assert group.call("assign", 5, 0, "first", 1, "other") == 1
    assert group.call("assign", 5, 0, "second") == 0
    assert group.client.hgetall(group.owners) == {b"0": b"first", b"1": b"other"}


def test_a_reply_is_no_longer_than_it_has_to_be(group: Group) -> None:
    """With thousands of members, each of them asks again after each change."""
    far = NOW + 3600 * SECOND
    group.client.zadd(group.members, {f"other {number}": far + number for number in range(10_500)})
    generation, assigned, wait, sessions, owners = group.join("me")
    assert (generation, assigned, wait, owners) == (1, 0, 3600 * SECOND, [])
    assert sorted(sessions) == sorted(f"other {number}".encode() for number in range(500, 10_500))
    group.client.hset(group.owners, mapping={"7": "me", "8": "other 1", "1023": "me"})
    group.client.hset(group.group, "assigned", 1)
    *_, members, own = group.join("me")
    assert (members, sorted(own)) == (10_501, [b"1023", b"7"])
    assert len(group.join("me", known=1)) == 3


def test_one_member_at_a_time_computes_the_assignment(group: Group) -> None:
    assert group.join("one")[3:] == [[b"one"], []]
    for asking in ("other", "one"):
        assert group.join(asking, now=NOW + ASSIGNING - 1)[:2] == [2, 0]
        assert len(group.join(asking, now=NOW + ASSIGNING - 1)) == 3
    # It may have died, or was too slow.
    late = NOW + ASSIGNING
    assert sorted(group.join("other", now=late)[3]) == [b"one", b"other"]
    assert len(group.join("one", now=late + 1)) == 3
    assert group.call("assign", 2, 0, "one", 1, "other") == 1
    assert group.join("one", now=late + 2)[3:] == [2, [b"0"]]
    # The next change is assigned at once. After a step of the clock, nobody waits for a time that
    # is far.
    for asking, now in (("third", late + 3), ("one", NOW - 600 * SECOND)):
        reply = group.join(asking, now=now)
        assert len(reply) == 5
        assert sorted(reply[3]) == [b"one", b"other", b"third"]


def test_a_session_that_left_is_fenced_and_the_others_hear_of_it(group: Group) -> None:
    group.join("one")
    group.join("other")
    assert group.call("leave", "other") == 1
    assert group.call("leave", "other") == 0
    assert group.call("heartbeat", "other", SESSION, 4, 0, 2) == [b"fenced"]
    assert group.join("one", now=NOW + SECOND)[0] == 3


def test_another_number_of_partitions_is_refused_while_others_are_there(group: Group) -> None:
    group.join("one")
    assert group.call("heartbeat", "other", SESSION, 5, 1, 0) == [b"shares", 4]
    group.call("assign", 1, 0, "one", 1, "one", 2, "one", 3, "one")
    assert group.join("one", shares=5)[0] == 2
    assert not group.client.exists(group.owners)


def test_a_session_that_ended_is_removed_and_changes_the_generation(group: Group) -> None:
    group.join("dead")
    assert group.join("one", now=NOW + SECOND)[2] == SESSION - SECOND
    assert group.join("one", now=NOW + SESSION)[0] == 3
    assert list(group.sessions()) == [b"one"]
