"""`assert_pushed` finds messages wherever they are, and a failure shows what is there instead."""

from collections.abc import Callable
from typing import Any

import pytest

from ackq import Queue
from ackq.testing import assert_pushed

Call = Callable[..., Any]


def test_messages_count_wherever_they_wait(queue: Queue, call: Call) -> None:
    queue.push({"id": "taken", "task": "send"})
    taken = queue.pop()
    queue.push({"id": "ready", "task": "send", "to": {"name": "Ada", "city": "Bonn"}})
    queue.push({"id": "later", "task": "send"}, delay=60)
    queue.push({"id": "other", "task": "resize"})
    found = call(assert_pushed, {"task": "send"}, count=3)
    assert {message.id for message in found} == {"taken", "ready", "later"}
    (found,) = call(assert_pushed, {"to": {"name": "Ada"}})
    assert found.id == "ready"
    call(assert_pushed, {"task": "send", "to": 5}, count=0)
    assert taken is not None
    assert queue.ack(taken) == 1


@pytest.mark.parametrize(
    ("pushed", "expected", "count", "shown"),
    [
        ([], {"task": "send"}, None, ["at least one message", "found 0", "The queue is empty."]),
        (
            [{"id": "a", "task": "send", "to": {"name": "Ada"}}, {"id": "b"}],
            {"task": "send", "to": {"name": "Bob"}},
            1,
            ["expected 1 message with", "holds 2 messages", "to.name is 'Ada', not 'Bob'"],
        ),
        ([{"id": "a", "n": 1}], {"n": True}, None, ["n is 1, not True"]),
        ([{"id": "a"}], {"n": None}, None, ["n is missing"]),
        ([b"no JSON \xff"], {"n": 1}, None, ["no JSON \\xff", "the body is not a JSON object"]),
        ([{"id": "a", "n": 1}] * 1, {"n": 1}, 2, ["expected 2 messages", "found 1", '"n":1']),
        ([{"n": n} for n in range(12)], {"n": 99}, None, ["holds 12 messages", "and 2 more"]),
    ],
)
def test_a_failure_says_what_is_there(
    queue: Queue, pushed: list[Any], expected: dict[str, Any], count: int | None, shown: list[str]
) -> None:
    queue.push_many(pushed)
    with pytest.raises(AssertionError) as failure:
        assert_pushed(queue, expected, count=count)
    assert [text for text in shown if text not in str(failure.value)] == []


def test_the_nearest_message_is_shown_first(queue: Queue) -> None:
    queue.push_many([{"id": "far"}, {"id": "near", "a": 1, "b": 3}])
    with pytest.raises(AssertionError) as failure:
        assert_pushed(queue, {"a": 1, "b": 2})
    text = str(failure.value)
    assert text.index('"near"') < text.index("b is 3, not 2") < text.index('"far"')
