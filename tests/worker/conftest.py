"""Fixtures of the worker tests: queues on one plain server, and workers that run beside the test.

Handlers are asynchronous in most tests: in threads each runs in a loop of its thread's own, so
that one test body serves both runtimes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import redis
import redis.asyncio

import ackq
from ackq.sharded import ShardedQueue
from ackq.worker import AsyncWorker, Worker
from tests.facade import AsSync, Portal
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.conftest import QueueUnderTest


class Work:
    """A worker that runs in a thread, or in the portal's loop."""

    def __init__(self, worker: Any, portal: Portal) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self._portal = portal
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self.drain(drain=False)
        except BaseException as error:
            self.error = error

    def drain(self, *, drain: bool = True) -> None:
        if isinstance(self.worker, AsyncWorker):
            self._portal.call(self.worker.run, drain=drain)
        else:
            self.worker.run(drain=drain)

    def stop(self) -> None:
        self.worker.stop()

    def join(self, timeout: float = 15) -> None:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the worker did not end"

    @property
    def running(self) -> bool:
        return self._thread.is_alive()


class QueueOf(Protocol):
    """The type of `queue_of`. An asynchronous queue is called like its blocking twin."""

    def __call__(self, suffix: str = ..., **settings: Any) -> QueueUnderTest: ...


class StartWorker(Protocol):
    """The type of `work`."""

    def __call__(
        self, queues: Any, handler: Any, *, start: bool = ..., **settings: Any
    ) -> Work: ...


@pytest.fixture
def queue_of(
    plain_client: redis.Redis, flavour: str, portal: Portal, token: str
) -> Iterator[QueueOf]:
    """``queue_of("suffix", **settings)``: a queue in the test's flavour."""
    settings = plain_client.connection_pool.connection_kwargs
    address = {"host": settings["host"], "port": settings["port"]}
    with contextlib.ExitStack() as stack:

        def make(suffix: str = "", **settings: Any) -> Any:
            if flavour == "sync":
                queue: Any = ackq.Queue(redis.Redis(**address), token + suffix, **settings)
            else:
                client = redis.asyncio.Redis(**address)
                queue = AsSync(
                    portal, portal.call(ackq.AsyncQueue, client, token + suffix, **settings)
                )
            stack.callback(queue.close)
            return queue

        yield make


@pytest.fixture
def work(portal: Portal) -> Iterator[StartWorker]:
    """``work(queues, handler, **settings)``: a running worker, stopped after the test.

    With ``start=False`` it does not run yet.
    """
    started: list[Work] = []

    def make(queues: Any, handler: Any, *, start: bool = True, **settings: Any) -> Work:
        bare = _bare(queues)
        first = next(iter(bare)) if isinstance(bare, Sequence | dict) else bare
        kind: Any = Worker if isinstance(first, ackq.Queue | ShardedQueue) else AsyncWorker
        made = Work(kind(bare, handler, **settings), portal)
        if start:
            made.start()
            started.append(made)
        return made

    yield make
    for each in started:
        each.stop()
        each.stop()
    for each in started:
        each.join()
        assert each.error is None, each.error


def _bare(queues: Any) -> Any:
    if isinstance(queues, dict):
        return {_bare(queue): weight for queue, weight in queues.items()}
    if isinstance(queues, list):
        return [_bare(queue) for queue in queues]
    return queues._wrapped if isinstance(queues, AsSync) else queues


class Recorder:
    """A handler that records its messages and then calls `behave`, if a test has set it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.counts: dict[str, int] = {}
        self.running: set[str] = set()
        self.most = 0
        self.behave: Callable[[ackq.Message], Any] | None = None

    async def __call__(self, message: ackq.Message) -> None:
        self.seen.append(message.id)
        self.counts[message.id] = message.receive_count
        self.running.add(message.id)
        self.most = max(self.most, len(self.running))
        try:
            if self.behave is not None:
                result = self.behave(message)
                if result is not None:
                    await result
        finally:
            self.running.discard(message.id)

    def wait_for(self, count: int, timeout: float = 10) -> list[str]:
        wait_until(lambda: len(self.seen) >= count, f"{count} deliveries", timeout)
        return self.seen


@pytest.fixture
def handler() -> Recorder:
    return Recorder()


class Rig:
    """The queues, the workers and the handler of one test."""

    def __init__(self, queue_of: QueueOf, work: StartWorker, handler: Recorder) -> None:
        self.queue_of = queue_of
        self.handler = handler
        self._work = work

    def queue(self, count: int, prefix: str = "m", **settings: Any) -> QueueUnderTest:
        """Return a queue with ``count`` messages."""
        queue = self.queue_of(**settings)
        push(queue, count, prefix)
        return queue

    def work(self, queues: Any, handler: Any = None, **settings: Any) -> Work:
        """Return a running worker; by default its handler is the recorder."""
        return self._work(queues, handler or self.handler, **settings)


@pytest.fixture
def rig(queue_of: QueueOf, work: StartWorker, handler: Recorder) -> Rig:
    return Rig(queue_of, work, handler)


def push(queue: ackq.Queue, count: int, prefix: str = "m") -> list[str]:
    """Push ``count`` messages, and return their ids."""
    ids = [f"{prefix}{number}" for number in range(count)]
    queue.push_many([{"id": message_id} for message_id in ids])
    return ids


class Silencer:
    """Passes bytes on to a server until it goes silent: its connections stay open."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = self._listening.getsockname()[1]
        self.silent = threading.Event()

    def __enter__(self) -> Silencer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for each in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.silent.is_set():
                    target.sendall(data)


async def until(event: threading.Event) -> None:
    """Wait in a handler until the test sets the event."""
    while not event.is_set():
        await asyncio.sleep(0.005)


def settled(queue: ackq.Queue) -> bool:
    """Whether the queue holds nothing but dead letters."""
    stats = queue.stats()
    return not (stats.ready or stats.in_flight or stats.delayed)
