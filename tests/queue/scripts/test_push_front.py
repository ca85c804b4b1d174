"""push_front: messages before all ready ones."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.queue.scripts.space import MIB, Space, body
from tests.waiting import wait_until

A, B, C, D = map(body, "abcd")


at_both_ends = pytest.mark.parametrize("end", ["right", "left"])


def popped_from(space: Space, end: str) -> Space:
    return space if end == "right" else space.popped_from_the_left()


def push(space: Space, *bodies: bytes) -> Any:
    return space.call("push_front", space.end, 0, *bodies)


def hand_over(space: Space, left: int, last: bytes) -> Any:
    return space.call("push_front", space.end, left, last)


def pops(space: Space) -> list[bytes]:
    return [space.pop().messages[0][1] for _ in range(4)]


@at_both_ends
def test_messages_go_before_all_ready_ones_and_keep_their_order(space: Space, end: str) -> None:
    space = popped_from(space, end)
    space.push(D)
    assert push(space, A, B) == 0
    assert push(space, C) == 0
    assert space.front == [A, B, C, D]
    assert pops(space) == [A, B, C, D]


@at_both_ends
def test_an_empty_list_is_its_own_front(space: Space, end: str) -> None:
    space = popped_from(space, end)
    space.hand_over(A)
    assert push(space, B, C) == 2
    space.push(D)
    assert space.ready == [B, C, D]
    assert pops(space) == [A, B, C, D]


@at_both_ends
def test_what_no_consumer_took_is_handed_over(space: Space, end: str) -> None:
    space = popped_from(space, end)
    space.hand_over(A)
    push(space, B, C)
    space.push(D)
    assert hand_over(space, 2, C) == 0
    assert space.ready == [D]
    push(space, body("e"))
    assert space.front == [A, B, C, body("e"), D]


@at_both_ends
def test_what_a_consumer_took_is_not_handed_over(space: Space, end: str) -> None:
    space = popped_from(space, end)
    push(space, A, B)
    space.push(D)
    space.pop(1)
    assert hand_over(space, 2, B) == 0
    assert space.in_order("HANDOFF") == [B]
    assert space.ready == [D]
    before = space.dump()
    assert hand_over(space, 2, B) == 0
    assert space.dump() == before


@at_both_ends
def test_a_later_message_is_not_taken_for_the_last(space: Space, end: str) -> None:
    space = popped_from(space, end)
    push(space, A)
    space.pop()
    space.push(B, A)
    assert hand_over(space, 1, A) == 0
    assert space.ready == [B, A]


def test_a_consumer_that_waits_wakes_up(space: Space) -> None:
    handoff = space.key("HANDOFF").decode()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(space.client.blmove, space.name, handoff, 30, "RIGHT", "LEFT")
        wait_until(
            lambda: any(each["cmd"] == "blmove" for each in space.client.client_list()),
            "the consumer to wait",
        )
        push(space, A, B)
        assert waiting.result() == A
    assert space.front == [A, B]


def test_one_call_hands_over_a_mebibyte(space: Space) -> None:
    bodies = [body(f"m{number}", MIB // 4) for number in range(6)]
    push(space, *bodies)
    assert hand_over(space, 6, bodies[-1]) == 2
    assert len(space.ready) == 2
    assert hand_over(space, 2, bodies[-1]) == 0
    assert space.front == bodies


@pytest.mark.parametrize("wrong", ["", "HANDOFF"])
@pytest.mark.parametrize("left", [0, 1])
def test_a_key_of_another_type_is_an_error(space: Space, wrong: str, left: int) -> None:
    space.push(A)
    space.client.delete(space.key(wrong))
    space.client.set(space.key(wrong), "of another type")
    before = space.dump()
    with pytest.raises(Exception, match="WRONGTYPE"):
        hand_over(space, left, A)
    assert space.dump() == before
