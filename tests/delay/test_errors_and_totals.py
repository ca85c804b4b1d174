"""Why messages of a delay queue failed, and its totals, as users of the classes see them."""

from collections.abc import Callable
from typing import Any

import pytest

from ackq.delay import DelayEntry
from ackq.errors import ConfigurationError
from tests.delay.conftest import MakeDelay
from tests.waiting import wait_until


def _take_more(queue: Any, taken: list[Any]) -> int:
    """Take into ``taken``, and return how many it has. Partitions are served one by one."""
    taken += queue.take(100)
    return len(taken)


class Declined(ValueError):
    """A user's exception."""


def test_a_failed_message_tells_why(make_delay: MakeDelay) -> None:
    queue = make_delay(max_receives=2)
    queue.push("a", "body")
    [message] = queue.take()
    queue.nack(message, delay=0, error=Declined("no funds"))
    [peeked] = queue.peek()
    [first] = peeked.errors
    assert (first.attempt, first.type, first.text) == (1, f"{__name__}.Declined", "no funds")
    [again] = queue.take()
    assert not again.dead
    assert queue.nack(again, error=KeyError("card")) == 1
    assert again.dead
    [letter] = queue.dead_letters()
    assert (letter.reason, letter.errors[0]) == ("max receives", first)
    assert [error.type for error in letter.errors] == [first.type, "KeyError"]


def test_a_rejected_message_tells_why_and_is_redriven_without(make_delay: MakeDelay) -> None:
    queue = make_delay(3)  # partitions
    queue.push_many(DelayEntry(key, "body") for key in ("a", "b"))
    assert queue.join() == (0, 1, 2)
    taken: list[Any] = []
    wait_until(lambda: _take_more(queue, taken) == 2, "both to be taken")
    by_key = {message.key: message for message in taken}
    queue.reject(by_key["a"], reason="bad card", error=Declined("expired"))
    queue.reject(by_key["b"], reason="unknown shop")
    letters = {letter.id: letter for letter in queue.dead_letters()}
    assert [error.text for error in letters["a"].errors] == ["expired"]
    assert letters["a"].cause == f"{__name__}.Declined"
    assert letters["b"].errors == ()
    assert queue.redrive() == 2
    assert [each.errors for each in queue.peek()] == [(), ()]


def test_many_messages_fail_with_one_error_in_several_calls(make_delay: MakeDelay) -> None:
    queue = make_delay()
    queue.push_many(DelayEntry(f"m{n}", "body") for n in range(250))
    assert queue.nack(*queue.take(250), delay=0, error=Declined("down")) == 250
    assert [each.errors[0].text for each in queue.peek(250)] == ["down"] * 250


@pytest.mark.parametrize(("setting", "text"), [("none", None), ("type", "")])
def test_less_is_stored_if_the_queue_says_so(
    make_delay: MakeDelay, setting: str, text: str | None
) -> None:
    queue = make_delay(record_errors=setting)
    queue.push("a", "body")
    queue.nack(*queue.take(), delay=0, error=Declined("secret"))
    [peeked] = queue.peek()
    assert [error.text for error in peeked.errors] == ([] if text is None else [text])
    with pytest.raises(ConfigurationError, match="record_errors"):
        make_delay(record_errors="all")


def test_consume_records_what_its_handler_raises(
    make_delay: MakeDelay, handle: Callable[[Callable[[Any], object]], Any]
) -> None:
    queue = make_delay(max_receives=1)
    queue.push("a", "body")

    seen: list[str] = []

    def fail(message: Any) -> None:
        seen.append(message.key)
        raise Declined(message.key)

    assert queue.consume(handle(fail), stop=lambda: bool(seen)) == 0
    [letter] = queue.dead_letters()
    [error] = letter.errors
    assert error.text == "a"
    assert error.place.startswith(f"{__file__}:")
    assert error.place.endswith(" in fail")


@pytest.mark.parametrize("partitions", [None, 4])
def test_the_totals_of_all_partitions(make_delay: MakeDelay, partitions: int | None) -> None:
    queue: Any = make_delay(partitions)
    began = queue.counters()
    assert (began.pushed, began.taken, began.dead) == (0, 0, {})
    queue.push_many(DelayEntry(f"m{n}", "body") for n in range(20))
    taken: list[Any] = []
    wait_until(lambda: _take_more(queue, taken) == 20, "all to be taken")
    queue.delete(*taken[:8])
    queue.nack(*taken[8:12], delay=60)
    queue.release(*taken[12:15])
    queue.reject(*taken[15:])
    parts = range(partitions) if partitions else [None]
    dead = [(part, letter.entry) for part in parts for letter in queue.dead_letters(partition=part)]
    for part, entry in dead[3:]:
        assert queue.redrive(entries=[entry], partition=part) == 1
    queue.purge(dead=True)
    totals = queue.counters()
    assert (totals.since, totals.pushed, totals.taken) == (began.since, 20, 20)
    assert (totals.acked, totals.nacked, totals.released) == (8, 4, 3)
    assert (totals.dead, totals.redriven) == ({"rejected": 5}, 2)
    assert (totals.dropped, totals.dead_dropped) == (4 + 3 + 2, 3)
