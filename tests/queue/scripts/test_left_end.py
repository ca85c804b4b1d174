"""A queue that is popped from the left: the same as from the right, from the other end."""

import pytest
from redis.exceptions import ResponseError

from tests.queue.scripts.space import CLAIM, FUTURE, MIB, PAST, SECOND, Space, body

IDS = ("a", "b", "c", "d", "e")
BODIES = [body(id) for id in IDS]


@pytest.mark.parametrize("wanted", [1, 2, 20])
def test_pop_takes_from_the_left(left: Space, wanted: int) -> None:
    left.client.rpush(left.name, *BODIES)
    assert left.pop(wanted).bodies == BODIES[:wanted]
    assert left.client.lrange(left.name, 0, -1) == BODIES[wanted:]


def test_a_long_list_is_taken_in_order_from_the_left(left: Space) -> None:
    bodies = [body(str(number)) for number in range(100)]
    left.client.rpush(left.name, *bodies)
    assert left.pop(70).bodies == bodies[:70]
    assert left.pop(70).bodies == bodies[70:]


def test_a_handed_over_message_comes_first_from_the_left(left: Space) -> None:
    left.client.rpush(left.name, *BODIES)
    for _ in range(2):  # as consumers do that wait
        left.client.lmove(left.name, left.key("HANDOFF"), "LEFT", "LEFT")
    assert left.call("peek", "ready", 0, 10, 0, "left")[2::5] == BODIES
    assert left.pop(20).bodies == BODIES


def test_requeue_back_goes_to_the_right_end_from_the_left(left: Space) -> None:
    left.client.rpush(left.name, body("listed"))
    left.lease("expired", body("expired"), deadline=PAST)
    left.pop(1, requeue="back")
    assert left.client.lrange(left.name, 0, -1) == [body("expired")]


def test_a_delay_of_minus_two_pushes_to_the_right_end(space: Space) -> None:
    space.client.rpush(space.name, body("listed"))
    space.lease("mine", body("mine"))
    assert space.nack((FUTURE, -2, "mine")) == [1]
    assert space.client.lrange(space.name, 0, -1) == [body("listed"), body("mine")]


def test_push_once_pushes_to_the_right_end_for_the_left(left: Space) -> None:
    left.client.rpush(left.name, body("listed"))
    message = ("new", body("new"), "new")
    assert left.call("push_once", 1000, "now", 0, "left", *message) == [0, 1, b"new"]
    assert left.client.lrange(left.name, 0, -1) == [body("listed"), body("new")]


def test_drain_puts_everything_back_at_the_left_end(left: Space) -> None:
    left.client.rpush(left.name, body("listed"))
    left.hand_over(body("handed one"), body("handed two"))
    left.lease("leased", body("leased"))
    left.delay("delayed", body("delayed"))
    assert left.call("drain", 10, "left") == 4
    ids = ("leased", "delayed", "handed one", "handed two", "listed")
    assert left.client.lrange(left.name, 0, -1) == [body(id) for id in ids]


def test_a_claim_takes_from_the_left_in_order(left: Space) -> None:
    left.know(epoch=1)
    # Two, since one alone has no order.
    left.lease("expired", body("expired"), deadline=PAST)
    left.lease("expired later", body("expired later"), deadline=PAST + 1)
    left.hand_over(body("handed"))
    left.client.rpush(left.name, *BODIES)
    assert left.call("claims/claim", 1, 1, 6, 0, 60 * SECOND, "left")[1] == 6
    assert left.client.lrange(left.key(CLAIM), 0, -1) == [
        body("expired"),
        body("expired later"),
        body("handed"),
        *BODIES[:3],
    ]
    assert left.ready == BODIES[3:]


def test_a_whole_list_becomes_the_claim_from_the_left(left: Space) -> None:
    left.know(epoch=1)
    left.client.rpush(left.name, *BODIES)
    assert left.call("claims/claim", 1, 1, 5, 0, 60 * SECOND, "left")[1] == 5
    assert left.client.lrange(left.key(CLAIM), 0, -1) == BODIES


@pytest.mark.parametrize("handed", [0, 1])
def test_a_claim_returns_to_the_left_end_in_its_order(left: Space, handed: int) -> None:
    left.client.rpush(left.name, body("listed"))
    if handed:
        left.hand_over(body("handed"))
    bodies = [body(str(number)) for number in range(150)]
    left.hold(*bodies, until=0)
    assert left.call("held/give_back", "front", "left") == [150, 0]
    rest = [body("handed")] * handed + [body("listed")]
    assert left.call("peek", "ready", 0, 200, 0, "left")[2::5] == [*bodies, *rest]
    assert left.pop(200).bodies == [*bodies, *rest]


def test_committed_rows_go_to_the_right_end_for_the_left(left: Space) -> None:
    left.client.rpush(left.name, body("listed"))
    left.client.lpush(left.key(CLAIM), *BODIES)  # as a writer stages them
    left.client.zadd(left.key("HELD"), {left.key(CLAIM): 0})
    assert left.call("held/give_back", "back", "left") == [5, 0]
    assert left.client.lrange(left.name, 0, -1) == [body("listed"), *BODIES]


def test_peek_shows_what_a_pop_from_the_left_would_take(left: Space) -> None:
    left.client.rpush(left.name, *BODIES)
    left.hold(body("claimed one"), body("claimed two"), until=0)
    shown = left.call("peek", "ready", 1, 10, 1, "left")[2::5]
    assert shown == [body("claimed two"), *BODIES]
    left.client.zadd(left.key("HELD"), {left.key(CLAIM): FUTURE})
    flying = left.call("peek", "in_flight", 0, 10, 1, "left")[2::5]
    assert flying == [body("claimed one"), body("claimed two")]
    left.client.zadd(left.key("HELD"), {left.key(CLAIM): 0})
    # A committed list is read from its right end, whichever end is popped.
    assert left.call("peek", "ready", 5, 10, 0, "left")[2::5] == [
        body("claimed two"),
        body("claimed one"),
    ]


@pytest.mark.parametrize(
    "call",
    [
        ("pop", 1, 30 * SECOND, 0, 0, MIB, "front", "left", -1),
        ("claims/claim", 1, 1, 5, 0, 60 * SECOND, "left"),
        ("pick", "cancel", "ready", 5, 0, "left", "a"),
    ],
    ids=lambda call: str(call[0]),
)
def test_nothing_is_taken_from_the_left_without_a_record(
    left: Space, call: tuple[str, int]
) -> None:
    left.know(epoch=1)
    left.client.rpush(left.name, *BODIES)
    left.client.delete(left.key("RECORD"))
    before = left.dump()
    with pytest.raises(ResponseError, match="ACKQ_RECORD"):
        left.call(*call)
    assert left.dump() == before
