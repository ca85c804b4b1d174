"""A key of another type stops a script before it has changed anything."""

from collections.abc import Collection

import pytest
from redis.exceptions import ResponseError

from ackq.core.names import LOOKS
from tests.queue.scripts.busy import Call, damage, prepare
from tests.queue.scripts.calls import ALL
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import Space

#: Any key of the script.
ANY = frozenset({"*"})
#: What a call of a script may pass by without an error, as it does not read it, or reads any type.
#: The estimate of waiting consumers is worth no failed call, so no script fails for its key.
LENIENT: dict[str, Collection[str]] = {
    "ack_id": {"DELAYED"},
    "audit": ANY,
    "claims/forget": {"CLAIM:<group>:<batch>"},
    "convert": ANY,
    "delay/cancel": {":counters", ":dead", ":wake"},
    "delay/claim": {":counters", ":wake", ":z"},
    "delay/claim_ack": {":counters", ":dead", ":wake"},
    "delay/claim_beat": ANY,
    "delay/claim_read": ANY,
    "delay/claim_return": {":counters", ":dead"},
    "delay/delete": {":counters", ":dead", ":group", ":members", ":wake"},
    "delay/drop": ANY,
    "delay/extend": ANY,
    "delay/nack": {":counters", ":group", ":members"},
    "delay/peek": {":counters", ":dead", ":errors", ":extended", ":wake"},
    "delay/purge": {":counters"},
    "delay/push": {":counters", ":dead"},
    "delay/redrive": {":counters"},
    "delay/reschedule": ANY,
    "delay/stats": ANY,
    "delay/take": {":counters", ":group", ":members"},
    "delay/watch": ANY,
    "forget": {"BACKUP", "DELAYED", "HELD"},
    "held/audit": {"CLAIM:<group>:<batch>"},
    "held/drop": {"CLAIM:<group>:<batch>"},
    "held/give_back": {"CLAIM:<group>:<batch>"},
    "members/assign": {":members"},
    "members/leave": {":owners"},
    "overview/lists": ANY,
    "peek": {"", "BACKUP", "CLAIM:<group>:<batch>", "DELAYED", "HANDOFF"},
    "push_unique": {"HELD"},
    "rsmq/counters": {":{q}", ":{q}:Q.dead"},
    "rsmq/delete_queue": ANY,
    "rsmq/receive": {":{q}", ":{q}:Q.dead", ":{q}:Q.errors", ":{q}:Q.waiters", ":{q}:Q.wake"},
    "rsmq/redrive": {":{q}", ":{q}:Q.dead", ":{q}:Q.waiters", ":{q}:Q.wake"},
    "rsmq/send": {":{q}", ":{q}:Q.waiters", ":{q}:Q.wake"},
    "rsmq/visibility": {":{q}", ":{q}:Q.errors", ":{q}:Q.waiters", ":{q}:Q.wake"},
    "search": ANY,
    "sharded/close": {"", "CONTEXT"},
    "sharded/retire": ANY,
    "sharded/revive": {""},
    "sharded/seal": ANY,
    "staging/delay": ANY,
    "staging/queue": {"STAGED:<writer>:<batch>:<task>"},
    "staging/stage": {"STAGED:<writer>:<batch>:<task>"},
    "staging/topic": {":staged:<writer>:<batch>:<task>:keep=<ms>,<messages>:"},
    "topic/publish": {":dedup:<marker>"},
    "worker/tick": ANY,
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
        passed_by = {LOOKS, *LENIENT.get(call.script, ())}
        if error or passed_by.isdisjoint({slot.suffix, "*"}):
            assert "WRONGTYPE" in error, slot
            assert space.dump() == before, slot
        elif call.script != "rsmq/delete_queue":  # deletes keys of any type
            # Not every call of a script needs every key; what it has not read it may not destroy.
            assert space.dump()[slot.suffix] == before[slot.suffix], slot
