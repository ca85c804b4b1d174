"""Workers of threads and of tasks."""

import asyncio
import contextlib
import functools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import orjson

from ackq import Message
from ackq.worker import AsyncWorker, Backoff, Hooks, Worker
from tests.histories.log import Log, now
from tests.products import LEASE
from tests.products.bodies import checksum, id_of
from tests.products.loops import is_settled
from tests.products.product import Entries, Noted, Taken, value

from .listed import GroupsRig, ListRig
from .rig import Role

#: Seconds that a receipt may lie beyond the end that was asked for.
JITTER = 0.0656
_SETTINGS: dict[str, Any] = {
    "concurrency": 32,
    "max_receives": None,
    "backoff": Backoff(base=0.1, limit=0.2),
    "heartbeat": None,
    "grace": 5,
}


class Deliveries:
    """Logs deliveries of a worker."""

    def __init__(self, log: Log, label: str) -> None:
        self.log = log
        self._label = label

    def begin(self, message: Message, body: bytes | None = None) -> int:
        """Log a delivery, and return its token. The body is the message's, unless it is given."""
        body = message.body if body is None else body
        # The worker took it at some time before, which the end of its lease tells. Read in this
        # order, since this thread may be put off in between: rather too early than too late.
        monotonic = now()
        since = time.time() - monotonic
        taken = message.receipt / 1e6 - LEASE - JITTER - since
        got = [
            id_of(body),
            checksum(body),
            message.receive_count,
            message.receipt / 1e6,
        ]
        return self.log.took([got], by=self._label, begin=min(taken, monotonic))


class _Handler(Hooks):
    """Logs deliveries, and what the worker is about to do with them."""

    def __init__(self, log: Log, label: str) -> None:
        self._deliveries = Deliveries(log, label)
        self._tokens: dict[tuple[bytes, int], int] = {}  #: by lease: a handler gets a copy
        self._acks: dict[tuple[bytes, int], int] = {}
        self._unanswered: list[tuple[int, Message]] = []
        self._lock = threading.Lock()

    def begin(self, message: Message, body: bytes | None = None) -> float:
        """Log a delivery; return how long to work on it."""
        self._tokens[message.key, message.receipt] = self._deliveries.begin(message, body)
        draw = random.Random(f"{message.id} {message.receive_count}")
        if draw.random() < 0.05:
            return LEASE * draw.uniform(0.7, 2.7)
        return 0.0

    @contextlib.contextmanager
    def handling(self, message: Message) -> Iterator[None]:
        """Log the ack when the block ends: the next of its group may begin before `after`."""
        yield
        lease = message.key, message.receipt
        self._acks[lease] = self._deliveries.log.begin("ack", of=[self._tokens[lease]])

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        # A task is not called if its message is given back before.
        lease = message.key, message.receipt
        token, call = self._tokens.pop(lease, None), self._acks.pop(lease, None)
        if call is not None and outcome != "ack":
            self._deliveries.log.end(call, "fail")
            call = None
        if token is not None and outcome in ("ack", "nack", "release"):
            # It is settled within 50 ms, unless the process dies.
            call = call or self._deliveries.log.begin(outcome, of=[token])
            self.answered((call, message))

    def answered(self, *more: tuple[int, Message]) -> None:
        """Log the settles that were applied since."""
        with self._lock:
            sent, self._unanswered = [*self._unanswered, *more], []
            for call, message in sent:
                if is_settled(message):
                    self._deliveries.log.end(call, "ok")
                else:
                    self._unanswered.append((call, message))


class ThreadWorkerRig(ListRig):
    """`Worker`."""

    rules: ClassVar[dict[str, Any]] = {}

    async def serve(self, role: Role) -> None:
        handler = _Handler(role.log, role.label)

        def handle(message: Message) -> None:
            with handler.handling(message):
                if seconds := handler.begin(message):
                    time.sleep(seconds)
                _fail_at_times(message)

        worker = Worker(self.queue, handle, hooks=handler, **_SETTINGS)
        threading.Thread(target=stop_when_over, args=(role, worker), daemon=True).start()
        worker.run()
        handler.answered()


class TaskWorkerRig(ListRig):
    """`AsyncWorker`."""

    rules: ClassVar[dict[str, Any]] = {}

    async def serve(self, role: Role) -> None:
        handler = _Handler(role.log, role.label)

        async def handle(message: Message) -> None:
            with handler.handling(message):
                if seconds := handler.begin(message):
                    await asyncio.sleep(seconds)
                _fail_at_times(message)

        worker = AsyncWorker(self.queue, handle, hooks=handler, **_SETTINGS)
        stopping = asyncio.ensure_future(asyncio.to_thread(stop_when_over, role, worker))
        await worker.run()
        await stopping
        handler.answered()


class GroupsWorkerRig(ThreadWorkerRig, GroupsRig):
    """`Worker`, of a queue with groups."""

    rules: ClassVar[dict[str, Any]] = {"group_in_flight": 1}


class AsyncGroupsWorkerRig(TaskWorkerRig, GroupsRig):
    """`AsyncWorker`, of a queue with groups."""

    rules: ClassVar[dict[str, Any]] = {"group_in_flight": 1}


class TypedTasksRig(ListRig):
    """Tasks of `ackq.tasks`, whose messages have the pad of a body as an argument."""

    rules: ClassVar[dict[str, Any]] = {"spares": True}

    async def push(self, entries: Entries, delay: float, is_once: bool) -> Noted:
        about = {"delay": delay or None, "confirm": self.settings.get("confirm")}
        if len(entries) > 1:
            parts = [body.removesuffix(b"}").split(b",", 1) for _, body in entries]
            bodies = [b'%s,"task":"work","args":{%s}}' % (id, pad) for id, pad in parts]
            await value(self.queue.push_many(bodies, **about))
            return {}
        ((name, body),) = entries
        about["dedup"] = name if is_once else None
        pad = orjson.loads(body)["pad"]
        await value(self._task.options(id=name, **about).push(pad))
        return {}

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        got, more = await super().take(n, timeout, done)
        return [each._replace(body=_plain(each.body)) for each in got], more

    @functools.cached_property
    def _task(self) -> Any:
        """The task as a producer has it."""
        from ackq.tasks import AsyncTasks, Tasks  # which the previous release lacks

        tasks: Any = AsyncTasks if self.workload.asynchronous else Tasks
        return tasks(self.queue).task(name="work")(_work)

    async def serve(self, role: Role) -> None:
        from ackq.tasks import AsyncTasks, Tasks

        handler = _Handler(role.log, role.label)
        tasks: Any = AsyncTasks if self.workload.asynchronous else Tasks
        # The limit of deliveries is that of the task.
        defined = tasks(self.queue.with_config(max_receives=None))
        self._define(defined, handler)
        worker = defined.worker(hooks=handler, **_SETTINGS)
        threading.Thread(target=stop_when_over, args=(role, worker), daemon=True).start()
        await value(worker.run())
        handler.answered()

    def _define(self, tasks: Any, handler: _Handler) -> None:
        from ackq.tasks import injected

        most = self.settings.get("max_receives")

        def begin(message: Message, pad: str) -> float:
            return handler.begin(message, body_with(message.id, pad))

        def work(pad: str, message: Message = injected) -> None:
            time.sleep(begin(message, pad))
            _fail_at_times(message, most)

        async def work_async(pad: str, message: Message = injected) -> None:
            await asyncio.sleep(begin(message, pad))
            _fail_at_times(message, most)

        tasks.task(name="work", time_limit=2 * LEASE, max_receives=most)(
            work_async if self.workload.asynchronous else work
        )


class BatchTasksRig(TypedTasksRig):
    """A task that gets batches, of which some messages fail."""

    def _define(self, tasks: Any, handler: _Handler) -> None:
        from ackq.tasks import Failed, injected

        most = self.settings.get("max_receives")

        def begin(messages: list[Message], pads: list[str]) -> float:
            pairs = zip(messages, pads, strict=True)
            return max([handler.begin(each, body_with(each.id, pad)) for each, pad in pairs])

        def end(messages: list[Message]) -> None:
            errors: dict[Message, BaseException] = {}
            for message in messages:
                try:
                    _fail_at_times(message, most)
                except ValueError as error:
                    errors[message] = error
            if errors:
                raise Failed(errors)

        def work(pad: list[str], messages: list[Message] = injected) -> None:
            time.sleep(begin(messages, pad))
            end(messages)

        async def work_async(pad: list[str], messages: list[Message] = injected) -> None:
            await asyncio.sleep(begin(messages, pad))
            end(messages)

        settings: dict[str, Any] = {"queue": self.site.name, "max_receives": most}
        tasks.batch(5, 0.02, name="work", **settings)(
            work_async if self.workload.asynchronous else work
        )


def body_with(name: str, pad: str) -> bytes:
    """Return the body that a message has without a task."""
    return b'{"id":"%s","pad":"%s"}' % (name.encode(), pad.encode())


def _plain(body: bytes) -> bytes:
    message = orjson.loads(body)
    return body_with(message["id"], message["args"]["pad"])


def _work(pad: str) -> None:
    """What a producer knows of the task."""


def stop_when_over(role: Role, worker: Any) -> None:
    """Stop a worker when its role is over; to be run in a thread."""
    while not role.is_over():
        time.sleep(0.02)
    worker.stop()


def _fail_at_times(message: Message, max_receives: int | None = None) -> None:
    fails = random.Random(f"fails {message.id}").random() < 0.03
    if fails and (max_receives is not None or message.receive_count == 1):
        raise ValueError("fails the first time, or each time until it is dead")
