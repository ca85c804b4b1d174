"""Handlers of batches: what a batch holds, and how its messages are settled."""

import asyncio
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

import ackq
from ackq.errors import ConfigurationError
from ackq.worker import Again, Batch, Failed, Reject, Release, upkeep
from tests.waiting import wait_until

from .conftest import Rig, push, settled


class Batches:
    """A handler that records its batches, and then does what a test says."""

    def __init__(self, *results: Any) -> None:
        self.seen: list[list[str]] = []
        self.results: Iterator[Any] = iter(results)

    async def __call__(self, messages: list[ackq.Message]) -> None:
        self.seen.append([message.id for message in messages])
        result = next(self.results, None)
        if callable(result):
            result = await result(messages)
        if result is not None:
            raise result

    @property
    def ids(self) -> list[str]:
        return [one for batch in self.seen for one in batch]


def test_a_batch_is_full_while_there_are_messages(rig: Rig) -> None:
    queue, batches = rig.queue(25), Batches()
    rig.work(queue, batches, batch=Batch(10, wait=0.3), concurrency=3)
    wait_until(lambda: settled(queue), "all")
    ids = [f"m{n}" for n in range(25)]
    assert sorted(batches.seen) == sorted([ids[:10], ids[10:20], ids[20:]])


def test_batches_of_one_take_are_handled_at_the_same_time(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "STALE", math.inf)  # a batch that waits is not released

    async def meet(messages: list[ackq.Message]) -> None:
        while len(batches.seen) < 4:
            await asyncio.sleep(0.005)

    queue, batches = rig.queue(2), Batches(None, *[meet] * 3)
    rig.work(queue, batches, batch=Batch(2, wait=5), concurrency=3)
    wait_until(lambda: settled(queue), "the first, after which all handlers wait")
    push(queue, 6, "later")
    wait_until(lambda: settled(queue), "the others")


def test_a_batch_waits_for_more_messages_only_so_long(rig: Rig) -> None:
    queue, batches = rig.queue(1), Batches()
    rig.work(queue, batches, batch=Batch(1000, wait=0.2))
    began = time.monotonic()
    wait_until(lambda: batches.seen, "the first batch")
    assert time.monotonic() - began >= 0.15
    push(queue, 3, "later")
    wait_until(lambda: len(batches.ids) == 4, "the others")


def test_messages_that_arrive_one_by_one_are_collected_in_one_batch(rig: Rig) -> None:
    queue, batches = rig.queue_of(), Batches()
    rig.work(queue, batches, batch=Batch(4, wait=5), concurrency=3)
    for number in range(3):
        push(queue, 1, f"{number}-")
        wait_until(lambda: not queue.stats().ready, "it is taken")
    push(queue, 1, "3-")
    wait_until(lambda: settled(queue), "all")
    assert batches.seen == [["0-0", "1-0", "2-0", "3-0"]]


@pytest.mark.parametrize("drain", [True])
def test_drain_handles_what_is_there_and_ends(rig: Rig, drain: bool) -> None:
    queue, batches = rig.queue(7), Batches()
    rig.work(queue, batches, batch=Batch(5, wait=60), start=False).drain(drain=drain)
    assert sorted(batches.ids) == [f"m{n}" for n in range(7)]
    assert settled(queue)


def test_only_the_failed_messages_of_a_batch_fail(rig: Rig) -> None:
    async def some(messages: list[ackq.Message]) -> Failed:
        verdicts = [ValueError("why"), Reject("never"), Release(60), Again(50)]
        return Failed(dict(zip(messages, verdicts, strict=False)))

    queue, batches = rig.queue(6), Batches(some)
    rig.work(queue, batches, batch=Batch(6, wait=5), concurrency=1)
    wait_until(lambda: queue.stats().dead == 1 and queue.stats().in_flight == 0, "all settled")
    delayed = {each.id: each.receive_count for each in queue.peek(9, "delayed")}
    assert {"m2": 0, "m3": 1}.items() <= delayed.items()
    assert delayed.keys() <= {"m0", "m2", "m3"}
    assert [dead.id for dead in queue.dead_letters()] == ["m1"]
    stats = queue.stats()
    assert stats.ready + stats.delayed == 3


@pytest.mark.parametrize(("error", "verb"), [(OSError("down"), 1), (Release(60), 0)])
def test_an_exception_settles_the_whole_batch(rig: Rig, error: Exception, verb: int) -> None:
    queue, batches = rig.queue(4), Batches(error)
    work = rig.work(queue, batches, batch=Batch(4, wait=5), concurrency=1)
    wait_until(lambda: queue.stats().delayed == 4, "all delayed")
    work.stop()
    assert {each.receive_count for each in queue.peek(9, "delayed")} == {verb}


def test_the_last_permitted_delivery_is_alone(rig: Rig) -> None:
    async def kill(messages: list[ackq.Message]) -> Exception:
        return ValueError([message.id for message in messages])

    queue, batches = rig.queue(3, max_receives=2), Batches(Again(0), *[kill] * 9)
    rig.work(queue, batches, batch=Batch(3, wait=0.5), concurrency=2)
    wait_until(lambda: queue.stats().dead == 3, "all dead")
    assert len(batches.seen[0]) == 3
    assert sorted(batches.seen[1:]) == [["m0"], ["m1"], ["m2"]]


def test_leases_are_renewed_while_a_batch_is_collected_and_handled(rig: Rig) -> None:
    async def slow(messages: list[ackq.Message]) -> None:
        await asyncio.sleep(1.2)

    queue, batches = rig.queue(2, visibility_timeout=1.0), Batches(slow)
    rig.work(queue, batches, batch=Batch(3, wait=1.2), concurrency=1)
    wait_until(lambda: settled(queue), "both")
    assert batches.seen == [["m0", "m1"]]


def test_a_stop_releases_a_batch_that_is_being_collected(rig: Rig) -> None:
    queue, batches = rig.queue(2), Batches()
    work = rig.work(queue, batches, batch=Batch(3, wait=60), concurrency=1)
    wait_until(lambda: queue.stats().in_flight == 2, "both taken")
    work.stop()
    work.join()
    assert batches.seen == []
    assert [each.receive_count for each in queue.peek(9)] == [0, 0]


def test_a_batch_over_its_time_limit_has_failed_as_a_whole(rig: Rig) -> None:
    async def endless(messages: list[ackq.Message]) -> None:
        await asyncio.sleep(60)

    queue, batches = rig.queue(3), Batches(endless)
    rig.work(queue, batches, batch=Batch(3, wait=5), concurrency=1, time_limit=0.2)
    wait_until(lambda: queue.stats().delayed == 3, "all delayed")
    assert {each.receive_count for each in queue.peek(9, "delayed")} == {1}


def test_expired_messages_are_not_in_a_batch(rig: Rig) -> None:
    queue, batches = rig.queue_of(), Batches()
    queue.push_many({"id": name, "until": until} for name, until in (("old", 1), ("new", 4e9)))
    rig.work(queue, batches, batch=Batch(2, wait=5), expiry_field="until")
    wait_until(lambda: settled(queue), "both")
    assert batches.seen == [["new"]]


@pytest.mark.one_server
def test_a_batch_is_a_batch(rig: Rig) -> None:
    with pytest.raises(ConfigurationError, match=r"such as Batch\(100\)"):
        rig.work(rig.queue_of(), Batches(), batch=100, start=False)


def test_some_queues_have_batches_and_batches_have_messages_of_one_queue(rig: Rig) -> None:
    seen: dict[str, list[Any]] = {}

    async def handle(message: ackq.Message) -> None:
        seen.setdefault(message.queue, []).append(message.id)

    async def handle_many(messages: list[ackq.Message]) -> None:
        (name,) = {message.queue for message in messages}
        seen.setdefault(name, []).append([message.id for message in messages])

    plain, a, b = (rig.queue_of(suffix) for suffix in ("", "-a", "-b"))
    for queue in (plain, a, b):
        push(queue, 3)
    batches = {a.name: Batch(3, wait=5), b.name: Batch(2, wait=0.01)}
    settings: dict[str, Any] = {"batch": batches, "batch_handler": handle_many}
    rig.work([plain, a, b], handle, concurrency=2, **settings)
    wait_until(lambda: settled(plain) and settled(a) and settled(b), "all")
    assert sorted(seen[plain.name]) == ["m0", "m1", "m2"]
    assert seen[a.name] == [["m0", "m1", "m2"]]
    assert sorted(seen[b.name]) in ([["m0", "m1"], ["m2"]], [["m0"], ["m1"], ["m2"]])
    push(plain, 1, "later")
    wait_until(lambda: "later0" in seen[plain.name], "a single message")
    with pytest.raises(ConfigurationError, match="batch names queues"):
        rig.work(plain, handle, batch={"other": Batch()}, start=False)
