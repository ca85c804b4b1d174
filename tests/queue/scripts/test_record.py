"""The record of a queue, and who is refused because of it."""

import pytest
from redis.exceptions import ResponseError

from ackq import scripts
from tests.queue.scripts.busy import Call, fill, fill_groups
from tests.queue.scripts.calls import ALL
from tests.queue.scripts.grouped import RECORD, fields
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import NOW, PAST, Space, body

LEFT = {"format": "2", "kind": "left"}
RECORDS = {"left": LEFT, "groups": fields(RECORD)}


def written(space: Space, wanted: dict[str, str]) -> dict[bytes, bytes] | bytes:
    """Record settings, and return the reply."""
    reply = space.call("record", *(part for pair in wanted.items() for part in pair))
    return reply if isinstance(reply, bytes) else dict(zip(reply[::2], reply[1::2], strict=True))


def stored(wanted: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in wanted.items()}


@pytest.mark.parametrize("having", RECORDS)
def test_the_first_record_stays(space: Space, having: str) -> None:
    other = {"groups": LEFT, "left": fields(RECORD)}[having]
    for wanted in (RECORDS[having], RECORDS[having], other):
        assert written(space, wanted) == stored(RECORDS[having])
    assert space.dump() == {"RECORD": stored(RECORDS[having])}


@pytest.mark.parametrize("having", RECORDS)
@pytest.mark.parametrize("use", ["lease", "hold"])
def test_a_queue_in_use_is_not_taken_over(space: Space, having: str, use: str) -> None:
    space.lease("mine") if use == "lease" else space.hold(body("claimed"))
    before = space.dump()
    assert written(space, RECORDS[having]) == b"busy"
    assert space.dump() == before


@pytest.mark.parametrize("having", RECORDS)
def test_a_lease_that_ended_does_not_hold_up_a_record(space: Space, having: str) -> None:
    space.lease("expired", deadline=PAST)
    space.delay("later")
    space.hand_over(body("handed"))
    assert written(space, RECORDS[having]) == stored(RECORDS[having])


@pytest.mark.parametrize("until", [0, NOW, NOW + 1])
@pytest.mark.parametrize("having", RECORDS)
def test_a_list_that_is_the_queues_holds_up_groups_alone(
    space: Space, having: str, until: int
) -> None:
    """A writer may end between its commit and the move. Consumers of groups take no lists."""
    space.hold(body("committed"), until=until)
    is_busy = having == "groups" or until > NOW
    reply = written(space.frozen(), RECORDS[having])
    assert reply == (b"busy" if is_busy else stored(LEFT))


@pytest.mark.parametrize("use", ["lease", "delay", "hold"])
def test_the_left_end_stays_while_messages_depend_on_it(left: Space, use: str) -> None:
    left.hold(body("mine")) if use == "hold" else getattr(left, use)("mine")
    before = left.dump()
    assert left.call("forget") == 0
    assert left.dump() == before


def test_the_record_of_an_empty_queue_is_forgotten(left: Space) -> None:
    left.push(body("a"))
    assert left.call("forget") == left.call("forget") == 1
    assert left.dump().keys() == {""}


def test_a_record_of_another_kind_is_not_forgotten(space: Space, left: Space) -> None:
    space.grouped = True
    assert space.call("forget") == 0
    assert space.dump() == {"RECORD": stored(LEFT)}


def test_a_record_is_written_on_a_full_server(own_space: Space) -> None:
    own_space.push(body("a"))
    own_space.client.config_set("maxmemory", 1)
    assert written(own_space, LEFT) == stored(LEFT)
    own_space.client.config_set("maxmemory", 0)


# Who is refused.

#: The scripts that compare the record with what their caller knows: an end, if it is an argument.
GUARDED = (
    *("ack_id", "cancel", "claims/claim", "drain", "drop", "held/give_back", "held/scan", "nack"),
    *("oldest", "pick", "pop", "push_front", "push_unique", "redrive", "run_now", "staging/commit"),
    *("stats", "watch", "worker/tick"),
)


def calls(space: Space, script: str, known: str) -> tuple[Call, bool]:
    """Return a call by a client that knows this record, and whether it says so."""
    call = next(each for each in ALL if each.script == script)
    names = [slot.name for slot in parse(read(space.directory, script)).arguments]
    if "known" in names:
        return call.but(names.index("known"), known), True
    if "pop_from" in names:
        return call.but(names.index("pop_from"), known.replace("groups", "right")), True
    return call, False


def is_refused(space: Space, call: Call) -> bool:
    before = space.dump()
    try:
        call.on(space)
    except ResponseError as refused:
        if "ACKQ_RECORD" not in str(refused):
            raise
        return space.dump() == before
    return False


@pytest.mark.parametrize("script", GUARDED)
def test_a_client_that_knows_no_groups_is_refused(space: Space, script: str) -> None:
    fill(space)
    fill_groups(space)
    for known in ("right", "left"):
        assert is_refused(space, calls(space, script, known)[0])


@pytest.mark.parametrize("script", GUARDED)
def test_a_client_of_the_other_end_is_refused_where_the_end_matters(
    space: Space, script: str
) -> None:
    fill(space)
    space.client.hset(space.key("RECORD"), mapping=LEFT)
    call, names_the_end = calls(space, script, "right")
    assert is_refused(space, call) == names_the_end


@pytest.mark.parametrize("script", GUARDED)
@pytest.mark.parametrize("having", ["left", "groups"])
def test_a_record_of_another_format_is_refused(space: Space, script: str, having: str) -> None:
    fill(space)
    space.client.hset(space.key("RECORD"), mapping=RECORDS[having] | {"format": "3"})
    space.grouped = having == "groups"
    assert is_refused(space, calls(space, script, having)[0])


def test_every_script_with_the_record_is_guarded_or_needs_none() -> None:
    found = {name for name in scripts.names() if "{name}RECORD" in dict(scripts.load(name).keys)}
    grouped = {name for name in found if name.startswith("groups/")}
    assert found - grouped - {"record", "forget", "audit", "convert"} == set(GUARDED) | {
        "overview/lists"
    }
