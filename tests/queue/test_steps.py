"""What operations of the list queue do between two requests, with no server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

from ackq.config import Confirm, QueueConfig
from ackq.core.claim_groups import MAX_INTEGER, MAX_LEASE
from ackq.core.effects import Clock, Operation, Request
from ackq.core.limits import LATEST
from ackq.errors import BatchSuperseded, ConfigurationError, LeaseLost, NotConfirmed
from ackq.queue import claims, inspection, push, row_dead_letters, settle, take
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from tests.outside import FIXED
from tests.steps import play

SPEC = QueueSpec("q", QueueKeys.of("q"), QueueConfig(), outside=FIXED)


def _held() -> Message:
    return Message("q", b"a", b"{}", 1, 1)


def _is_pop(effect: object) -> bool:
    return isinstance(effect, Request) and effect.script is not None and effect.script.name == "pop"


def _first(steps: Operation[Any]) -> Any:
    """Return the first effect that neither reads the clock nor checks the queue's end."""
    found = next(steps)
    while isinstance(found, Clock) or (isinstance(found, Request) and found.args[0] == b"TYPE"):
        found = steps.send(-1.0 if isinstance(found, Clock) else b"none")
    return found


def _result(steps: Operation[Any], reply: object) -> Any:
    with pytest.raises(StopIteration) as ended:
        steps.send(reply)
    return ended.value.value


def test_a_take_that_may_find_more_asks_again_and_one_that_does_not_wait_ends() -> None:
    steps = take.pop_many(SPEC, 2, None, None, ())
    assert _is_pop(_first(steps))
    assert _is_pop(steps.send([b"again", []]))
    assert _result(steps, [b"empty", []]) == []


@pytest.mark.parametrize(
    "begin",
    [
        lambda confirm: push.push(SPEC, {"id": "a"}, None, None, None, 60.0, confirm),
        lambda confirm: push.push(SPEC, {"id": "a"}, 5.0, None, None, 60.0, confirm),
        lambda confirm: settle.ack(SPEC, [_held()], confirm),
    ],
    ids=["push", "schedule", "ack"],
)
def test_a_write_that_too_few_replicas_have_is_not_confirmed(
    begin: Callable[[Confirm], Operation[Any]],
) -> None:
    steps = begin(Confirm(2))
    assert _first(steps).confirm == Confirm(2)
    with pytest.raises(NotConfirmed, match="1 of 2 replicas"):
        steps.send(([1], 1))
    steps = begin(Confirm(2))
    _first(steps)
    assert _result(steps, ([1], 2))


def test_an_extension_is_no_settle_of_its_own() -> None:
    message = _held()
    steps = settle.extend(SPEC, [message], 5.0)
    _first(steps)
    assert message.settles_sent == 0
    with pytest.raises(LeaseLost):
        steps.send([9_000_000, 0, -1])
    assert (message.lease_lost, message.lease_expires_at) == (True, 0.000001)
    message = _held()
    steps = settle.extend(SPEC, [message], None)
    assert _first(steps).args[4] == 30_000_000
    assert _result(steps, [9_000_000, 1]) == 1
    assert (message.lease_lost, message.lease_expires_at) == (False, 9.0)


@pytest.mark.parametrize("wrong", [-0.1, 2.0**53, float("nan"), "1", True])
def test_a_delay_out_of_range_is_refused_before_anything_is_sent(wrong: Any) -> None:
    times: tuple[Any, Any] = (wrong, None), (None, "1" if wrong in (-0.1, "1") else wrong)
    for delay, at in times:
        with pytest.raises(ConfigurationError):
            next(push.push(SPEC, {"id": "a"}, delay, at, None, 60.0, None))
    with pytest.raises(ConfigurationError, match="not both"):
        next(push.push(SPEC, {"id": "a"}, 1.0, 1.0, None, 60.0, None))


def test_the_longest_delays() -> None:
    longest = LATEST / 1_000_000
    request = _first(push.push(SPEC, {"id": "a"}, longest, None, None, 60.0, None))
    assert request.args[4] in (LATEST, LATEST + 1)  # a float has no more digits
    assert _first(settle.nack(SPEC, [_held()], longest)).args[13] == request.args[4]
    for too_long in (
        push.push(SPEC, {}, longest + 1, None, None, 60.0, None),
        push.push(SPEC, {}, None, longest + 1, None, 60.0, None),
        settle.nack(SPEC, [_held()], longest + 1),
    ):
        with pytest.raises(ConfigurationError):
            next(too_long)


def test_the_largest_numbers_of_claims() -> None:
    most = MAX_INTEGER
    group = claims.Group(SPEC, "g", MAX_LEASE, 1)
    allowed: list[Operation[Any]] = [
        claims.claim(group, most - 1, 1, None, None),
        claims.claim(group, 0, most, None, None),
        claims.claim(group, 0, 1, most, None),
        claims.claim(group, 0, 1, None, most),
        claims.claim(group, 0, 1, 1, 1),
        claims.ack(group, most, MAX_LEASE),
        claims.ack(group, 0, 0),
        claims.forget(group, most),
        claims.forget(group, 0),
        claims.look(group, most, most),
        claims.look(group, 0, 0),
        claims.read(group, most, most, most),
        claims.read(group, 1, 0, 1),
    ]
    for steps in allowed:
        assert isinstance(next(steps), Request)
    refused: list[Operation[Any]] = [
        claims.claim(group, most, 1, None, None),
        claims.claim(group, -1, 1, None, None),
        claims.claim(group, 0, most + 1, None, None),
        claims.claim(group, 0, 0, None, None),
        claims.claim(group, 0, 1, most + 1, None),
        claims.claim(group, 0, 1, 0, None),
        claims.claim(group, 0, 1, None, most + 1),
        claims.claim(group, 4, 1, None, 4),
        claims.ack(group, most + 1, 0),
        claims.ack(group, -1, 0),
        claims.ack(group, 1, MAX_LEASE + 1),
        claims.ack(group, 1, -1),
        claims.forget(group, most + 1),
        claims.forget(group, -1),
        claims.look(group, most + 1, 1),
        claims.look(group, -1, 1),
        claims.look(group, 1, most + 1),
        claims.look(group, 1, -1),
        claims.read(group, most + 1, 0, 1),
        claims.read(group, 0, 0, 1),
        claims.read(group, 1, most + 1, 1),
        claims.read(group, 1, -1, 1),
        claims.read(group, 1, 0, most + 1),
        claims.read(group, 1, 0, -1),
    ]
    for steps in refused:
        with pytest.raises(ConfigurationError):
            next(steps)
    claims.Group(SPEC, "g", 1.0)
    for timeout in (0.999, MAX_LEASE + 1):
        with pytest.raises(ConfigurationError):
            claims.Group(SPEC, "g", timeout)


def test_the_times_that_a_push_sends() -> None:
    for delay, at, sent in [
        (0, None, ("delay", 0)),
        (1.5, None, ("delay", 1_500_000)),
        (None, 2.5, ("at", 2_500_000)),
        (None, -1.0, ("at", 1)),
    ]:
        request = _first(push.push(SPEC, {"id": "a"}, delay, at, None, 60.0, None))
        assert request.args[3:5] == sent


def test_a_request_of_a_claim_is_sent_again_after_a_lost_reply() -> None:
    assert _first(claims.begin(claims.Group(SPEC, "g", 60_000_000))).resend


def test_a_claim_goes_on_after_all_batches_that_were_taken_or_acked() -> None:
    for last, acked in ((b"7", b"4"), (None, b"7")):
        group = claims.Group(SPEC, "g", 60_000_000)
        begun = claims.begin(group)
        _first(begun)
        assert _result(begun, [1, 0, 0]) == 1
        assert (group.epoch, group.claiming) == (1, 0)
        steps = claims.claim(group, 0, 10, None, None)
        assert _first(steps).args[:2] == (b"HMGET", group.key)
        assert _first(claims.claim(group, 0, 10, None, None)).args[2:] == (b"last", b"acked")
        steps.send([last, acked])
        assert group.claiming == 8


def test_a_reject_marks_the_messages_that_are_dead_now() -> None:
    message = _held()
    steps = settle.reject(SPEC, [message], "why")
    _first(steps)
    assert _result(steps, [1]) == 1
    assert message.dead


@pytest.mark.parametrize(("batch", "named"), [(b"8", "was 8:"), (b"", "was none:")])
def test_rows_that_came_too_late_name_the_batch_that_was_begun(batch: bytes, named: str) -> None:
    writer = row_dead_letters.RowWriter(SPEC, "w", 1)
    steps = row_dead_letters.begin_batch(writer, "7")
    _first(steps)
    with pytest.raises(BatchSuperseded, match=named):
        steps.send([b"superseded", batch])


def test_only_a_user_who_may_not_ask_is_no_reason_to_look_for_a_left_end() -> None:
    assert play(inspection._find_stray(SPEC, False), NoPermissionError())[1] is None
    with pytest.raises(redis.ConnectionError):
        play(inspection._find_stray(SPEC, False), redis.ConnectionError("away"))
