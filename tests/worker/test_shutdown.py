"""How a worker stops, and which failures it survives."""

import asyncio
import logging
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import redis

import ackq
from ackq import Message
from ackq.worker import AsyncWorker, Schedule, Worker, upkeep
from ackq.worker.logs import log
from ackq.worker.outages import Outages
from ackq.worker.signals import stopping_on_signals
from tests.servers import private_server
from tests.waiting import wait_until
from tests.worker.conftest import QueueOf, Rig, StartWorker

from .conftest import push, settled, until


def test_a_stop_lets_what_runs_end_and_gives_back_the_rest(
    monkeypatch: pytest.MonkeyPatch, rig: Rig
) -> None:
    monkeypatch.setattr(upkeep, "STALE", 3600)  # it is the stop that gives back, not the wait
    queue = rig.queue(400)
    go_on = threading.Event()

    def behave(message: Message) -> Any:
        return until(go_on) if len(rig.handler.seen) > 100 else None

    rig.handler.behave = behave
    made = rig.work(queue, concurrency=2)
    wait_until(lambda: len(rig.handler.running) == 2, "both slots to hang")
    begun = len(rig.handler.seen)
    made.stop()
    # No wait for a timeout, and no count.
    wait_until(lambda: queue.stats().ready == 400 - begun, "what had not begun")
    assert made.running
    go_on.set()
    made.join()
    assert len(rig.handler.seen) == begun
    assert queue.stats().in_flight == 0
    assert {message.receive_count for message in queue.pop_many(400)} == {1}


class SlowHands(deque[ackq.Message]):
    """A buffer whose messages are for a while neither in it nor with a slot."""

    def __init__(self, messages: Iterable[ackq.Message] = ()) -> None:
        super().__init__(messages)
        self.taken, self.go_on = threading.Event(), threading.Event()

    def popleft(self) -> ackq.Message:
        message = super().popleft()
        self.taken.set()
        self.go_on.wait(10)
        return message


def test_a_stop_waits_for_a_message_on_its_way_to_a_thread(
    plain_client: redis.Redis, token: str, rig: Rig
) -> None:
    with ackq.Queue(plain_client, token) as queue:
        push(queue, 1)
        made = rig.work(queue, concurrency=1, start=False)
        made.worker._state.feed.buffer = buffer = SlowHands()
        made.start()
        assert buffer.taken.wait(10)
        made.stop()
        time.sleep(0.2)  # some rounds of the keeper, each of which might leave
        buffer.go_on.set()
        made.join()
        assert rig.handler.seen == ["m0"]
        assert settled(queue)


@pytest.mark.parametrize("how", ["grace", "second stop"])
@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_what_does_not_end_in_time_is_given_back(kind: str, how: str, rig: Rig) -> None:
    queue = rig.queue(2)
    go_on = threading.Event()
    started, flags = [], []

    async def coroutine(message: ackq.Message) -> None:
        started.append(message)
        try:
            await until(go_on)
        finally:
            await asyncio.sleep(0.05)  # what a cancelled handler does in the end is waited for
            flags.append(message.lease_lost)

    def function(message: ackq.Message) -> None:
        started.append(message)
        go_on.wait(20)
        flags.append(message.lease_lost)

    handle: Any = coroutine if kind == "coroutine" else function
    made = rig.work(queue, handle, grace=0.3 if how == "grace" else 60)
    wait_until(lambda: len(started) == 2, "both handlers")
    made.stop()
    if how == "second stop":
        made.stop()
    made.join()
    assert queue.stats().ready == 2
    assert [message.receive_count for message in queue.pop_many(2)] == [1, 1]
    if kind == "coroutine":
        assert flags == [False, False]  # they have ended before they were given back
    go_on.set()
    wait_until(lambda: len(flags) == 2, "the handlers to notice")
    assert flags == [kind == "function"] * 2


@pytest.mark.parametrize("stops", [1, 2])
def test_a_take_that_is_under_way_at_a_stop_is_waited_for(
    flavour: str, stops: int, rig: Rig
) -> None:
    queue = rig.queue_of()
    made = rig.work(queue, start=False)
    state = made.worker._state
    lane = state.lanes[0]
    real, taken = lane.queue.pop_many, threading.Event()

    def is_late(messages: list[ackq.Message]) -> bool:
        """Whether these are on their way still: a worker that does not wait has left by then."""
        if messages:
            taken.set()
        return bool(messages)

    def slowly(*args: Any) -> Any:
        messages = real(*args)
        if is_late(messages):
            wait_until(lambda: state.stopping, "the stop")
            time.sleep(0.5)
        return messages

    async def slowly_async(*args: Any) -> Any:
        messages = await real(*args)
        if is_late(messages):
            while not state.stopping:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.5)
        return messages

    lane.queue.pop_many = slowly if flavour == "sync" else slowly_async
    made.start()
    push(queue, 1)
    assert taken.wait(10)
    for _ in range(stops):
        made.stop()
    made.join()
    assert rig.handler.seen == []
    stats = queue.stats()
    assert (stats.ready, stats.in_flight) == (1, 0)


def test_signals_are_heard_and_put_back(
    queue_of: QueueOf, flavour: str, plain_client: redis.Redis
) -> None:
    queue = queue_of()
    settings = plain_client.connection_pool.connection_kwargs
    push(queue, 1)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def handle(message: ackq.Message) -> None:
        signal.raise_signal(signal.SIGTERM)

    if flavour == "sync":
        Worker(queue, handle, concurrency=1).run()
    else:

        async def main() -> None:
            client = redis.asyncio.Redis(host=settings["host"], port=settings["port"])
            async with client, ackq.AsyncQueue(client, queue.name) as own:
                await AsyncWorker(own, handle, concurrency=1).run()

        asyncio.run(main())
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert settled(queue)


#: Signals, whether a parent supervises the worker, and how often each of them stops it.
SIGNALLED = [
    ("TERM INT", False, [1, 2]),
    ("HUP TERM", False, [1, 2]),
    ("HUP HUP", False, [1, 2]),
    ("QUIT", False, [2]),
    ("INT QUIT", False, [1, 2]),
    ("TERM TERM HUP INT", True, [1, 1, 1, 2]),
    ("INT TERM", True, [2, 2]),
    ("TERM QUIT INT", True, [1, 2, 2]),
]


@pytest.mark.parametrize(("names", "supervised", "expected"), SIGNALLED)
def test_signals_stop_then_end_the_grace_then_have_their_default_action(
    names: str, supervised: bool, expected: list[int]
) -> None:
    known = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
    before = [signal.getsignal(each) for each in known]
    stops: list[int] = []
    with stopping_on_signals(lambda: stops.append(1), *[True] * supervised):
        counts = []
        for name in names.split():
            signal.raise_signal(getattr(signal, f"SIG{name}"))
            counts.append(len(stops))
        default = [signal.getsignal(each) == signal.SIG_DFL for each in known]
    assert counts == expected
    assert default == [not supervised] * 4
    assert [signal.getsignal(each) for each in known] == before


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None])
def test_a_signal_that_nohup_ignores_or_the_program_handles_is_left_alone(
    number: signal.Signals, handler: Any
) -> None:
    before = signal.signal(number, handler)
    try:
        with stopping_on_signals(pytest.fail):
            signal.raise_signal(number)
            assert signal.getsignal(number) == handler
    finally:
        signal.signal(number, before)


def test_a_server_that_cannot_hold_queues_ends_the_worker(
    tmp_path: Path, work: StartWorker, portal: Any, flavour: str
) -> None:
    with private_server(tmp_path, maxmemory="50mb", maxmemory_policy="allkeys-lru") as server:
        kind: Any = ackq.Queue if flavour == "sync" else ackq.AsyncQueue
        queue = portal.call(kind.from_url, server.url, "jobs")
        made = work(queue, print, start=False)
        with pytest.raises(ackq.EvictionPolicyError):
            made.drain()
        portal.call(queue.close if flavour == "sync" else queue.aclose)


@pytest.fixture
def outage(tmp_path: Path, flavour: str, portal: Any) -> Any:
    """A server of the test's own, and a queue on it."""
    executable = shutil.which("redis-server")
    with private_server(tmp_path, Path(executable) if executable else None) as server:
        queue = ackq.Queue.from_url(server.url, "jobs")
        if flavour == "sync":
            worked: Any = queue
        else:
            worked = portal.call(ackq.AsyncQueue.from_url, server.url, "jobs")
        yield server, queue, worked
        queue.close()
        if flavour == "async":
            portal.call(worked.aclose)


def test_a_restart_of_redis_needs_no_restart_of_the_worker(outage: Any, rig: Rig) -> None:
    server, queue, worked = outage
    push(queue, 300)
    rig.handler.behave = lambda message: asyncio.sleep(0.005)
    rig.work(worked, concurrency=2)
    rig.handler.wait_for(30)
    server.kill()
    time.sleep(0.3)  # long enough that every thread or task has noticed
    server.start()
    wait_until(lambda: settled(queue), "the rest", 40)
    push(queue, 5, "after")
    wait_until(lambda: settled(queue), "what came afterwards", 40)
    ids = {f"m{n}" for n in range(300)} | {f"after{n}" for n in range(5)}
    assert set(rig.handler.seen) == ids


def test_an_outage_is_one_line_when_it_begins_and_one_when_it_is_over(
    outage: Any, caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    server, queue, worked = outage
    push(queue, 4)
    go_on = threading.Event()
    rig.handler.behave = lambda message: until(go_on)
    beat = Schedule("beat", {"id": "beat"}, every=0.2)
    made = rig.work(worked, concurrency=4, schedules=[beat])
    rig.handler.wait_for(4)
    (lane,) = made.worker._state.lanes
    server.kill()
    go_on.set()  # what is done now cannot be settled
    wait_until(lambda: lane.failures >= 5, "the server to be asked again and again")
    server.start()
    wait_until(lambda: "the server answers again after" in caplog.text, "the other line")
    wait_until(lambda: queue.stats().in_flight == 0, "the rest to be settled")
    logged = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    # On a busy machine the outage is long enough for the schedule to log missed ticks.
    logged = [line for line in logged if "ticks were missed" not in line]
    assert len(logged) == 2, logged
    assert "is away" in logged[0]
    assert int(logged[1].rpartition(" ")[2]) >= 5


def test_a_refused_operation_is_logged_once_until_it_works() -> None:
    outages = Outages("jobs", "here")
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        for now in (1.0, 2.0, 3.0):
            outages.failed("settling", redis.ResponseError("NOPERM no"), now)
            outages.succeeded("take", now)
        outages.failed("take", redis.ConnectionError("gone"), 4.0)
        outages.failed("settling", redis.ConnectionError("gone"), 5.0)
        outages.succeeded("settling", 6.0)
        outages.succeeded("settling", 7.0)
    finally:
        log.removeHandler(handler)
    assert [each.removeprefix("queue jobs: ") for each in records] == [
        "settling failed, the server at here refuses it; trying until it works:"
        " ResponseError: NOPERM no",
        "take failed, the server at here is away; trying until it works: ConnectionError: gone",
        "the server answers again after 2.0 s; calls that failed: 2",
        "settling works again after 5.0 s; calls that failed: 3",
    ]


def test_forgotten_scripts_are_sent_again(outage: Any, rig: Rig) -> None:
    server, queue, worked = outage
    push(queue, 200)
    rig.handler.behave = lambda message: asyncio.sleep(0.005)
    rig.work(worked, concurrency=2)
    with redis.Redis.from_url(server.url) as client:
        for count in range(20, 200, 20):
            rig.handler.wait_for(count)
            client.script_flush()
    wait_until(lambda: settled(queue), "the rest")
    assert len(rig.handler.seen) == 200


def test_a_primary_that_became_a_replica_is_waited_for(
    outage: Any, free_port: int, caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    server, queue, worked = outage
    push(queue, 100)
    rig.handler.behave = lambda message: asyncio.sleep(0.005)
    made = rig.work(worked, concurrency=2)
    rig.handler.wait_for(20)
    with redis.Redis.from_url(server.url) as client:
        client.replicaof("127.0.0.1", str(free_port))  # no server is there, so it keeps its data
        wait_until(lambda: "take failed" in caplog.text, "a take to be refused for good")
        assert made.running
        client.replicaof("NO", "ONE")
    wait_until(lambda: settled(queue), "the rest", 40)
    # A refused take has changed nothing: not even the acks that travelled with it are lost.
    assert sorted(rig.handler.seen) == sorted(f"m{n}" for n in range(100))
