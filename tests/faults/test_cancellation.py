"""A task may be cancelled at any await: no reply reaches another, and nothing is lost."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq.embedded import Server
from tests.facade import Portal

from .proxy import Proxy

Operation = Callable[[ackq.AsyncQueue, list[ackq.Message]], Awaitable[Any]]


def instants() -> Iterator[int]:
    """Count turns of the event loop: every one at first, then ever fewer."""
    turns = 0
    while True:
        yield turns
        turns += 1 + turns // 8


async def outcome_of_cancelling(work: Awaitable[Any], turns: int) -> str:
    """Run ``work``, cancel it after some turns of the loop, and say what came of it."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.done():
        with contextlib.suppress(ackq.NotConfirmed):
            task.result()
        return "done before"
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, ackq.NotConfirmed):
        await task
    return "cancelled" if task.cancelled() else "went on"


async def replies_are_its_own(queue: ackq.AsyncQueue, label: str) -> None:
    """Send requests that have different replies."""
    assert await queue.push({"id": label}, dedup=label) == label
    stats, peeked = await asyncio.gather(queue.stats(), queue.peek(1000))
    assert isinstance(stats, ackq.QueueStats)
    assert label in {each.id for each in peeked}


#: What no server can give, so that a WAIT is on its way together with the push.
UNCONFIRMED = ackq.Confirm(replicas=1, timeout=0.001)

OPERATIONS: dict[str, Operation] = {
    "pop": lambda queue, held: queue.pop(),
    "fused pop": lambda queue, held: queue.pop_many(2, ack=held),
    "ack": lambda queue, held: queue.ack(*held),
    "extend": lambda queue, held: queue.extend(*held),
    "push": lambda queue, held: queue.push({"id": "pushed"}, dedup="pushed"),
    "confirmed push": lambda queue, held: queue.push({"id": "x"}, confirm=UNCONFIRMED),
    "stats": lambda queue, held: queue.stats(),
}


@pytest.mark.parametrize(
    ("name", "fresh"),
    [
        # The steps of a connection are the same for each.
        pytest.param(name, fresh, marks=pytest.mark.campaign if fresh and name != "pop" else ())
        for name in OPERATIONS
        for fresh in (False, True)
    ],
)
def test_an_operation_can_be_cancelled_at_every_await(
    proxy: Proxy, client: redis.Redis, portal: Portal, name: str, fresh: bool
) -> None:
    # Through the proxy a reply takes some hundred turns of the loop, so that many find it away.
    async def body() -> int:
        pushed: set[str] = set()
        cancelled = in_a_row = 0
        queue = ackq.AsyncQueue.from_url(proxy.url, "jobs")
        for turns in instants():
            held = await take_one(queue, f"held-{turns}")
            pushed.add(f"held-{turns}")
            if fresh:
                await queue.aclose()
            outcome = await outcome_of_cancelling(OPERATIONS[name](queue, held), turns)
            cancelled += outcome == "cancelled"
            in_a_row = in_a_row + 1 if outcome == "done before" else 0
            await replies_are_its_own(queue, f"own-{turns}")
            pushed.add(f"own-{turns}")
            if in_a_row == 3:
                break
        kept = {
            each.id for state in ("ready", "in_flight") for each in await queue.peek(10_000, state)
        }
        if name not in ("ack", "fused pop"):
            assert pushed <= kept
        assert {each for each in pushed if each.startswith("own")} <= kept
        assert (await queue.audit()).findings == ()
        await queue.aclose()
        return cancelled

    assert portal.call(body) >= 3


def test_a_cancellation_is_never_swallowed(
    proxy: Proxy, client: redis.Redis, portal: Portal
) -> None:
    async def body() -> list[str]:
        async with ackq.AsyncQueue.from_url(proxy.url, "jobs") as queue:
            await queue.stats()
            return [await outcome_of_cancelling(queue.pop(timeout=0.5), n) for n in range(12)]

    assert portal.call(body) == ["cancelled"] * 12


async def take_one(queue: ackq.AsyncQueue, label: str) -> list[ackq.Message]:
    """Return a message with this id under a lease."""
    await queue.push({"id": label})
    held: list[ackq.Message] = []
    for message in await queue.pop_many(1000):
        (held.append if message.id == label else others.append)(message)
    return held


others: list[ackq.Message] = []


def test_cancelling_a_waiting_pop_loses_nothing(
    server: Server, client: redis.Redis, portal: Portal
) -> None:
    async def body() -> None:
        async with ackq.AsyncQueue.from_url(server.url, "jobs") as queue:
            for number in range(20):
                waiting = asyncio.ensure_future(queue.pop(timeout=10))
                while not await asyncio.to_thread(blocked, client):
                    await asyncio.sleep(0)
                pushing = asyncio.ensure_future(queue.push({"id": str(number)}))
                for _ in range(number):
                    await asyncio.sleep(0)
                waiting.cancel()
                await pushing
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
                if waiting.cancelled():
                    # It may have been leased, if the cancellation came that late.
                    places = await queue.stats()
                    assert places.ready + places.in_flight == 1
                    if places.ready:
                        message = await queue.pop()
                        assert message is not None
                        assert (message.id, message.receive_count) == (str(number), 1)
                await queue.purge()

    portal.call(body)


def blocked(client: redis.Redis) -> int:
    info: Any = client.info("clients")
    return int(info["blocked_clients"])
