"""Every request of a member of a group, word by word, and who owns which partition.

The requests and replies are in `requests.txt`, as `tests.traces` explains. A difference is a change
of what releases that share a group send to one another.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError, NoPermissionError, ResponseError

from ackq.errors import ConfigurationError, QueueNameError
from ackq.membership import shards
from ackq.membership.assign import assign
from ackq.membership.operations import Assignment, GroupSpec, Session, heartbeat, leave
from ackq.membership.shards import Shards
from ackq.ops.sharded import is_recorded, shard_names_of
from tests.steps import play
from tests.traces import Traces, compare

FILE = Path(__file__).with_name("requests.txt")
SPEC = GroupSpec.of("g", 8, 10.0)


def _session(**fields: Any) -> Session:
    return Session("me", **fields)


def _member() -> Session:
    return _session(joined=True, assignment=Assignment("me:1", 5, (1, 2), 4))


def _reply(generation: int, assigned: int, wait: int, *more: Any) -> list[Any]:
    return [b"ok", generation, assigned, wait, *more]


def heartbeats() -> Traces:
    def beating(title: str, session: Session) -> Traces:
        yield title, heartbeat(SPEC, session)
        yield f"  then {session}, owns {session.owns()}"

    yield from beating("the first member assigns itself everything", _session())
    member = _member()
    yield from beating("a member keeps its assignment", member)
    yield from beating("a member gets another assignment", member)
    yield from beating("a member has partitions while another one assigns", member)
    yield from beating("a new member while another one assigns", _session())
    yield from beating("an assignment that is refused is another member's", _session())
    yield from beating("a session that is over begins again under another name", _member())
    yield from beating("members that differ in the number of partitions", _session())
    for at in ("members", "group", "owners"):
        yield from beating(f"a key of another type at {at}", _session())
    for session in (_session(), member):
        yield f"leave, joined={session.joined}", leave(SPEC, session)
        yield f"  then {session}, owns {session.owns()}"
    yield "leave again", leave(SPEC, member)
    yield "leave when the session is over", leave(SPEC, _member())


def groups() -> Traces:
    for name, partitions, timeout in (
        ("g", 1, 3600.0),
        ("g", 1024, 1.5),
        ("g", 0, 10.0),
        ("g", 1025, 10.0),
        ("g", 8, 3600.1),
        ("g", 8, 0),
        ("a*", 8, 10.0),
    ):
        made = partial(GroupSpec.of, name, partitions, timeout)
        yield f"a group {name!r} of {partitions} partitions, {timeout} s", made
    for seconds, partitions in ((1.5, 1), (60.0, 1), (60.0, 1000), (60.0, 5000), (60.0, 10**6)):
        # Two heartbeats of a session may be lost.
        interval = partial(GroupSpec.of("g", 8, seconds).heartbeat_interval, partitions)
        yield f"heartbeats of {partitions} members, {seconds} s", interval


def records() -> Traces:
    for title in (
        "format 2, draining",
        "format 2",
        "format 2, of groups",
        "format 4",
        "format 2 without shards",
        "format 1",
        "format 1, the most",
        "format 1, without shares",
        "format 1, empty",
        "format 1, another text",
        "format 1, too many",
        "that may not be read",
    ):
        yield f"a record, {title}", shards.recorded_shards("jobs")
    yield "read no record", shards.read("jobs")
    yield "create a record", shards.read("jobs", 4)
    yield "read a record of format 1", shards.read("jobs")
    yield "read a record of format 2, of groups", shards.read("jobs")
    yield "read a record of format 4", shards.read("jobs")


PARTS = (heartbeats, groups, records)


def test_the_requests_of_a_member() -> None:
    compare(FILE, PARTS)


def test_members_take_turns_and_give_up_their_highest_partitions() -> None:
    first = assign(8, [b"c", b"a", b"b"], {})
    assert first == dict(enumerate([b"a", b"b", b"c", b"a", b"b", b"c", b"a", b"b"]))
    joined = assign(8, [b"d", b"c", b"b", b"a"], first)
    assert joined == first | {6: b"d", 7: b"d"}
    assert assign(8, [b"a", b"c"], first) == first | {1: b"c", 4: b"a", 7: b"c"}
    # Who has more keeps more, so that nothing moves.
    settled = {0: b"b", 1: b"b", 2: b"b", 3: b"a", 4: b"a"}
    assert assign(5, [b"a", b"b"], settled) == settled


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
    with pytest.raises(QueueNameError, match="text, not None"):
        shards.check_shards(None, 1)  # type: ignore[arg-type]
    for each in ("", "a{", "a}"):
        with pytest.raises(QueueNameError, match=f"^sharded queue name {each!r} is text without"):
            shards.check_shards(each, 1)


def test_a_record_that_could_not_be_read_is_not_taken_for_none() -> None:
    for error in (ConnectionError("away"), ResponseError("LOADING")):
        for steps in (shards.recorded_shards("jobs"), is_recorded("jobs")):
            with pytest.raises(type(error)):
                play(steps, error)
    for error in (NoPermissionError(), ResponseError("WRONGTYPE")):
        assert not play(is_recorded("jobs"), error, None)[1]
    assert play(shard_names_of("jobs"), ResponseError("WRONGTYPE"))[1] == []
