"""Claims on delay queues through their client, on every kind of server."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from ackq.core.claim_groups import Claim
from ackq.delay import DelayClaims, DelayEntry, DelayQueue
from ackq.errors import ConfigurationError, Fenced, KeyTypeError, QueueNameError
from tests.servers import Target


@pytest.fixture
def client(target: Target) -> Iterator[Any]:
    """A plain client of the server."""
    with contextlib.closing(target.make_client()) as client:
        yield client


@pytest.fixture
def queue(client: Any, name: str) -> Iterator[DelayQueue]:
    with DelayQueue(client, name) as queue:
        yield queue


def test_a_claim_is_read_renewed_acked_and_released(
    client: Any, queue: DelayQueue, name: str
) -> None:
    keys = [f"{n:04}" for n in range(1300)]
    queue.push_many(DelayEntry(key, b"x" * 2000, at=1) for key in keys)
    with DelayClaims(client, name, "g") as claims, DelayClaims(client, name, "g") as reader:
        assert claims.begin() == 1
        assert claims.claim(0, messages=1100) == Claim(1, 1100)
        assert claims.claim(1, messages=500, batch=7) == Claim(7, 200)
        assert claims.claim(7, messages=500) is None
        assert claims.claim(7, messages=500, batch=9) == Claim(9, 0)
        assert (claims.numbers(), claims.open()) == ((9, 0), [Claim(1, 1100), Claim(7, 200)])
        assert (claims.readable(1, 6), claims.readable(8, 9)) == ([Claim(1, 1100)], [])
        claims.beat()
        found: list[Any] = []
        while len(found) < 1100:
            page = reader.read(1, len(found), 1100 - len(found))
            assert 0 < len(page) < 600  # about a mebibyte
            found += page
        assert [each.key for each in found] == keys[:1100]
        assert {(each.body, each.ready_time) for each in found[:1]} == {(b"x" * 2000, 1.0)}
        assert reader.read(1, 1100, 2) == reader.read(5, 0, 2) == [None, None]
        assert [claim.rows for claim in queue.claims()] == [1100, 200]
        assert claims.ack(6) == 1100
        assert claims.ack(6) == 0
        with pytest.raises(ConfigurationError, match="batch 6 was used before"):
            claims.claim(0, messages=1, batch=6)
        assert claims.release() == 200
        assert claims.epoch == 0
        assert reader.begin() == 3
        claims.adopt(2)
        with pytest.raises(Fenced, match=r"delay queue .*, group 'g': another process took it"):
            claims.beat()
    taken = queue.take(1000)
    assert [each.key for each in taken] == keys[1100:]
    assert {each.receive_count for each in taken} == {1}
    queue.delete(*taken)
    assert queue.stats().next_event_in is None


def test_what_cannot_be_claimed_is_refused(client: Any, queue: DelayQueue, name: str) -> None:
    with pytest.raises(ConfigurationError, match="timeout of claims"):
        DelayClaims(client, name, "g", timeout=0.5)
    with pytest.raises(QueueNameError):
        DelayClaims(client, name, "g h")
    with DelayClaims(client, name, "g") as claims:
        with pytest.raises(ConfigurationError, match="call begin"):
            claims.claim(0, messages=1)
        claims.begin()
        with pytest.raises(ConfigurationError, match="messages"):
            claims.claim(0, messages=0)
        client.set(f"{name}:claims", "another type")
        with pytest.raises(KeyTypeError, match="claims' is a string, not a zset"):
            claims.claim(0, messages=1)
        client.delete(f"{name}:claims")
