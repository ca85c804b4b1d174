"""A worker without a supervisor runs alone what may have ended the processes that had it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import ackq
from ackq.queue import settle
from ackq.queue.messages import Message
from ackq.worker import Batch
from ackq.worker.effects import Call, Wait
from ackq.worker.suspects import run_alone
from ackq.worker.upkeep import _release_stale
from tests.waiting import wait_until
from tests.worker.by_hand import AHEAD, message_of, state_of
from tests.worker.conftest import Rig, settled


def crashed(queue: Any, count: int, times: int) -> list[Message]:
    """Take messages as often as that, by workers that die at once; return them."""
    for _ in range(times):
        taken = queue.with_config(max_receives=None).pop_many(count, visibility_timeout=0.001)
        wait_until(lambda: queue.stats().expired == count, "the end of the leases")
    return list(taken)


@pytest.mark.parametrize("batch", [None, Batch(4, wait=0.01)])
def test_suspects_run_alone_and_then_the_worker_goes_on(rig: Rig, batch: Batch | None) -> None:
    queue = rig.queue(6, max_receives=2)
    crashed(queue, 6, 2)
    queue.push_many({"id": f"new{n}"} for n in range(20))
    running: set[str] = set()
    beside: dict[str, set[str]] = {}

    async def handle(given: Message | Sequence[Message]) -> None:
        messages = [given] if isinstance(given, Message) else given
        for message in messages:
            running.add(message.id)
        await asyncio.sleep(0.01)
        for message in messages:
            if message.receive_count == 3:
                beside[message.id] = running - {message.id}
        running.difference_update([message.id for message in messages])

    rig.work(queue, handle, batch=batch, concurrency=8)
    wait_until(lambda: settled(queue), "all")
    assert len(beside) == 6
    assert not any(beside.values())
    assert queue.stats().dead == 0


def test_what_runs_is_finished_and_what_waits_is_given_back_before(rig: Rig) -> None:
    queue = rig.queue_of(max_receives=1)
    queue.push({"id": "suspect"})
    crashed(queue, 1, 1)
    queue.push_many({"id": f"m{n}"} for n in range(30))
    counts: list[tuple[str, int]] = []

    async def handle(message: Message) -> None:
        await asyncio.sleep(0.02)
        counts.append((message.id, message.receive_count))

    rig.work(queue, handle, concurrency=4)
    wait_until(lambda: settled(queue), "all")
    assert sorted(counts) == sorted([("suspect", 2), *((f"m{n}", 1) for n in range(30))])


def test_a_suspect_that_is_known_to_have_run_alone_is_dead(rig: Rig) -> None:
    queue = rig.queue(2, max_receives=1)
    taken = crashed(queue, 2, 2)
    error = OSError("boom")
    held = queue.with_config(max_receives=None).pop_many(2)
    queue.execute(settle.run_alone, held[0], 3, 1, error)
    queue.extend(*held, timeout=0.001)
    wait_until(lambda: queue.stats().expired == 2, "the end of the leases")
    seen: list[str] = []
    rig.work(queue, lambda message: seen.append(message.id))
    wait_until(lambda: queue.stats().dead == 1 and settled(queue), "one dead letter")
    (dead,) = queue.dead_letters()
    assert (dead.id, dead.reason, dead.errors[-1].text) == (held[0].id, "max receives", "boom")
    assert seen == [held[1].id]
    assert len(taken) == 2


def test_ordinary_failures_make_nobody_suspect(rig: Rig) -> None:
    queue = rig.queue(12, max_receives=2)
    beside: list[int] = []
    running = 0

    async def handle(message: Message) -> None:
        nonlocal running
        running += 1
        await asyncio.sleep(0.02)
        beside.append(running)
        running -= 1
        raise ackq.worker.Again(0)

    rig.work(queue, handle, concurrency=12)
    wait_until(lambda: queue.stats().dead == 12, "the dead letters")
    assert len(beside) == 24
    assert max(beside[12:]) > 1
    assert {letter.receive_count for letter in queue.dead_letters()} == {2}


def test_a_stop_gives_suspects_back_uncounted(rig: Rig) -> None:
    queue = rig.queue(3, max_receives=1)
    crashed(queue, 3, 1)
    started: list[str] = []

    async def handle(message: Message) -> None:
        started.append(message.id)
        await asyncio.sleep(3600)

    work = rig.work(queue, handle, grace=0.1)
    wait_until(lambda: len(started) == 1, "the first suspect")
    work.stop()
    work.join()
    assert len(started) == 1
    assert queue.stats().ready == 3
    taken = queue.with_config(max_receives=None).pop_many(3)
    assert {message.receive_count for message in taken} == {2}


@pytest.mark.parametrize("busy", ["a handler", "a take", "an ack"])
def test_a_suspect_does_not_begin_before_everything_else_has_ended(busy: str) -> None:
    state, time = state_of()
    (lane,) = state.lanes
    suspect, other = message_of(time, id="suspect"), message_of(time, id="other")
    if busy == "a handler":
        state.slots[0].message = other
    elif busy == "a take":
        lane.take.under_way = True
    else:
        lane.upkeep.done.append(other)
    state.suspects.append(suspect)
    routine = run_alone(state, None)
    assert isinstance(next(routine), Wait)
    assert not state.takes
    state.slots[0].message, lane.take.under_way = None, False
    lane.upkeep.done.clear()
    begins = routine.send(None)
    assert isinstance(begins, Call)
    assert begins.args[1] is suspect
    assert isinstance(routine.send(True), Wait)
    assert [*state.feed.buffer] == [suspect]


def test_a_suspect_that_waited_long_for_its_turn_is_not_given_back() -> None:
    state, time = state_of()
    state.lanes[0].clocks["q0"] = AHEAD
    suspect = message_of(time, id="suspect", taken=60.0)
    state.feed.buffer.append(suspect)
    state.alone = True
    _release_stale(state)
    assert [*state.feed.buffer] == [suspect]
    state.stopping = True
    _release_stale(state)
    assert not state.feed.buffer


def test_a_suspect_whose_last_delivery_failed_is_given_back_counted() -> None:
    state, time = state_of()
    (lane,) = state.lanes
    suspects = [message_of(time, id=id) for id in ("innocent", "failed")]
    state.suspects.extend(suspects)
    state.charged.add(suspects[1])
    state.stopping = True
    _release_stale(state)
    verbs = {message.id: settlement.verb for message, settlement in lane.upkeep.returned}
    assert verbs == {"innocent": "release", "failed": "nack"}
