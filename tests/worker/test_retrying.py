"""Messages that could not be settled during an outage are settled later."""

import threading
from typing import Any

import pytest
import redis

import ackq
from ackq import Message, Queue
from ackq.errors import ConfigurationError
from ackq.worker import Again, Backoff, Reject, Release
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import settled, until


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``failing(queue, "ack")``: the first call of that method does not arrive."""

    def fail(queue: Queue, method: str) -> list[str]:
        bare = getattr(queue, "_wrapped", queue)
        calls: list[str] = []
        real = getattr(bare, method)

        def once(*args: Any, **keywords: Any) -> Any:
            calls.append(method)
            if len(calls) == 1:
                raise redis.ConnectionError("not there")
            return real(*args, **keywords)

        monkeypatch.setattr(bare, method, once)
        return calls

    return fail


@pytest.mark.parametrize(
    ("method", "verdict", "left"),
    [
        ("ack", None, (0, 0, 0)),
        ("nack", Again(delay=60), (0, 1, 0)),
        ("reject", Reject(), (0, 0, 1)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_settle_that_did_not_arrive_is_sent_again(
    failing: Any, method: str, verdict: Any, left: tuple[int, int, int], rig: Rig
) -> None:
    queue = rig.queue(1)
    calls = failing(queue, method)
    seen = []
    lanes: list[Any] = []

    def handle(message: Message) -> None:
        seen.append(message.id)
        # So that the ack goes alone.
        wait_until(lambda: lanes and lanes[0].take.asked_at, "the next take to be under way")
        if verdict is not None:
            raise verdict

    lanes += rig.work(queue, handle).worker._state.lanes

    def all_told() -> bool:
        stats = queue.stats()
        return not stats.in_flight and (stats.ready, stats.delayed, stats.dead) == left

    wait_until(all_told, "the second attempt")
    assert calls  # an ack may have gone with the next take
    assert seen == ["m0"]


def test_a_worker_that_leaves_tries_again_too(failing: Any, rig: Rig) -> None:
    queue = rig.queue(2, max_receives=25)
    go_on = threading.Event()
    started = threading.Semaphore(0)

    async def hang(message: Message) -> None:
        started.release()
        await until(go_on)

    made = rig.work(queue, hang)
    for _ in range(2):
        assert started.acquire(timeout=10)
    (lane,) = made.worker._state.lanes
    calls = failing(lane.queue, "release")
    made.stop()
    made.stop()
    made.join()
    go_on.set()
    assert len(calls) >= 2
    assert queue.stats().ready == 2


def test_a_release_is_not_forgotten(failing: Any, rig: Rig) -> None:
    queue = rig.queue(1)
    failing(queue, "release")
    seen = []

    def handle(message: Message) -> None:
        seen.append(message.receive_count)
        if len(seen) == 1:
            raise Release()

    rig.work(queue, handle)
    wait_until(lambda: settled(queue), "the second delivery")
    assert seen == [1, 1]


def test_a_worker_ends_poison_where_the_queue_sets_no_limit(rig: Rig) -> None:
    def fail(message: ackq.Message) -> None:
        raise ValueError

    unlimited, limited = rig.queue_of("-unlimited"), rig.queue_of("-limited", max_receives=3)
    for queue in (unlimited, limited):
        queue.push({"id": queue.name})
    rig.handler.behave = fail
    rig.work([unlimited, limited], max_receives=2, backoff=Backoff(base=0))
    wait_until(lambda: unlimited.stats().dead == limited.stats().dead == 1, "both to be dead")
    assert rig.handler.counts == {unlimited.name: 2, limited.name: 3}
    assert unlimited.config.max_receives is None  # other consumers of it are not affected


def test_the_limit_of_a_worker_is_25_unless_chosen(rig: Rig) -> None:
    queue = rig.queue_of()

    def limit(**settings: Any) -> Any:
        (lane,) = rig.work(queue, print, start=False, **settings).worker._state.lanes
        # No pop of the worker buries a message: it may not have been the one that crashed.
        assert lane.queue.config.max_receives in (None, 1_000_000)
        return lane.max_receives

    assert (limit(), limit(max_receives=7), limit(max_receives=None)) == (25, 7, None)
    with pytest.raises(ConfigurationError, match="max_receives"):
        limit(max_receives=0)
