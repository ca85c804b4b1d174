"""Why messages failed: passed by consumers, kept by the queue, read by operators."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackq.core.failure import MAX_STORED, Failure, capture, parse
from ackq.errors import ConfigurationError
from tests.waiting import wait_until

MakeQueue = Callable[..., Any]


def raised(error: BaseException) -> BaseException:
    """Return the error as it is after it was raised in this file."""
    try:
        raise error
    except BaseException as caught:
        return caught


class Declined(ValueError):
    """A user's exception."""


def test_a_failed_message_tells_why(make_queue: MakeQueue) -> None:
    queue = make_queue(max_receives=2)
    queue.push({"id": "a"})
    before = queue.pop()
    queue.nack(before, delay=0, error=raised(Declined("no funds")))
    [peeked] = queue.peek()
    [first] = peeked.errors
    assert (first.attempt, first.text) == (1, "no funds")
    assert first.type == f"{__name__}.Declined"
    assert first.place.startswith(f"{__file__}:")
    assert first.place.endswith(" in raised")
    assert abs(first.at + 30 - before.receipt / 1_000_000) < 5
    assert first.traceback == ""
    again = queue.pop()
    assert not again.dead
    assert queue.nack(again, error=raised(KeyError("card"))) == 1
    assert again.dead
    [letter] = queue.dead_letters()
    assert letter.reason == "max receives"
    assert letter.errors[0] == first
    assert [error.type for error in letter.errors] == [first.type, "KeyError"]
    assert letter.cause == f"KeyError at {letter.errors[1].place}"


def test_a_rejected_message_tells_why(queue: Any) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    first, second = queue.pop_many(2)
    queue.reject(first, reason="bad card", error=raised(Declined("expired")))
    queue.reject(second, reason="unknown shop")
    assert first.dead
    assert second.dead
    one, other = queue.dead_letters()
    assert (one.reason, one.errors[0].text) == ("bad card", "expired")
    assert (other.errors, other.cause) == ((), "unknown shop")


def test_many_messages_share_one_error(make_queue: MakeQueue) -> None:
    queue = make_queue(max_receives=1)
    queue.push_many([{"id": str(number)} for number in range(250)])
    messages = queue.pop_many(250)
    while len(messages) < 250:
        messages += queue.pop_many(250)
    assert queue.nack(*messages, error=Declined("all")) == 250
    assert all(message.dead for message in messages)
    letters = queue.dead_letters(300)
    assert {letter.errors[0].cause for letter in letters} == {f"{__name__}.Declined"}


def test_an_error_that_ends_a_lease_block_is_kept(queue: Any) -> None:
    queue.push({"id": "a"})
    with pytest.raises(Declined), queue.lease():
        raise Declined("in the block")
    [peeked] = queue.peek(state="delayed")
    assert peeked.errors[0].text == "in the block"


@pytest.mark.parametrize("detail", ["none", "type", "text", "traceback"])
def test_a_queue_keeps_no_more_than_its_setting_allows(make_queue: MakeQueue, detail: str) -> None:
    queue = make_queue(record_errors=detail)
    queue.push({"id": "a"})
    queue.nack(queue.pop(), delay=0, error=raised(Declined("secret")))
    [peeked] = queue.peek()
    if detail == "none":
        assert peeked.errors == ()
        return
    [failure] = peeked.errors
    assert failure.place
    assert failure.text == ("" if detail == "type" else "secret")
    assert ("raise error" in failure.traceback) == (detail == "traceback")


def test_a_message_whose_last_lease_ended_is_told_from_one_that_failed(
    make_queue: MakeQueue,
) -> None:
    queue = make_queue(max_receives=2)
    queue.push({"id": "a"})
    queue.nack(queue.pop(), delay=0, error=raised(Declined("first")))
    queue.pop(visibility_timeout=0.001)
    wait_until(lambda: queue.stats().expired, "the end of the lease")
    queue.pop()
    [letter] = queue.dead_letters()
    assert [error.lease_ended for error in letter.errors] == [False, True]
    assert letter.cause == "lease ended"


def test_a_redriven_message_has_no_errors(queue: Any) -> None:
    queue.push({"id": "a"})
    queue.reject(queue.pop(), error=raised(Declined("x")))
    queue.redrive()
    queue.nack(queue.pop(), delay=0)
    [peeked] = queue.peek()
    assert peeked.errors == ()


def test_a_reason_is_no_error(queue: Any, make_queue: MakeQueue) -> None:
    queue.push({"id": "a"})
    message = queue.pop()
    with pytest.raises(ConfigurationError, match="error is an exception"):
        queue.nack(message, error="no")
    with pytest.raises(ConfigurationError, match="record_errors"):
        make_queue(record_errors="everything")
    assert queue.ack(message) == 1


# What is stored of an error.


def stored(error: BaseException, detail: Any = "text", **more: str) -> Failure:
    [failure] = parse(b"3:7000000:" + capture(error, detail, **more))
    return failure


def test_the_place_is_the_users_innermost_line(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "shop.py").write_text("import json\ndef handle():\n    json.loads('{')\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        importlib.import_module("shop").handle()
    except ValueError as error:
        failure = stored(error)
    assert failure.type == "json.decoder.JSONDecodeError"
    assert failure.place == f"{tmp_path / 'shop.py'}:3 in handle"


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert stored(Declined("x")) == Failure(3, 7.0, f"{__name__}.Declined", "x")


def test_a_text_is_cropped_and_shows_no_credentials() -> None:
    failure = stored(Declined("redis://user:hunter2@host " + "é" * 9999))
    assert len(failure.text) == 500
    assert "hunter2" not in failure.text


def test_a_text_that_cannot_be_read_or_stored_does_no_harm() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert stored(Broken()).text == "(its text cannot be read)"
    assert stored(Declined("\ud800\n\x1b")).text == "?\n\x1b"


@pytest.mark.parametrize("text", ["\x01" * 9000, "\U0001f600" * 9000, "x" * 9000])
def test_what_is_stored_is_one_line_of_bounded_length(text: str) -> None:
    def deep(left: int) -> None:
        if not left:
            raise Declined(text)
        deep(left - 1)

    try:
        deep(50)
    except Declined as error:
        line = capture(error, "traceback")
    assert len(line) <= MAX_STORED
    assert b"\n" not in line
    assert parse(b"1:1:" + line)[0].text == text[:500]


def test_lines_with_mistakes_are_left_out() -> None:
    lines = b"\n".join([b"", b"x", b"1:2", b"1:x:{}", b"2:7000000:[]", b"3:8000000:", b"4:9:{"])
    assert parse(lines) == (Failure(1, 2e-06), Failure(3, 8.0))
