"""What a member asks for between two replies, and who owns which partition, with no server."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ConnectionError, NoPermissionError, ResponseError

from ackq.core.effects import Request
from ackq.errors import ConfigurationError, KeyTypeError, QueueNameError
from ackq.membership import shards
from ackq.membership.assign import assign
from ackq.membership.operations import Assignment, GroupSpec, Session, heartbeat, leave
from ackq.membership.shards import Shards
from ackq.ops.sharded import is_recorded, shard_names_of
from tests.steps import play

SPEC = GroupSpec.of("g", 8, 10.0)
KEYS = (3, b"g:members", b"g:group", b"g:owners")


def _session(**fields: Any) -> Session:
    return Session("me", **fields)


def _reply(generation: int, assigned: int, wait: int, *more: Any) -> list[Any]:
    return [b"ok", generation, assigned, wait, *more]


def test_members_take_turns_and_give_up_their_highest_partitions() -> None:
    first = assign(8, [b"c", b"a", b"b"], {})
    assert first == dict(enumerate([b"a", b"b", b"c", b"a", b"b", b"c", b"a", b"b"]))
    joined = assign(8, [b"d", b"c", b"b", b"a"], first)
    assert joined == first | {6: b"d", 7: b"d"}
    assert assign(8, [b"a", b"c"], first) == first | {1: b"c", 4: b"a", 7: b"c"}
    # Who has more keeps more, so that nothing moves.
    settled = {0: b"b", 1: b"b", 2: b"b", 3: b"a", 4: b"a"}
    assert assign(5, [b"a", b"b"], settled) == settled


def test_the_settings_of_a_group_at_their_limits() -> None:
    for partitions in (1, 1024):
        GroupSpec.of("g", partitions, 3600.0)
    for wrong in ((0, 10.0), (1025, 10.0), (8, 3600.1), (8, 0)):
        with pytest.raises(ConfigurationError):
            GroupSpec.of("g", *wrong)
    with pytest.raises(QueueNameError):
        GroupSpec.of("a*", 8, 10.0)
    assert SPEC.keys.all() == KEYS[1:]
    # Two heartbeats of a session may be lost.
    assert GroupSpec.of("g", 8, 1.5).heartbeat_interval() == 0.5
    large = GroupSpec.of("g", 8, 60.0)
    assert [large.heartbeat_interval(each) for each in (1, 1000, 5000, 10**6)] == [1, 1, 5, 20]


def test_the_first_member_of_a_group_assigns_itself_everything() -> None:
    session = _session()
    mine = [b"%d" % partition for partition in reversed(range(8))]
    asked, found = play(
        heartbeat(SPEC, session),
        _reply(1, 0, -1, [b"me:1"], []),
        1,
        _reply(1, 1, 400_000, 1, mine),
    )
    assert found == session.assignment == Assignment("me:1", 1, tuple(range(8)), 1)
    assert session.owns() == tuple(range(8))
    assert session.joined
    assert session.next_heartbeat == 0.4  # then another session may be over
    joins, assigns, stays = asked
    assert joins.args == (*KEYS, b"me:1", 10_000_000, 8, 1, 0)
    assert assigns.args[:5] == (*KEYS, 1)
    assert dict(zip(assigns.args[5::2], assigns.args[6::2], strict=True)) == dict.fromkeys(
        range(8), b"me:1"
    )
    assert stays.args[-2:] == (0, 0)
    assert [each.script.name for each in asked] == [
        "members/heartbeat",
        "members/assign",
        "members/heartbeat",
    ]
    assert all(each.resend for each in asked)


def test_a_member_that_knows_its_assignment_keeps_it() -> None:
    known = Assignment("me:1", 5, (1, 2), 4)
    session = _session(joined=True, assignment=known)
    (asked,), found = play(heartbeat(SPEC, session), _reply(5, 5, -1))
    assert found is known
    assert asked.args[-2:] == (0, 5)
    assert session.next_heartbeat == 1.0
    # An assignment of others, of whose partitions it gets some.
    _, found = play(heartbeat(SPEC, session), _reply(6, 6, 5_000_000, 2, [b"3", b"1"]))
    assert found == Assignment("me:1", 6, (1, 3), 2)
    assert session.next_heartbeat == 1.0


def test_a_new_member_asks_again_soon_while_another_one_assigns() -> None:
    session = _session()
    waits = []
    for _ in range(1200):
        _, found = play(heartbeat(SPEC, session), _reply(2, 1, 9_000_000))
        assert found == session.assignment == Assignment("me:1", 0, (), 1)
        waits.append(session.next_heartbeat)
    assert waits[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert set(waits[6:]) == {1.0}
    (asked,), found = play(heartbeat(SPEC, session), _reply(3, 3, -1, 2, [b"1"]))
    assert asked.args[-1] == 0  # it knows nothing yet
    assert (found.partitions, session.asked) == ((1,), 0)
    # A member that has partitions keeps them, and is in no hurry.
    (asked,), again = play(heartbeat(SPEC, session), _reply(4, 3, -1))
    assert again is found is session.assignment
    assert (session.next_heartbeat, session.asked) == (1.0, 0)


def test_an_assignment_that_was_refused_is_left_to_another_member() -> None:
    session = _session()
    asked, found = play(
        heartbeat(SPEC, session), _reply(1, 0, -1, [b"me:1"], []), 0, _reply(2, 0, 10_000)
    )
    assert (found.generation, len(asked)) == (0, 3)
    assert session.next_heartbeat == 0.01


def test_a_session_that_is_over_begins_anew_under_another_name() -> None:
    session = _session(joined=True, assignment=Assignment("me:1", 5, (1, 2), 4))
    asked, found = play(heartbeat(SPEC, session), [b"fenced"], _reply(7, 7, -1, 1, [b"0"]))
    assert found == Assignment("me:2", 7, (0,), 1)
    assert asked[1].args[4:] == (b"me:2", 10_000_000, 8, 1, 0)


def test_members_that_differ_in_the_number_of_partitions_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="has 4 partitions, not 8"):
        play(heartbeat(SPEC, _session()), [b"shares", 4])


def test_a_member_leaves_once() -> None:
    session = _session()
    assert play_nothing(session) is False
    session = _session(joined=True, assignment=Assignment("me:1", 5, (1, 2), 4))
    (asked,), left = play(leave(SPEC, session), 1)
    assert (left, asked.args, asked.script.name) == (True, (*KEYS, b"me:1"), "members/leave")
    assert (session.name, session.joined, session.owns()) == (b"me:2", False, ())
    assert play_nothing(session) is False
    session.joined = True
    assert play(leave(SPEC, session), 0)[1] is False


def play_nothing(session: Session) -> bool:
    with pytest.raises(StopIteration) as ended:
        next(leave(SPEC, session))
    left: bool = ended.value.value
    return left


# --- the record of a sharded queue's shards -------------------------------------------------


def test_the_names_of_shards() -> None:
    recorded = Shards(2, 4, draining=(3, 4))
    assert recorded.names("jobs") == ("{jobs:0.1}", "{jobs:1.3}", "{jobs:2.1}", "{jobs:3.3}")
    assert recorded.draining_names("jobs") == ("{jobs:0.0}", "{jobs:1.0}", "{jobs:2.0}")
    assert Shards(1, 2).names("jobs") == ("{jobs:0}", "{jobs:1}")
    for name in ("{jobs:0.1}", "{jobs:12}"):
        assert shards.is_shard(name, "jobs")
    for name in ("{jobs}", "{jobs:0.1}DEAD", "{jobsx:0}", "{jobs:0.}", "x{jobs:0}", "{j.bs:1}"):
        assert not shards.is_shard(name, "jobs")
    assert not shards.is_shard("{jobs:0}", "j.bs")
    for fine in (None, 1, 1024):
        shards.check_shards("jobs", fine)
    for wrong in (0, 1025, True):
        with pytest.raises(ConfigurationError, match="shards"):
            shards.check_shards("jobs", wrong)
    wrong_names: tuple[Any, ...] = ("", "a{", "a}", None)
    for each in wrong_names:
        with pytest.raises(QueueNameError, match=f"^sharded queue name {each!r} is text without"):
            shards.check_shards(each, 1)


def test_what_is_recorded_is_found_by_those_who_may_only_read() -> None:
    def found(*answers: Any) -> tuple[list[Any], Shards | None]:
        asked, recorded = play(shards.recorded_shards("jobs"), *answers)
        assert all(each.resend for each in asked)
        return [each.args for each in asked], recorded

    record, group = "{jobs}:shards", "{jobs}:group"
    assert found(b"2", b"4", b"3 2") == (
        [(b"HGET", record, "format"), (b"HGET", record, "shards"), (b"HGET", record, "draining")],
        Shards(2, 4, draining=(3, 2)),
    )
    assert found(b"2", b"4", None)[1] == Shards(2, 4)
    assert found(b"3", b"4", b"")[1] is None
    assert found(b"2", None, b"")[1] is None
    assert found(None, b"4") == (
        [(b"HGET", record, "format"), (b"HGET", group, "shares")],
        Shards(1, 4),
    )
    assert found(None, b"1024")[1] == Shards(1, 1024)
    for shares in (None, b"", b"x", b"1025"):
        assert found(None, shares)[1] is None
    assert found(NoPermissionError(), NoPermissionError())[1] is None


def test_a_record_that_could_not_be_read_is_not_taken_for_none() -> None:
    for error in (ConnectionError("away"), ResponseError("LOADING")):
        for steps in (shards.recorded_shards("jobs"), is_recorded("jobs")):
            with pytest.raises(type(error)):
                play(steps, error)
    for error in (NoPermissionError(), ResponseError("WRONGTYPE")):
        assert not play(is_recorded("jobs"), error, None)[1]
    assert play(shard_names_of("jobs"), ResponseError("WRONGTYPE"))[1] == []


def test_the_record_is_read_and_created_by_one_call() -> None:
    (asked,), found = play(shards.read("jobs"), [0])
    assert found is None
    assert isinstance(asked, Request)
    assert asked.args == (2, b"{jobs}:shards", b"{jobs}:group", 0)
    assert asked.resend
    (asked,), found = play(shards.read("jobs", 4), [2, 4, 3, b"2 8"])
    assert (asked.args[-1], found) == (4, Shards(2, 4, 3, (2, 8)))
    assert play(shards.read("jobs"), [1, 5])[1] == Shards(1, 5)
    with pytest.raises(ConfigurationError, match="has format 3"):
        play(shards.read("jobs"), [3])


def test_a_key_of_another_type_is_named_with_the_type_that_it_should_have() -> None:
    wrong = ResponseError("WRONGTYPE Operation against a key")
    right = [b"zset", b"hash", b"hash"]
    for at, (name, kind) in enumerate((("members", "zset"), ("group", "hash"), ("owners", "hash"))):
        types = [*right[:at], b"stream", *right[at + 1 :]]
        text = f"group 'g': '.*:{name}' is a stream, not a {kind}. Nothing"
        with pytest.raises(KeyTypeError, match=text):
            play(heartbeat(SPEC, _session()), wrong, *types)
