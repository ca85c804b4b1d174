"""What operations of the delay queue do between two requests, with no server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from ackq.config import Confirm, QueueConfig
from ackq.delay import push, settle
from ackq.delay.messages import DelayedMessage, DelayEntry, DelaySpec
from ackq.errors import ConfigurationError, DuplicateMessage, LeaseLost, NotConfirmed

SPEC = DelaySpec.plain("d", QueueConfig(), 1.0)


def _held(key: str = "a") -> DelayedMessage:
    return DelayedMessage("d", key, b"{}", receipt=1)


def _result(steps: Any, reply: object) -> Any:
    with pytest.raises(StopIteration) as ended:
        steps.send(reply)
    return ended.value.value


def test_a_rejected_message_is_dead_and_a_refused_one_is_not() -> None:
    for verb, dead in ((settle.reject, True), (settle.delete, False)):
        kept, lost = _held("a"), _held("b")
        reason: tuple[Any, ...] = ("why",) if dead else ()
        steps: Any = verb(SPEC, [kept, lost], *reason)
        next(steps)
        with pytest.raises(LeaseLost) as raised:
            steps.send([1, 2])
        assert list(raised.value.messages) == [lost]
        assert (kept.dead, lost.dead, lost.lease_lost) == (dead, False, True)
        assert kept.receive_count == 1


def test_an_extension_is_no_settle_of_its_own() -> None:
    message = _held()
    steps = settle.extend(SPEC, [message], None)
    next(steps)
    assert message._settles_sent == 0
    assert _result(steps, [9_000_000, 1]) == 1
    assert message.lease_expires_at == 9.0


@pytest.mark.parametrize(("count", "end"), [(5, "'k4' already"), (6, "'k4', ... already")])
def test_five_keys_that_exist_already_are_named(count: int, end: str) -> None:
    steps = push.push_many(SPEC, [DelayEntry(f"k{number}", b"") for number in range(7)])
    next(steps)
    with pytest.raises(DuplicateMessage, match=end) as raised:
        steps.send(list(range(1, count + 1)))
    assert raised.value.keys == tuple(f"k{number}" for number in range(count))
    assert raised.value.stored == 7 - count


def test_a_push_that_too_few_replicas_have_is_not_confirmed() -> None:
    steps = push.push_many(SPEC, [DelayEntry("k", b"")], 2)
    assert next(steps).confirm == Confirm(2)  # type: ignore[union-attr]
    with pytest.raises(NotConfirmed, match="1 of 2"):
        steps.send(([], 1))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no time zone"):
        next(push.push_many(SPEC, [DelayEntry("k", b"", at=datetime(2026, 1, 1))]))
