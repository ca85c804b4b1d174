"""A holder whose lease ended learns what became of its message, and may repeat its own settle."""

from __future__ import annotations

import pytest

import ackq
from tests.delay.conftest import MakeDelay
from tests.waiting import wait_until


def test_a_delayed_message_that_died_is_refused_to_its_late_holder(make_delay: MakeDelay) -> None:
    delay = make_delay(max_receives=1)
    delay.push("k", b"body")
    (late,) = delay.take(visibility_timeout=1e-6)
    wait_until(lambda: not delay.take() and delay.stats().dead == 1, "the burial")
    for settle in (delay.extend, delay.delete, delay.nack, delay.release, delay.reject):
        late.lease_lost = False
        with pytest.raises(ackq.LeaseLost):
            settle(late)
        assert late.lease_lost


@pytest.mark.parametrize("first", ["delete", "reject", "nack", "release"])
def test_a_delayed_message_may_be_settled_again_by_its_holder_alone(
    make_delay: MakeDelay, first: str
) -> None:
    delay = make_delay()
    delay.push("k", b"body")
    (mine,) = delay.take()
    assert getattr(delay, first)(mine) == 1
    assert getattr(delay, first)(mine) == 0
    assert not mine.lease_lost
    if first in ("nack", "release"):
        with pytest.raises(ackq.LeaseLost, match=f"gave the message back with {first}"):
            delay.delete(mine)
    else:
        assert (delay.extend(mine), delay.nack(mine)) == (0, 0)
