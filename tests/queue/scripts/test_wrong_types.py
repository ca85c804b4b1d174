"""A key of another type stops a script before it has changed anything."""

import pytest
from redis.exceptions import ResponseError

from ackq.core.names import LOOKS
from tests.queue.scripts.busy import Call, damage, prepare
from tests.queue.scripts.calls import ALL
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import Space

#: Taking and settling read the type of every key. The estimate of waiting consumers is worth no
#: failed pop, so its key is only left as it is.
STRICT = {"pop", "ack", "nack", "stats", "groups/pop", "groups/ack"} | {
    f"worker/{script}" for script in ("heartbeat", "leave", "list", "order")
}


@pytest.mark.parametrize("call", ALL, ids=str)
def test_a_key_of_another_type_is_an_error_before_anything_is_changed(
    space: Space, call: Call
) -> None:
    header = parse(read(space.directory, call.script))
    for slot in (*header.keys, *header.grouped):
        if slot.suffix == "PAUSED":
            continue  # a pause is whether its key exists, whatever the type
        space.clear()
        space.grouped = slot in header.grouped
        prepare(space, call.script)
        if call.script == "audit_scan":
            damage(space)
        key = space.key(slot.suffix)
        space.client.delete(key)
        if slot.type == "string":
            space.client.lpush(key, "of another type")
        else:
            space.client.set(key, "of another type")
        before = space.dump()
        error = ""
        try:
            call.on(space)
        except ResponseError as raised:
            error = str(raised)
        if error or (call.script in STRICT and slot.suffix != LOOKS):
            assert "WRONGTYPE" in error, slot
            assert space.dump() == before, slot
        elif call.script != "rsmq/delete_queue":  # deletes keys of any type
            # Not every call of a script needs every key; what it has not read it may not destroy.
            assert space.dump()[slot.suffix] == before[slot.suffix], slot
