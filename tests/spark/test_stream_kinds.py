"""What the readers of a queue and of a delay queue have in common, driven as Spark drives them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.delay import DelayClaims, DelayEntry, DelayQueue
from ackq.delay import claims as delay_claims
from ackq.errors import ClaimLost, Fenced
from ackq.queue import Claims, claims
from ackq.spark import stream
from ackq.spark.shards import Shards
from tests.spark.engine import STAGES, Checkpoint, Died, Engine, Stage
from tests.waiting import wait_until


class Listed:
    """A list queue."""

    option = "queue"
    #: What claims some messages in one call.
    step: tuple[Any, str] = (claims, "_step")
    claims: type[Claims | DelayClaims] = Claims

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.queue: Any = Queue(client, name)

    def push(self, count: int, first: int = 0, body: bytes = b"") -> list[str]:
        """Push messages that are ready, and return their ids."""
        numbers = range(first, first + count)
        ids: list[str] = self.queue.push_many(body or {"n": n} for n in numbers)
        return ids

    def push_later(self) -> None:
        """Push a message that is not ready, where a count of leases would have it."""

    def claimed(self) -> tuple[int, int]:
        """Return how many messages are claimed, and how many are ready."""
        stats = self.queue.stats()
        return stats.claimed, stats.ready

    def take(self) -> Any:
        """Take a message as a consumer that knows no claims."""
        return self.queue.pop()

    def delivered(self, message: Any) -> tuple[str, int]:
        """Return the id of a message, and how often consumers have received it."""
        return message.id, message.receive_count

    def settle(self, message: Any) -> int:
        settled: int = self.queue.ack(message)
        return settled


class Delayed(Listed):
    """A delay queue."""

    option = "delayQueue"
    step = (delay_claims, "step")
    claims = DelayClaims

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.queue = DelayQueue(client, name)

    def push(self, count: int, first: int = 0, body: bytes = b"") -> list[str]:
        # In the opposite order of their keys.
        keys = [f"k{9999 - n}" for n in range(first, first + count)]
        self.queue.push_many(
            DelayEntry(key, body or {"n": int(key[1:])}, at=1000.0 + n)
            for n, key in enumerate(keys, first)
        )
        return keys

    def push_later(self) -> None:
        self.queue.push("later", "x", delay=3600)

    def claimed(self) -> tuple[int, int]:
        stats, rows = self.queue.stats(), sum(claim.rows for claim in self.queue.claims())
        assert (stats.in_flight, stats.delayed) == (rows, 1)
        return rows, stats.ready

    def take(self) -> Any:
        return next(iter(self.queue.take()), None)

    def delivered(self, message: Any) -> tuple[str, int]:
        return message.key, message.receive_count - 1  # a claim counts too

    def settle(self, message: Any) -> int:
        settled: int = self.queue.delete(message)
        return settled


Start = Callable[..., Engine]


@pytest.fixture(params=[Listed, Delayed], ids=["queue", "delay queue"])
def kind(request: pytest.FixtureRequest, plain_client: redis.Redis, token: str) -> Iterator[Listed]:
    made: Listed = request.param(plain_client, token)
    with made.queue:
        yield made


@pytest.fixture
def start(start_on: Start, kind: Listed, token: str) -> Start:
    """``start(checkpoint, **options)``: a driver of a query on the test's queue."""
    return lambda checkpoint, **options: start_on(checkpoint, **{kind.option: token, **options})


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim ahead of small batches, too."""
    monkeypatch.setattr(stream, "AHEAD_FROM", 1)


@pytest.mark.parametrize("ahead_from", [1, 11], ids=["ahead", "in turn"])
@pytest.mark.parametrize("mode", ["eager", "commit"])
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("stage", STAGES)
def test_a_driver_that_dies_anywhere_loses_nothing_and_doubles_nothing(
    start: Start,
    kind: Listed,
    stage: Stage,
    batch: int,
    mode: str,
    ahead_from: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "AHEAD_FROM", ahead_from)
    ids = kind.push(30)
    kind.push_later()
    log = Checkpoint()
    options = {"ackMode": mode, "maxMessagesPerTrigger": 10, "fetchSize": 4}
    start(log, **options).run_until(stage, batch)
    ids += kind.push(5, first=30)
    start(log, **options).run()
    assert log.ids() == ids
    assert log.is_repeatable()
    assert kind.claimed() == (log.sizes()[-1] if mode == "commit" else 0, 0)


@pytest.mark.parametrize(
    "limits",
    [{"maxBytesPerTrigger": 250}, {"maxBytesPerTrigger": 250, "maxMessagesPerTrigger": 4}],
    ids=["bytes", "bytes and messages"],
)
def test_a_batch_ends_at_its_limits(start: Start, kind: Listed, limits: dict[str, int]) -> None:
    kind.push(10, body=b"x" * 100)
    log = Checkpoint()
    start(log, **limits).run()
    assert log.sizes() == [3, 3, 3, 1]


@pytest.mark.usefixtures("ahead")
def test_the_next_batch_is_claimed_while_a_full_one_is_read(start: Start, kind: Listed) -> None:
    ids = kind.push(25)
    kind.push_later()
    log = Checkpoint()
    for batch, claimed in enumerate([20, 15, 5]):  # the batch before is acked with the next claim
        start(log, maxMessagesPerTrigger=10).run_until("reading", batch)
        is_claimed = partial(lambda claimed: kind.claimed()[0] == claimed, claimed)
        wait_until(is_claimed, "the claim of a batch")
        # Others that are claimed already come first, so no more are claimed.
        start(Checkpoint(), maxMessagesPerTrigger=10).run_until("reading", 0)
        assert is_claimed()
    start(log, maxMessagesPerTrigger=10).run()
    assert log.ids() == ids
    assert log.sizes() == [10, 10, 5]


@pytest.mark.usefixtures("ahead")
def test_an_error_of_a_claim_ahead_ends_the_query_before_the_next_batch(
    start: Start, kind: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = kind.push(20)
    log = Checkpoint()
    doomed = start(log, maxMessagesPerTrigger=10)
    claim = Shards.claim

    def claim_once(shards: Shards, after: int, messages: int) -> Any:
        if after:
            raise redis.ConnectionError("Redis is gone")
        return claim(shards, after, messages)

    with monkeypatch.context() as patched:
        patched.setattr(Shards, "claim", claim_once)
        doomed.step()
        with pytest.raises(redis.ConnectionError, match="gone"):
            doomed.step()
    start(log, maxMessagesPerTrigger=10).run()
    assert log.ids() == ids


@pytest.mark.usefixtures("ahead")
def test_available_now_ends_though_messages_keep_coming(start: Start, kind: Listed) -> None:
    kind.push(10)
    log = Checkpoint()
    engine = start(log, maxMessagesPerTrigger=4)
    engine._reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
    while engine.step():
        kind.push(4, first=100 * len(log.sizes()))
    assert sum(log.sizes()) == 10


def test_the_first_query_of_a_group_is_fenced_by_the_second(start: Start, kind: Listed) -> None:
    ids = kind.push(20)
    one, other = Checkpoint(), Checkpoint()
    first = start(one, maxMessagesPerTrigger=5)
    first.step()
    second = start(other, maxMessagesPerTrigger=5)
    second.step()
    with pytest.raises(Fenced, match="Give each query a group of its own"):
        first.step()
    second.run()
    # What the first had written and not acked is offered to the second: at least once.
    assert other.ids() == ids
    assert one.ids() == ids[:5]


def test_leases_end_without_heartbeats(start: Start, kind: Listed) -> None:
    ids = kind.push(3)
    log = Checkpoint()
    doomed = start(log, claimTimeoutMs=1000)
    doomed.run_until("planned", 0)
    doomed.stop()
    message = wait_until(kind.take, "the messages to come back")
    assert kind.delivered(message) == (ids[0], 1)
    with pytest.raises(ClaimLost, match="failOnDataLoss=false"):
        start(log).run()
    start(log, failOnDataLoss="false").run()
    assert log.ids() == ids[1:]
    assert kind.settle(message) == 1


def test_a_driver_that_dies_while_claiming_continues_with_its_claim(
    start: Start, kind: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = kind.push(2500)
    kind.push_later()
    log = Checkpoint()
    doomed = start(log, maxMessagesPerTrigger=2200)
    step, calls = getattr(*kind.step), []

    def dying(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise Died
        return step(*args)

    with monkeypatch.context() as patched:
        patched.setattr(*kind.step, dying)
        with pytest.raises(Died):
            doomed.run()
    assert 0 < kind.claimed()[0] < 2200
    start(log, maxMessagesPerTrigger=2200).run()
    assert log.ids() == ids


def test_a_lease_lasts_while_the_query_beats(start: Start, kind: Listed) -> None:
    kind.push(1)
    start(Checkpoint(), claimTimeoutMs=1000).run_until("planned", 0)
    seen: list[float] = []

    def renewals() -> int:
        (left,) = (claim.lease_ends_in for claim in kind.queue.claims())
        if not seen or left > seen[-1]:
            seen.append(left)
        seen[-1] = left
        return len(seen)

    wait_until(lambda: renewals() > 3, "renewals that outlast the timeout")
    assert kind.take() is None


def test_a_released_claim_returns_in_order_and_fences_the_query(
    start: Start, kind: Listed, url: str, token: str
) -> None:
    ids = kind.push(6)
    kind.push_later()
    engine = start(Checkpoint(), maxMessagesPerTrigger=4)
    engine.run_until("claimed", 0)
    (held,) = kind.queue.claims()
    assert (held.group, held.rows) == ("spark", 4)
    assert held.lease_ends_in == pytest.approx(7 * 86_400, abs=60)
    with kind.claims.from_url(url, token, "spark") as operator:
        assert operator.release() == 4
    assert kind.claimed() == (0, 6)
    engine.die_at("logged", 99)
    with pytest.raises(Fenced):
        engine.run()
    log = Checkpoint()
    start(log).run()
    assert log.ids() == ids
