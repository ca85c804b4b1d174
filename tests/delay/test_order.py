"""Messages for one time become ready in the order of the pushes, within a partition."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from ackq import scripts
from ackq.delay import DelayEntry
from ackq.delay.messages import partition_of
from ackq.scripts import Script
from tests.delay.conftest import MakeDelay
from tests.waiting import wait_until

#: Seconds since the epoch; a long time ago, and in a long time.
PAST, FUTURE = 1_000_000_000.0, 4_000_000_000.0


def entries(count: int, head: str, **times: Any) -> list[DelayEntry]:
    """Return messages with keys that Redis would sort the other way round."""
    return [DelayEntry(f"{head}{count - n:04}", b"x", **times) for n in range(count)]


def keys(found: list[Any]) -> list[str]:
    return [each.id for each in found]


def push(queue: Any, count: int, head: str, **times: Any) -> list[str]:
    pushed = entries(count, head, **times)
    queue.push_many(pushed)
    return [each.key for each in pushed]


@pytest.mark.parametrize("at", [PAST, FUTURE])
def test_messages_for_one_time_keep_the_order_of_their_pushes(delay: Any, at: float) -> None:
    pushed: list[str] = []
    for count, head in ((1, "z"), (1, "y"), (700, "x"), (1, "w"), (20, "v")):
        pushed += push(delay, count, head, at=at)
    found = delay.peek(1000, "ready" if at == PAST else "delayed")
    assert keys(found) == pushed
    assert at <= found[0].at <= found[-1].at < at + 0.002


def test_messages_with_one_delay_keep_the_order_of_a_call(delay: Any) -> None:
    pushed = push(delay, 600, "x", delay=0.05)
    wait_until(lambda: delay.stats().ready == 600, "the messages to be ready")
    assert [message.key for message in delay.take(600)] == pushed


def test_each_partition_keeps_the_order(make_delay: MakeDelay) -> None:
    queue = make_delay(3)
    pushed = push(queue, 90, "y", at=FUTURE) + push(queue, 90, "x", at=FUTURE)
    found = keys(queue.peek(200, "delayed"))
    assert sorted(found) == sorted(pushed)
    for number in range(3):
        own = [key for key in pushed if partition_of(key.encode(), 3) == number]
        assert [key for key in found if key in own] == own


def test_a_message_for_a_past_time_waits_behind_the_rest(delay: Any) -> None:
    pushed = push(delay, 1000, "x", at=PAST)
    delay.delete(*delay.take(900))
    assert delay.cancel(pushed.pop(901))
    pushed += push(delay, 1, "a", at=PAST)
    assert keys(delay.peek(200)) == pushed[900:]


@pytest.mark.parametrize("left", [range(1, 100), [99], range(0, 300, 40)])
def test_a_message_waits_behind_those_that_are_left(delay: Any, left: Sequence[int]) -> None:
    pushed = push(delay, left[-1] + 1, "c", at=FUTURE)
    kept = [pushed[number] for number in left]
    for key in pushed:
        assert key in kept or delay.cancel(key)
    kept += push(delay, 1, "b", at=FUTURE)
    assert keys(delay.peek(200, "delayed")) == kept


def test_messages_for_other_times_are_not_held_up(delay: Any) -> None:
    push(delay, 100, "d", at=FUTURE + 1)
    push(delay, 1, "later", at=FUTURE + 1.001)
    pushed = push(delay, 1, "last", at=FUTURE + 1)
    (last,) = [each for each in delay.peek(400, "delayed") if each.id in pushed]
    assert last.at < FUTURE + 1.0005


MISTAKES = {
    "one time for a call": ("due = row[wanted] + 1", "due = row[wanted]"),
    "a later call begins at the same time": ("due = behind(KEYS[first], due, text)", "due = due"),
    "in front of the rest": ("last, text = time_of(head[2]), head[2]", ""),
    "behind any message that is near": ("2 * count + GAP - 1", "4096"),
    "in front of a row that lost its first": ("score_of(time + GAP - 1)", "text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_noticed(
    mistake: str, make_delay: MakeDelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = MISTAKES[mistake]
    load = scripts.load
    text = load("delay/push").text.decode()
    assert text.count(old) == 1
    raw = text.replace(old, new).encode()
    planted = Script("delay/push", raw, hashlib.sha1(raw).hexdigest().encode())
    monkeypatch.setattr(scripts, "load", lambda name: planted if "/push" in name else load(name))
    with pytest.raises(AssertionError):  # noqa: PT012 - each mistake shows in one of them
        test_each_partition_keeps_the_order(make_delay)
        test_a_message_for_a_past_time_waits_behind_the_rest(make_delay())
        test_a_message_waits_behind_those_that_are_left(make_delay(), range(1, 100))
        test_messages_for_other_times_are_not_held_up(make_delay())
