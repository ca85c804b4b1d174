"""A consumer whose lease ended gets the state of its message, and may repeat its own settle."""

from typing import Any

import pytest
import redis

import ackq
from ackq import scripts
from ackq.delay import DelayQueue
from tests.delay.conftest import MakeDelay
from tests.waiting import wait_until


def test_a_delayed_message_that_died_is_refused_to_its_late_holder(make_delay: MakeDelay) -> None:
    delay = make_delay(max_receives=1)
    delay.push("k", b"body")
    (late,) = delay.take(visibility_timeout=1e-6)
    wait_until(lambda: not delay.take() and delay.stats().dead == 1, "the dead letter")
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
        with pytest.raises(ackq.LeaseLost, match=f"has returned the message with {first}"):
            delay.delete(mine)
    else:
        assert (delay.extend(mine), delay.nack(mine)) == (0, 0)


def test_the_receipt_of_a_shortened_lease_is_not_given_to_another(
    plain_client: redis.Redis, token: str
) -> None:
    with DelayQueue(plain_client, token) as delay:
        delay.push("k", b"body")
        spec = delay._spec
        keys = [*spec.fence.all()[:2], *spec.partitions[0].all()]

        def at(now: int, script: str, *args: Any) -> Any:
            clock = f"{{'{now // 10**6}', '{now % 10**6}'}}"
            text = scripts.load(script).text.decode().replace("redis.call('TIME')", clock)
            return plain_client.eval(text, len(keys), *keys, "", *args)

        now = 4_000_000_000_000_000
        assert at(now, "delay/take", 0, 1, 60, 0, 0)[1] == now + 60
        assert at(now, "delay/extend", 10, 0, 1, now + 60, 1, "k") == [now + 10, 1]
        assert at(now + 20, "delay/take", 0, 1, 39, 1, 0) == [b"again"]
        assert at(now + 20, "delay/take", 0, 1, 39, 2, 0)[1] == now + 61
        assert at(now + 20, "delay/delete", 1, now + 60, 1, "k") == [0, 1]
