"""ack, alone and with a pop: delete what the caller still holds."""

from collections.abc import Callable

import pytest

from tests.queue.scripts.space import FUTURE, NOW, Group, Space, body


def fused(space: Space, *groups: Group) -> list[int]:
    """Ack with a pop that finds nothing to take, and return what ack would."""
    before = len(space.leases)
    refused = space.pop(settled=groups).refused
    return [before - len(space.leases), *refused]


Ack = Callable[..., list[int]]
each = pytest.mark.parametrize("ack", [Space.ack, fused], ids=["ack", "pop"])


def test_an_ack_deletes_every_record_of_the_message(space: Space) -> None:
    space.lease("a", deadline=FUTURE, count=3, extended=f"7:{FUTURE}")
    assert space.ack((FUTURE, "a")) == [1]
    assert space.dump() == {}


def test_an_ack_deletes_nothing_of_other_messages(space: Space) -> None:
    space.lease("b", deadline=FUTURE, count=3, extended=f"7:{FUTURE}")
    space.delay("c", count=2)
    space.push(body("d"))
    before = space.dump()
    space.lease("a", deadline=FUTURE, count=2, extended=f"7:{FUTURE}")
    assert space.ack((FUTURE, "a")) == [1]
    assert space.dump() == before


@each
@pytest.mark.parametrize(
    "named", [("a",), ("a", "b"), ("a", "b", "gone"), ("a", "b", "b"), ("c", "b", "a", "gone")]
)
def test_an_ack_touches_no_other_message_of_its_batch(
    space: Space, ack: Ack, named: tuple[str, ...]
) -> None:
    for key in ("a", "b", "c"):
        space.lease(key, deadline=FUTURE)
    gone = [-1 - at for at, key in enumerate(named) if key == "gone"]
    assert ack(space, (FUTURE, *named)) == [len(set(named) & {"a", "b", "c"}), *gone]
    assert space.leases.keys() == {b"a", b"b", b"c"} - {each.encode() for each in named}
    assert space.bodies.keys() == space.leases.keys()


@each
def test_an_ack_of_a_whole_batch_leaves_nothing_of_it(space: Space, ack: Ack) -> None:
    for key in ("a", "b", "c"):
        space.lease(key, deadline=FUTURE, count=2, extended=f"7:{FUTURE}")
    assert ack(space, (FUTURE, "b", "c", "a")) == [3]
    assert space.dump() == {}


def test_a_note_of_extension_does_not_outlive_its_score(space: Space) -> None:
    # As if a lease had been taken again by something that knows no extensions.
    space.lease("a", deadline=FUTURE, extended=f"7:{FUTURE - 1}")
    assert space.ack((7, "a")) == [0, 1]


def test_the_extension_of_one_message_is_none_of_another(space: Space) -> None:
    space.lease("a", deadline=FUTURE, extended=f"7:{FUTURE}")
    space.lease("b", deadline=FUTURE)
    assert space.ack((7, "a", "b")) == [1, 2]
    assert space.leases == {b"b": FUTURE}


def test_an_ack_of_nothing_settles_nothing(space: Space) -> None:
    space.lease("a")
    before = space.dump()
    assert space.ack() == [0]
    assert space.dump() == before


def test_four_thousand_messages_are_acked_in_one_call(space: Space) -> None:
    keys = [str(number) for number in range(4000)]
    space.client.zadd(space.key("BACKUP"), dict.fromkeys(keys, FUTURE))
    space.client.hset(space.key("CONTEXT"), mapping=dict.fromkeys(keys, "body"))
    assert space.ack((FUTURE, *keys)) == [4000]
    assert space.dump() == {}


def test_keys_of_any_bytes_can_be_acked(space: Space) -> None:
    keys = [b"\0", b"\0%d:0001" % NOW, b"\xff", b" ", b"a:b\r\n"]
    for key in keys:
        space.lease(key, b"body")
    assert space.ack((FUTURE, *keys)) == [len(keys)]
    assert space.dump() == {}
