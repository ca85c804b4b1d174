"""Workers of a queue with groups: one handler for a group, in order, whatever fails."""

import asyncio
import itertools
from collections import Counter

import pytest

from ackq import Groups, Message
from ackq.worker import Backoff, Batch
from tests.waiting import wait_until

from .conftest import Rig, settled

GROUPS = Groups("of")


def bodies(groups: str, each: int) -> list[dict[str, object]]:
    """Return messages in turn: the first of each group, the second of each, and so on."""
    return [{"id": f"{of}{n}", "of": of} for n, of in itertools.product(range(each), groups)]


def test_the_messages_of_each_group_are_handled_one_by_one_in_order(rig: Rig) -> None:
    queue = rig.queue_of(groups=GROUPS)
    queue.push_many([*bodies("ab", 40), {"id": "alone-1"}, {"id": "alone-2"}])
    running: Counter[str | None] = Counter()
    most: list[int] = []

    async def overlap(message: Message) -> None:
        running[message.group] += 1
        most.append(running[message.group] if message.group else 0)
        await asyncio.sleep(0.001)
        running[message.group] -= 1

    rig.handler.behave = overlap
    rig.work(queue, concurrency=8, prefetch=100)
    wait_until(lambda: settled(queue), "all")
    assert max(most) == 1
    for of in "ab":
        assert [each for each in rig.handler.seen if each[0] == of and each[1] != "l"] == [
            f"{of}{n}" for n in range(40)
        ]
    assert len(rig.handler.seen) == 82


def test_a_failure_gives_the_later_ones_back_and_they_are_not_counted(rig: Rig) -> None:
    queue = rig.queue_of(groups=GROUPS)
    queue.push_many(bodies("a", 6))

    def fail_once(message: Message) -> None:
        if message.id == "a2" and message.receive_count < 3:
            raise ValueError("not yet")

    rig.handler.behave = fail_once
    rig.work(queue, concurrency=4, backoff=Backoff(base=0.05, jitter=0))
    wait_until(lambda: settled(queue), "all")
    assert rig.handler.seen == ["a0", "a1", "a2", "a2", "a2", "a3", "a4", "a5"]
    assert rig.handler.counts == {f"a{n}": 3 if n == 2 else 1 for n in range(6)}


def test_a_batch_has_at_most_one_message_of_a_group(rig: Rig) -> None:
    queue = rig.queue_of(groups=GROUPS)
    queue.push_many(bodies("abc", 3))
    seen: list[list[str]] = []

    async def handle(messages: list[Message]) -> None:
        seen.append([message.id for message in messages])

    rig.work(queue, handle, batch=Batch(10, wait=0.02), concurrency=2)
    wait_until(lambda: settled(queue), "all")
    assert all(len({id[0] for id in batch}) == len(batch) for batch in seen)
    for of in "abc":
        order = [id for batch in seen for id in batch if id[0] == of]
        assert order == [f"{of}{n}" for n in range(3)]


@pytest.mark.parametrize("several", [False, True])
def test_drain_handles_all_messages_of_a_group(rig: Rig, several: bool) -> None:
    queue = rig.queue_of(groups=GROUPS)
    queue.push_many(bodies("ab", 25))
    others = [rig.queue_of("-other")] if several else []
    rig.work([queue, *others], concurrency=3, start=False).drain()
    assert [id for id in rig.handler.seen if id[0] == "a"] == [f"a{n}" for n in range(25)]
    assert settled(queue)


def test_a_worker_that_stops_gives_the_rest_of_a_run_back(rig: Rig) -> None:
    queue = rig.queue_of(groups=GROUPS)
    queue.push_many(bodies("a", 4))
    work = rig.work(queue, concurrency=2, start=False)

    async def stop(message: Message) -> None:
        work.stop()
        while not work.worker._state.stopping:
            await asyncio.sleep(0.005)

    rig.handler.behave = stop
    work.drain(drain=False)
    assert rig.handler.seen == ["a0"]
    assert queue.stats().ready == 3
    assert [message.id for message in queue.pop_many(4)] == ["a1", "a2", "a3"]


def test_a_lease_block_has_one_message_of_a_group(rig: Rig) -> None:
    queue = rig.queue_of(groups=GROUPS)
    queue.push_many(bodies("a", 2))
    with queue.lease() as first:
        assert first.id == "a0"
        assert queue.pop() is None
    assert [message.id for message in queue.pop_many(2)] == ["a1"]
