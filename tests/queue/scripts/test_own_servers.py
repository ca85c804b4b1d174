"""Servers that refuse writes: full, replicas, or without enough replicas."""

import pytest
import redis
from redis.exceptions import RedisError, ResponseError

from tests.queue.scripts.busy import Call, damage, fill, prepare
from tests.queue.scripts.calls import CALLS, READERS
from tests.queue.scripts.headers import parse, passed, read
from tests.queue.scripts.space import FUTURE, PAST, SECOND, Space, body

STORING = {"schedule", "push_once", "redrive"}
# Nothing is recorded of a queue in use, and no record of a filled queue is forgotten.
WRITERS = [call for call in CALLS if call.script not in {*READERS, "record", "forget"}]

# Scripts of queues with groups take no other queue. letters that may not repair only looks.
GROUPED = [
    call
    for call in WRITERS
    if call.script.startswith("groups/") and (call.script, *call.args[:1]) != ("groups/letters", 0)
]
LISTED = [call for call in WRITERS if not call.script.startswith("groups/")]


def exhaust_memory(space: Space) -> None:
    space.client.config_set("maxmemory", 1)
    with pytest.raises(RedisError, match="used memory"):
        space.client.lpush(space.name, "more")


# A full server. pop, ack, nack, extend and reject each begin with a write that frees, if only
# nothing: Redis refuses a script at its first write that may allocate, and none after.


def test_a_full_queue_can_be_drained(own_space: Space) -> None:
    own_space.push(body("a"), body("b"))
    exhaust_memory(own_space)
    first = own_space.pop()
    second = own_space.pop(settled=[(first.deadline, "a")])
    assert (first.keys, second.keys) == ([b"a"], [b"b"])
    assert own_space.ack((second.deadline, "b")) == [1]
    assert own_space.dump() == {}


def test_a_full_server_takes_back_what_expired_and_what_is_due(own_space: Space) -> None:
    own_space.lease("a", deadline=PAST)
    own_space.delay("b", due=PAST)
    exhaust_memory(own_space)
    assert own_space.pop(2).keys == [b"a", b"b"]


def test_a_full_server_requeues_to_the_back(own_space: Space) -> None:
    own_space.lease("a", deadline=PAST)
    exhaust_memory(own_space)
    assert own_space.pop(requeue="back").counts == [2]


def test_poison_is_dead_lettered_on_a_full_server(own_space: Space) -> None:
    own_space.push(b"x" * 101)
    own_space.lease("a", deadline=PAST, count=3)
    exhaust_memory(own_space)
    assert own_space.pop(2, max_body=100, max_receives=3).status == "again"
    assert len(own_space.dead) == 2


@pytest.mark.parametrize("delay", [SECOND, -1])
@pytest.mark.parametrize("max_receives", [0, 1])
def test_work_can_be_given_back_to_a_full_server(
    own_space: Space, delay: int, max_receives: int
) -> None:
    own_space.lease("a")
    exhaust_memory(own_space)
    reply = own_space.nack((FUTURE, delay, "a"), max_receives=max_receives)
    assert reply[0] == 1
    assert own_space.leases == {}


def test_a_message_can_be_rejected_on_a_full_server(own_space: Space) -> None:
    own_space.lease("a")
    exhaust_memory(own_space)
    assert own_space.reject((FUTURE, "a")) == [1]
    assert own_space.dead == [(b"a", body("a"), "bad", 1)]


def test_a_lease_can_be_extended_on_a_full_server(own_space: Space) -> None:
    own_space.lease("a")
    exhaust_memory(own_space)
    deadline, *rest = own_space.extend((FUTURE, "a"))
    assert (rest, own_space.leases) == ([1], {b"a": deadline})


def test_ready_messages_can_be_canceled_on_a_full_server(own_space: Space) -> None:
    own_space.push(body("a"), body("b"))
    exhaust_memory(own_space)
    assert own_space.call("pick", "cancel", "ready", 9, 0, "right", "a")[3:] == [1, 0]
    assert own_space.deep_after(0).call("pick", "cancel", "ready", 9, 0, "right", "b")[3:] == [1, 0]
    assert own_space.pop().status == "again"


def test_messages_that_were_moved_aside_can_be_canceled_on_a_full_server(own_space: Space) -> None:
    parked = own_space.key("GROUPS:PARKED")
    own_space.client.zadd(parked, {b"001x%016d" % 1 + body("a"): 0})
    exhaust_memory(own_space)
    assert own_space.call("groups/cancel", "", "a") == [b"", 1]
    assert own_space.client.zcard(parked) == 0


@pytest.mark.parametrize("script", ["ack_id", "purge", "drain"])
def test_what_frees_works_on_a_full_server(own_space: Space, script: str) -> None:
    fill(own_space)
    exhaust_memory(own_space)
    [call] = [each for each in WRITERS if each.script == script][-1:]
    freed = call.on(own_space)
    assert (freed[0] if script == "ack_id" else freed) > 0


def test_what_stores_is_refused_by_a_full_server_and_leaves_nothing(own_space: Space) -> None:
    fill(own_space)
    exhaust_memory(own_space)
    before = own_space.dump()
    for call in CALLS:
        if call.script in STORING:
            with pytest.raises(ResponseError, match="used memory"):
                call.on(own_space)
            assert own_space.dump() == before, call


# Servers that take no writes at all.


def check_that_writers_are_refused(space: Space, writers: list[Call], error: str) -> None:
    """Check that each of these calls ends in the error, and changes nothing."""
    before = space.dump()
    for call in writers:
        with pytest.raises(RedisError, match=error):
            call.on(space)
        assert space.dump() == before, call


@pytest.mark.parametrize("writers", [LISTED, GROUPED], ids=["listed", "grouped"])
def test_a_replica_refuses_before_anything_is_changed(
    own_space: Space, writers: list[Call]
) -> None:
    prepare(own_space, writers[0].script)
    damage(own_space)
    own_space.client.replicaof("127.0.0.1", 1)  # no server listens there, so it keeps its data
    check_that_writers_are_refused(own_space, writers, r"READONLY|read only replica")


@pytest.mark.parametrize("writers", [LISTED, GROUPED], ids=["listed", "grouped"])
def test_too_few_replicas_refuse_before_anything_is_changed(
    own_space: Space, writers: list[Call]
) -> None:
    prepare(own_space, writers[0].script)
    damage(own_space)
    own_space.client.config_set("min-replicas-to-write", 1)
    check_that_writers_are_refused(own_space, writers, "NOREPLICAS")


def test_a_replica_can_be_looked_at(own_space: Space) -> None:
    fill(own_space)
    before = own_space.dump()
    own_space.client.replicaof("127.0.0.1", 1)
    for call in CALLS:
        if call.script in READERS:
            call.on(own_space)
    assert own_space.dump() == before


# Least privilege.


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_script_touches_no_key_that_it_does_not_declare(own_space: Space, call: Call) -> None:
    prepare(own_space, call.script)
    damage(own_space)
    header = parse(read(own_space.directory, call.script))
    declared = [slot.suffix for slot in passed(call.script, header, grouped=False)]
    keys = [f"~{own_space.key(suffix).decode()}" for suffix in declared]
    server = own_space.client
    server.execute_command("ACL", "SETUSER", "narrow", "reset", "on", "nopass", "+@all", *keys)
    call.on(own_space)  # loads the script
    server.flushall()
    prepare(own_space, call.script)
    where = server.connection_pool.connection_kwargs
    with redis.Redis(where["host"], where["port"], username="narrow", password="any") as narrow:
        call.on(Space(narrow, own_space.name, own_space.directory))
