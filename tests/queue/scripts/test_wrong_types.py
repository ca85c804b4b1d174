"""A key of another type stops a script before it has changed anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from ackq import scripts
from ackq.core.names import LOOKS
from tests.queue.scripts.busy import Call, damage, fill
from tests.queue.scripts.calls import CALLS
from tests.queue.scripts.headers import Slot, parse, read
from tests.queue.scripts.space import Space

# A pause is whether its key exists, whatever the type.
CASES = [
    (call, slot)
    for call in CALLS
    for slot in parse(read(scripts.directory(), call.script)).keys
    if slot.suffix != "PAUSED"
]


@pytest.mark.parametrize(
    ("call", "slot"), CASES, ids=[f"{call}-{slot.suffix or 'list'}" for call, slot in CASES]
)
def test_a_key_of_another_type_is_an_error_before_anything_is_changed(
    space: Space, call: Call, slot: Slot
) -> None:
    fill(space)
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
    if error:
        assert "WRONGTYPE" in error
        assert space.dump() == before
    else:
        # Not every call of a script needs every key; what it has not read it may not destroy.
        assert space.dump()[slot.suffix] == before[slot.suffix]


# The estimate of waiting consumers is worth no failed pop, so its key is only left as it is.
MUST_FAIL = [
    (call, slot)
    for call, slot in CASES
    if call.script in ("pop", "ack", "nack", "reject", "stats") and slot.suffix != LOOKS
]


@pytest.mark.parametrize(
    ("call", "slot"), MUST_FAIL, ids=[f"{call}-{slot.suffix or 'list'}" for call, slot in MUST_FAIL]
)
def test_taking_and_settling_read_the_type_of_every_key(
    space: Space, call: Call, slot: Slot
) -> None:
    fill(space)
    space.client.delete(space.key(slot.suffix))
    space.client.set(space.key(slot.suffix), "of another type")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        call.on(space)


def test_every_script_has_a_call_here(scripts_directory: Path) -> None:
    covered = ("", "claims/", "held/")
    assert {call.script for call in CALLS} == {
        f"{folder}{path.stem}"
        for folder in covered
        for path in (scripts_directory / folder).glob("*.lua")
    }
