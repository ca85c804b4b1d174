"""What a consumer asks of its shards, and how it waits for them, with no server.

The blocking set of shards is generated from the asynchronous one; the waiters are by hand.
"""

import asyncio
import gc
import itertools
import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis

import ackq
from ackq.errors import KeyTypeError, LeaseLost
from ackq.membership.shards import Shards
from ackq.queue import take
from ackq.sharded import operations, resize, shards_async
from ackq.sharded.choice import COUNTS_LAST, HELP_INTERVAL, TAKES_IN_A_ROW
from ackq.sharded.operations import MAX_BLOCK, ShardCounts
from ackq.sharded.shards_async import RETIRE_INTERVAL, AsyncShardSet, acks, run
from ackq.sharded.waiters import ShardWaiters
from ackq.sharded.waiters_async import AsyncShardWaiters
from tests.waiting import wait_until

LOST = LeaseLost("lost")
CLOSED = KeyTypeError("closed")
EMPTY = ShardCounts(0, False, None)


class Clock:
    """Time that a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


class Shard:
    """A shard that records each call, and returns the answers that a test prepared."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answers: list[Any] = []
        self.popped: list[Any] = []

    def __repr__(self) -> str:
        return f"<{self.number}>"

    def beginning(self, *args: Any) -> tuple[Any, ...]:
        return (self, *args)

    async def pop_many(self, *args: Any) -> Any:
        self.popped.append(args)
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class Made:
    """A set of shards, of which this consumer has ``owned``, and what is run on them."""

    def __init__(self, patch: pytest.MonkeyPatch, used: int, draining: int, *owned: int) -> None:
        self.clock = Clock()
        self.ran: list[Any] = []
        self.answers: list[Any] = []
        self.shards = [Shard(number) for number in range(used + draining)]
        patch.setattr(shards_async, "time", self.clock)
        patch.setattr(shards_async, "run", self._run)
        patch.setattr(shards_async, "run_all", self._run)
        assigned = SimpleNamespace(partitions=owned, members=3)
        members: Any = SimpleNamespace(join=self._join, partitions=owned)
        self._assigned = assigned
        recorded = Shards(2, used, 7, (9,) if draining else ())
        queues: Any = self.shards
        self.set = AsyncShardSet(recorded, queues[:used], queues[used:], members)

    async def _join(self) -> Any:
        return self._assigned

    async def _run(self, prepared: Any, tolerates: Any = LeaseLost) -> list[Any]:
        self.ran.append((list(prepared), tolerates))
        return list(self.answers.pop(0))

    def take(self, n: int = 5, acked: Any = None) -> Any:
        return asyncio.run(self.set.take(n, 12.0, {} if acked is None else acked))

    def looks(self, *numbers: int) -> list[Any]:
        return [(self.shards[number], operations.shard_counts) for number in numbers]


def _messages(count: int) -> list[ackq.Message]:
    return [ackq.Message("{jobs:0.1}", b"%d" % n, b"{}", 1, 1) for n in range(count)]


# --- taking --------------------------------------------------------------------------------


def test_a_take_looks_first_and_then_takes_from_the_fullest(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 4, 0, 1, 3)
    made.answers = [[ShardCounts(5, False, None), ShardCounts(9, False, None)]]
    made.shards[3].answers = [_messages(5), _messages(4)]
    assert len(made.take()) == 5
    assert made.ran == [(made.looks(1, 3), LeaseLost)]
    assert made.shards[3].popped == [(5, None, 12.0, ())]
    made.take()  # there were nine: it is known that four are left
    assert len(made.ran) == 1
    made.shards[1].answers = [_messages(5)]
    made.take()  # the other one has five
    assert len(made.ran) == 1
    assert made.shards[1].popped == [(5, None, 12.0, ())]


def test_counts_that_are_old_are_taken_anew(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 2, 0, 0, 1)
    made.answers = [[ShardCounts(500, False, None), EMPTY], [ShardCounts(500, False, None), EMPTY]]
    made.shards[0].answers = [_messages(1)] * 20
    for _ in range(TAKES_IN_A_ROW):
        made.take(1)
    assert len(made.ran) == 1
    made.clock.now += COUNTS_LAST + 0.01
    made.take(1)
    assert len(made.ran) == 2


def test_acks_travel_with_a_take_of_their_shard_and_beside_one_of_another(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 2, 0, 0, 1)
    one, other = made.shards
    mine, theirs = _messages(2), _messages(3)
    made.answers = [[ShardCounts(9, False, None), EMPTY]]
    one.answers = [_messages(1)]
    made.set._choice.counted({0: ShardCounts(9, False, None)}, made.clock.now)
    acked: Any = {one: mine}
    made.take(1, acked)
    assert one.popped == [(1, None, 12.0, mine)]
    assert (acked, made.ran) == ({}, [])
    acked = {one: mine, other: theirs}
    found = _messages(1)
    made.answers = [[found, LOST]]
    assert made.take(1, acked) == found
    assert made.ran == [
        ([(one, take.pop_many, 1, None, 12.0, mine), (other, operations.ack, theirs)], LeaseLost)
    ]
    assert acked == {}
    # Before the first take the looks carry them, of whatever shard.
    made = Made(monkeypatch, 2, 0, 0, 1)
    made.answers = [[2, LOST, EMPTY, EMPTY]]
    acked = {made.shards[1]: theirs, made.shards[0]: mine}
    assert made.take(1, acked) is None
    assert made.ran[0][0] == [
        (made.shards[1], operations.ack, theirs),
        (made.shards[0], operations.ack, mine),
        *made.looks(0, 1),
    ]
    assert acked == {}


def test_a_draining_shard_may_have_been_closed_meanwhile(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 2, 2, 0)
    made.answers = [[EMPTY, ShardCounts(4, False, None), CLOSED], [CLOSED], [_messages(2)]]
    assert made.take() == []  # a take of shard 2, the first of those that drain
    assert made.ran == [
        (made.looks(0, 2, 3), KeyTypeError),
        ([(made.shards[2], take.pop_many, 5, None, 12.0, ())], KeyTypeError),
    ]
    made.set._choice.counted({3: ShardCounts(4, False, None)}, made.clock.now)
    assert len(made.take()) == 2
    # One that is in use was closed by a resize that this consumer has not seen.
    made.answers = [[CLOSED, EMPTY, EMPTY]]
    made.set._choice.counted({}, made.clock.now)
    with pytest.raises(KeyTypeError):
        made.take()
    made.set._choice.counted({1: ShardCounts(4, False, None)}, made.clock.now)
    made.shards[1].answers = [CLOSED]
    with pytest.raises(KeyTypeError):
        made.take()


def test_the_shards_of_others_are_looked_at_when_the_own_are_empty(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 4, 0, 1, 2)
    made.answers = [
        [EMPTY, EMPTY],
        [EMPTY, EMPTY],
        [EMPTY, EMPTY],
        [EMPTY, EMPTY],
        [EMPTY, ShardCounts(1, False, None)],
        [EMPTY, EMPTY],
        [EMPTY, EMPTY],
    ]
    assert made.take() is None
    assert [each for each, _ in made.ran] == [made.looks(1, 2), made.looks(0, 3)]
    assert made.take() is None  # not again so soon
    assert len(made.ran) == 3
    made.clock.now += HELP_INTERVAL
    made.shards[3].answers = [_messages(1)]
    assert len(made.take()) == 1
    assert made.shards[3].popped
    assert made.take() is None  # it helped, so it looks again at once
    assert [each for each, _ in made.ran[-2:]] == [made.looks(1, 2), made.looks(0, 3)]


def test_many_consumers_look_at_the_shards_of_others_less_often(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 4, 0, 1, 2)
    made._assigned.members = 1000  # 1000 consumers that read 2 of 4 shards: 10 seconds apart
    made.answers = [[EMPTY, EMPTY]] * 9
    for seconds, looks in ((0.0, 2), (9.0, 1), (1.1, 2)):
        made.clock.now += seconds
        made.ran.clear()
        made.take()
        assert len(made.ran) == looks


def test_a_shard_whose_wait_goes_on_is_not_looked_at(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 2, 0, 0, 1)
    seen: list[Any] = []
    waiters: Any = made.set._waiters
    waiters.waits_on = lambda shard: shard == 1
    waiters.seen = seen.append
    made.answers = [[EMPTY]]
    assert made.take() is None
    assert made.ran == [(made.looks(0), LeaseLost)]
    assert seen == [{0: EMPTY}]


def test_a_wait_is_for_the_own_shards_and_bounded(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 3, 0, 0, 2)
    asked: list[Any] = []

    async def wait(*args: Any) -> list[int]:
        asked.append(args)
        return [2]

    waiters: Any = made.set._waiters
    waiters.wait = wait
    for timeout in (0.25, 60.0):
        asyncio.run(made.set.wait(timeout))
    assert asked == [((0, 2), 0.25), ((0, 2), MAX_BLOCK)]
    made.shards[2].answers = [_messages(1)]
    made.take()  # no look: it is known that this one has a message
    assert made.ran == []


def test_draining_shards_are_closed_now_and_then(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 1, 2, 0)
    closing = [(shard, resize.retire, 7) for shard in made.shards[1:]]
    made.answers = [[True, False], [True, 1], [True, CLOSED], [True, True]]
    for expected in (False, False, False, True):
        before = len(made.ran)
        made.clock.now += RETIRE_INTERVAL - 0.01
        assert asyncio.run(made.set.retire()) is False
        assert len(made.ran) == before
        made.clock.now += 0.01
        assert asyncio.run(made.set.retire()) is expected
        assert made.ran[before:] == [(closing, LeaseLost)]
    made = Made(monkeypatch, 2, 0, 0)
    made.clock.now += 60
    assert asyncio.run(made.set.retire()) is False
    assert made.ran == []


def test_results_of_several_shards_may_hold_errors_that_are_expected(monkeypatch: Any) -> None:
    results: list[Any] = []

    async def run_all(prepared: Any) -> list[Any]:
        assert prepared == ["begun"]
        return results

    monkeypatch.setattr(shards_async, "run_all", run_all)
    prepared: Any = ["begun"]
    assert asyncio.run(run([])) == []
    results = [1, LOST]
    assert asyncio.run(run(prepared)) is results
    results = [CLOSED, LOST, 1]
    assert asyncio.run(run(prepared, KeyTypeError)) is results
    with pytest.raises(KeyTypeError):
        asyncio.run(run(prepared))
    results = [CLOSED, redis.ConnectionError("gone")]
    with pytest.raises(redis.ConnectionError):
        asyncio.run(run(prepared, KeyTypeError))
    waiting: Any = {Shard(0): _messages(1)}
    assert len(acks(waiting)) == 1
    assert waiting == {}


def test_a_closed_set_leaves_the_consumers_and_ends_its_waits(monkeypatch: Any) -> None:
    made = Made(monkeypatch, 1, 0, 0)
    closed: list[str] = []

    def closing(name: str) -> Any:
        async def close() -> None:
            closed.append(name)

        return close

    made.set.members.aclose = closing("members")  # type: ignore[method-assign]
    made.set._waiters.close = closing("waiters")  # type: ignore[method-assign]
    asyncio.run(made.set.close())
    assert closed == ["members", "waiters"]


# --- waiting -------------------------------------------------------------------------------


class Waiting:
    """A shard whose waits end when a test says so, for threads and for tasks."""

    def __init__(self) -> None:
        self.waits: list[Any] = []
        self.woken = threading.Event()
        self.found = True
        self.error: Exception | None = None

    def execute(self, operation: Any, timeout: float, counts: Any) -> bool:
        assert operation is operations.wait
        self.waits.append((timeout, counts))
        self.woken.wait(30)
        if self.error is not None:
            raise self.error
        return self.found


class AsyncWaiting(Waiting):
    async def execute(self, operation: Any, timeout: float, counts: Any) -> bool:  # type: ignore[override]
        assert operation is operations.wait
        self.waits.append((timeout, counts))
        while not self.woken.is_set():
            await asyncio.sleep(0.001)
        if self.error is not None:
            raise self.error
        return self.found


def _threads(play: Callable[..., Any]) -> None:
    shards: Any = [Waiting() for _ in range(3)]
    waiters = ShardWaiters(shards)

    async def wait(*args: Any) -> list[int]:
        return waiters.wait(*args)

    try:
        asyncio.run(play(waiters, wait, shards))
        named = [each.name for each in threading.enumerate()]
        assert any(each.startswith("ackq-shard_") for each in named)
    finally:
        for shard in shards:
            shard.woken.set()
        waiters.close()


def _tasks(play: Callable[..., Any]) -> None:
    async def main() -> None:
        shards: Any = [AsyncWaiting() for _ in range(3)]
        waiters = AsyncShardWaiters(shards)
        await play(waiters, waiters.wait, shards)
        await waiters.close()

    asyncio.run(main())


def _begun(shards: list[Any], *counts: int) -> None:
    """Wait until that many waits have begun on each shard: a thread may be slow to start."""
    wait_until(lambda: [len(shard.waits) for shard in shards] == [*counts], "the waits to begin")


@pytest.mark.parametrize("runtime", [_threads, _tasks], ids=["threads", "tasks"])
def test_waits_go_on_until_their_shard_has_a_message(runtime: Any) -> None:
    async def play(waiters: Any, wait: Any, shards: list[Any]) -> None:
        paused = ShardCounts(0, True, None)
        assert not waiters.waits_on(0)
        waiters.seen({0: EMPTY, 1: paused})
        assert await wait([0, 1], 0.01) == []
        _begun(shards, 1, 1, 0)
        assert shards[0].waits == [(MAX_BLOCK, EMPTY)]
        assert shards[1].waits == [(MAX_BLOCK, paused)]
        # A paused shard may get a message meanwhile, as may one that was not counted.
        assert [waiters.waits_on(number) for number in range(3)] == [True, False, False]
        assert await wait([0, 2], 0.01) == []
        _begun(shards, 1, 1, 1)
        assert shards[2].waits == [(MAX_BLOCK, None)]
        assert not waiters.waits_on(2)
        shards[0].woken.set()
        assert await wait([0, 1, 2], 30) == [0]
        assert not waiters.waits_on(0)
        shards[0].woken.clear()
        assert await wait([0, 1], 0.01) == []
        _begun(shards, 2, 1, 1)
        assert shards[0].waits[1:] == [(MAX_BLOCK, None)]  # counts are of use once
        assert not waiters.waits_on(0)
        shards[1].found = False
        shards[1].woken.set()
        assert await wait([0, 1], 30) == []
        shards[2].error = redis.ConnectionError("gone")
        shards[2].woken.set()
        with pytest.raises(redis.ConnectionError):
            await wait([0, 2], 30)

    runtime(play)


def test_the_error_of_a_wait_that_no_call_waits_for_is_not_logged() -> None:
    unseen: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: unseen.append(found))
        shards: Any = [AsyncWaiting()]
        waiters = AsyncShardWaiters(shards)
        assert await waiters.wait([0], 0.01) == []
        shards[0].error = KeyTypeError("closed")
        shards[0].woken.set()
        async with asyncio.timeout(30):
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
        del waiters, shards
        gc.collect()

    asyncio.run(main())
    assert not unseen


def test_a_single_shard_is_waited_for_without_a_thread() -> None:
    shards: Any = [Waiting(), Waiting()]
    waiters = ShardWaiters(shards)
    waiters.seen({1: EMPTY, 0: ShardCounts(3, False, None)})
    shards[1].woken.set()
    assert waiters.wait([1], 0.25) == [1]
    assert shards[1].waits == [(0.25, EMPTY)]
    shards[1].found = False
    assert waiters.wait([1], 0.5) == []
    assert shards[1].waits[1:] == [(0.5, None)]
    assert not waiters.waits_on(1)
    assert shards[0].waits == []
    waiters.close()


def test_waits_are_begun_anew_in_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    shards: Any = [Waiting(), Waiting()]
    waiters = ShardWaiters(shards)
    waiters.seen({0: EMPTY, 1: EMPTY})
    assert waiters.wait([0, 1], 0.01) == []
    assert waiters.waits_on(0)
    before = waiters._threads
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert not waiters.waits_on(0)
    waiters.close()  # the threads are the other process's
    waiters.seen({0: EMPTY, 1: EMPTY})
    assert waiters.wait([0, 1], 0.01) == []
    assert waiters._threads is not before
    _begun(shards, 2, 2)
    assert waiters.waits_on(1)
    for shard in shards:
        shard.woken.set()
    waiters.close()
    monkeypatch.undo()
    before.shutdown()


def test_closing_ends_the_waits() -> None:
    names = itertools.filterfalse(
        lambda each: not each.name.startswith("ackq-shard"), threading.enumerate()
    )
    known = set(names)
    shards: Any = [Waiting(), Waiting()]
    waiters = ShardWaiters(shards)
    waiters.wait([0, 1], 0.01)
    for shard in shards:
        shard.woken.set()
    waiters.close()
    wait_until(
        lambda: (
            not {each for each in threading.enumerate() if each.name.startswith("ackq-shard")}
            - known
        ),
        "the threads to end",
    )
    with pytest.raises(RuntimeError):
        waiters.wait([0, 1], 0.01)

    async def main() -> None:
        shards: Any = [AsyncWaiting(), AsyncWaiting()]
        waiters = AsyncShardWaiters(shards)
        await waiters.wait([0, 1], 0.01)
        tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("ackq-shard-")]
        assert sorted(task.get_name() for task in tasks) == ["ackq-shard-0", "ackq-shard-1"]
        await waiters.close()
        assert all(task.cancelled() for task in tasks)
        await waiters.close()

    asyncio.run(main())
