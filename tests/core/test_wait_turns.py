"""Many waiters look again in turns; few look at once. The protocol alone, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from ackq.config import QueueConfig
from ackq.core.effects import Request, Sleep
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from ackq.queue.take import ENOUGH_WAITING, SERVER_TICK, _block, _wait
from tests.outside import FIXED

NO_EVENT = (b"empty", (), -1)
SOON = (b"empty", (), 10_000)


@pytest.fixture
def spec() -> QueueSpec:
    return QueueSpec("jobs", QueueKeys.of("jobs"), QueueConfig(), outside=FIXED)


def crowd(spec: QueueSpec, size: int) -> list[Any]:
    waits = [_block(spec, 1.0) for _ in range(size)]
    for wait in waits:
        assert isinstance(next(wait), Request)
    return waits


def after_blocking(spec: QueueSpec, reply: Any, timeout: float, moved: bytes | None) -> Any:
    wait = _wait(spec, reply, timeout)
    assert isinstance(next(wait), Request)
    try:
        return wait.send(moved)
    except StopIteration:
        return None


def test_one_of_many_waiters_takes_its_time_to_look_again(spec: QueueSpec) -> None:
    others = crowd(spec, ENOUGH_WAITING)
    step = after_blocking(spec, NO_EVENT, 60.0, None)
    assert isinstance(step, Sleep)
    assert 0 <= step.seconds <= SERVER_TICK
    assert len(spec.waiting) == len(others)


def test_one_of_few_waiters_looks_again_at_once(spec: QueueSpec) -> None:
    others = crowd(spec, ENOUGH_WAITING - 1)
    assert after_blocking(spec, NO_EVENT, 60.0, None) is None
    assert len(spec.waiting) == len(others)


@pytest.mark.parametrize(
    ("reply", "timeout", "moved"),
    [(NO_EVENT, 60.0, b"a message"), (SOON, 60.0, None), (NO_EVENT, 0.5, None)],
    ids=["a message came", "a lease ends", "the timeout is over"],
)
def test_who_has_something_to_do_does_not_take_its_time(
    spec: QueueSpec, reply: Any, timeout: float, moved: bytes | None
) -> None:
    others = crowd(spec, ENOUGH_WAITING)
    assert after_blocking(spec, reply, timeout, moved) is None
    assert len(spec.waiting) == len(others)


def test_a_wait_that_is_given_up_counts_no_more(spec: QueueSpec) -> None:
    wait = _wait(spec, NO_EVENT, 60.0)
    next(wait)
    assert len(spec.waiting) == 1
    wait.close()
    assert len(spec.waiting) == 0
