"""`AsyncTasks`: functions that are tasks of a queue, on asyncio."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec
import orjson
import redis.asyncio
from msgspec.structs import astuple

from ackq.config import Seconds, check_seconds
from ackq.core.client_async import Closable, client_of
from ackq.core.encode import encode
from ackq.core.io.outside import SYSTEM
from ackq.core.names import check_name
from ackq.errors import ConfigurationError
from ackq.queue.client_async import AsyncQueue
from ackq.queue.group_names import grouped
from ackq.queue.messages import Message, Pushed
from ackq.queue.schedules import CatchUp, zone_of
from ackq.queue.unique import Uniqueness
from ackq.setting_types import checked
from ackq.sharded import AsyncShardedQueue
from ackq.tasks.calls_async import call, call_through, entered, is_middleware
from ackq.tasks.definition import Definition, Options, Settings, check_options, define
from ackq.tasks.intake import Dropped, Intake, ended
from ackq.tasks.wire import check_source, expiry, written
from ackq.worker import AsyncWorker, Schedule
from ackq.worker.batch import Batch, Failed, failures_of
from ackq.worker.policy import MAX_RECEIVES, Terms
from ackq.worker.verdicts import Reject

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
#: Calls the handler, or pushes; awaited on asyncio.
Call = Callable[[], Awaitable[Any]]
#: No keywords.
NONE: Mapping[str, Any] = {}
#: Longest message of a task that is called inline, in bytes.
MAX_INLINE = 512 * 1024 * 1024
Middleware = TypeVar("Middleware", bound=Callable[[Message, Any], Awaitable[Any]])
PushMiddleware = TypeVar("PushMiddleware", bound=Callable[[dict[str, Any], Any], Awaitable[Any]])


class AsyncTask(Generic[P, R]):
    """A function that can also be pushed. Calling it is an ordinary call, here and now.

    Made by `AsyncTasks.task`.
    """

    def __init__(self, tasks: AsyncTasks, definition: Definition, function: Callable[P, R]) -> None:
        self._tasks = tasks
        self._definition = definition
        self._function = function
        self._options: Mapping[str, Any] = definition.options
        update_wrapper(self, function)

    @property
    def name(self) -> str:
        """The name of the task in messages."""
        return self._definition.name

    @property
    def definition(self) -> Definition:
        """What is known of the task."""
        return self._definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now. Within a lifespan, parts of its state are filled in.

        Raises:
            TypeError: an argument that the worker fills in is not given, and there is no lifespan.
        """
        definition = self._definition
        if definition.arguments.injected:
            given = definition.filled(args, kwargs, self._tasks.state)
            return self._function(*args, **given)
        return self._function(*args, **kwargs)

    async def push(self, *args: P.args, **kwargs: P.kwargs) -> Pushed:
        """Push a message that makes a worker call the function with these arguments.

        Guarantees, cost and errors are those of `ackq.AsyncQueue.push`.

        Returns:
            The id of the message, which also says whether this push ``stored`` it.

        Raises:
            InvalidArguments: they do not fit the signature; nothing was sent.
        """
        definition = self._definition
        arguments = definition.arguments.encode(args, kwargs)
        options = definition.with_group(arguments, self._options)
        return await self._tasks.store(definition, arguments, options)

    def options(self, **options: Unpack[Options]) -> Self:
        """Return the task with options for its pushes; those of this one are kept.

        Args:
            options: keyword arguments of `ackq.AsyncQueue.push`, such as ``delay``, ``at``,
                ``dedup`` and ``confirm``; ``id``, that of the message, by default a random one;
                and ``expires``, seconds from the push, or from the time for which it is delayed,
                after which the message is no longer handled, by default the task's.

        Raises:
            ConfigurationError: one of them does not exist or is out of range, or two of them
                contradict each other.
        """
        keep = {"id", "expires"}
        given = {
            name: each for name, each in options.items() if each is not None or name not in keep
        }
        other = copy.copy(self)
        other._options = check_options({**self._options, **given})
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._definition.queue!r}>"


class AsyncBatchTask(AsyncTask[[T], R]):
    """A function that gets what was pushed one by one as a list. Made by `AsyncTasks.batch`."""

    def __call__(self, items: list[T], *others: Any, **keywords: Any) -> R:  # type: ignore[override]
        """Call the function here and now; see `AsyncTask`."""
        call: Callable[..., R] = super().__call__
        return call(items, *others, **keywords)


class AsyncTasks(Closable):
    """Functions that are tasks: pushed with their arguments, and called by a worker.

    Guarantee: at least once, as for every worker. Arguments are checked against the signature when
    they are pushed and when they are taken. A message that does not fit becomes a dead letter at
    once. Messages are settled outside of tasks and middleware, so neither can ack a message whose
    lease is lost.

    For the tasks of one event loop.
    """

    @checked
    def __init__(
        self,
        server: str
        | redis.asyncio.Redis
        | redis.asyncio.RedisCluster
        | AsyncQueue
        | AsyncShardedQueue
        | None = None,
        *,
        queue: str | None = None,
        lifespan: Callable[[], Any] | None = None,
        source: str | None = None,
        unknown_for: Seconds = 600.0,
    ) -> None:
        """Prepare; nothing is sent, and no server is started, before the first push.

        Args:
            server: a URL, a client, a queue, whose settings then apply to all queues of the tasks,
                or None for the embedded server.
            queue: the name of the queue of tasks that name none. Defaults to the name of the queue
                that was given, or "jobs".
            lifespan: returns a context manager, which a worker enters before its first message
                and leaves after its last. What it yields is `state`. An asynchronous or a
                synchronous one.
            source: pushes write CloudEvents with this ``source``, a URI. Defaults to None:
                messages have the members ``id``, ``task`` and ``args``. Workers read both.
            unknown_for: seconds for which a message is given back, uncounted, if its task is not
                known here: another version of the program may know it. Then it is dead.
                Defaults to 600.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        given = server if isinstance(server, AsyncQueue | AsyncShardedQueue) else None
        if isinstance(server, str):
            client_of(server)  # refuses a wrong one
        self._server: Any = server
        self._kind: Any = AsyncQueue if given is None else type(given)
        self._settings = {} if given is None else given.config.settings()
        self._queues: dict[str, Any] = {} if given is None else {given.name: given}
        usual = "jobs" if given is None else given.name
        check_name(usual if queue is None else queue)
        self._default = usual if queue is None else queue
        self._lifespan = lifespan
        self._source = None if source is None else check_source(source)
        self._definitions: dict[str, Definition] = {}
        self._intake = Intake(self._definitions, check_seconds(unknown_for, "unknown_for"))
        self._middleware: list[Callable[..., Any]] = []
        self._push_middleware: list[Callable[..., Any]] = []
        self._schedules: list[Schedule] = []
        self._inline = False
        #: What `redirected` puts before the names of queues.
        self._prefix = ""
        #: What the lifespan yielded; None outside of it.
        self.state: Any = None

    # --- defining ---------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[P, R], /) -> AsyncTask[P, R]: ...

    @overload
    def task(
        self,
        function: None = None,
        /,
        **settings: Unpack[Settings],
    ) -> Callable[[Callable[P, R]], AsyncTask[P, R]]: ...

    def task(self, function: Any = None, /, **settings: Any) -> Any:
        """Make a function a task, as the decorator ``@tasks.task`` or ``@tasks.task(…)``.

        The function may be synchronous or asynchronous. Its arguments travel by name.

        Args:
            function: the function.
            name: in messages. Defaults to its module and name, as in "images.resize".
            queue: the name of the queue. Defaults to that of these tasks.
            max_receives: deliveries after which a message is dead. Defaults to the queue's, or 25.
            time_limit: seconds that the function may take. Defaults to the worker's.
            retry: which exceptions are retried, and when. Defaults to all of them.
            rate_limit: how many messages all workers together may start. No other task can share
                its queue, so that a message that has to wait is not taken at all.
            record_errors: how much of an error to store. Defaults to the queue's.
            expires: seconds from the push, or from the time for which the push is delayed, after
                which a message is no longer handled.
            on_expiry: "dead" makes an expired message a dead letter, "drop" acks it. Defaults to
                "dead".
            breaker: after failures in a row, the messages of the task pause.
            group: the name of a parameter: its argument, a text or an integer, is the group of the
                message. The queue needs groups. Defaults to None: a push may name the group.
            options: of each push; see `AsyncTask.options`.

        Raises:
            ConfigurationError: a setting is out of range, the signature cannot be used,
                another function has the name, or a task cannot share the queue.
        """
        if settings.get("queue") is None:
            settings["queue"] = self._default
        add = partial(self._add, AsyncTask, None, settings)
        return add if function is None else add(function)

    @checked
    def batch(
        self, size: int = 100, wait: Seconds = 0.1, **settings: Unpack[Settings]
    ) -> Callable[[Callable[Concatenate[list[T], P], R]], AsyncBatchTask[T, R]]:
        """Make a function a task that handles many messages at once, as a decorator.

        With ``def store(rows: list[Row])``, each ``store.push(row)`` stores a message, and a worker
        calls the function with the rows of up to ``size`` messages. Returning acks them all,
        raising fails them all. Raise `Failed` if only some failed: a further parameter ``messages:
        list[Message]`` gets the messages, in the order of the rows. Rows that do not fit the type
        become dead letters and are not in the list. A message at its last permitted delivery is
        alone in its batch.

        The time limit applies to the whole batch. Middleware runs once for it, with its first
        message.

        Args:
            size: the most messages, 1 to 10000. Defaults to 100.
            wait: seconds that the first message waits for others, 0 to 60. Defaults to 0.1.
            settings: see `task`. No other task can share the queue, which defaults to the name of
                the task.

        Raises:
            ConfigurationError: see `task`.
        """
        return partial(self._add, AsyncBatchTask, Batch(size, wait), settings)

    def _add(
        self,
        kind: Any,
        batch: Batch | None,
        settings: Mapping[str, Any],
        function: Callable[..., Any],
    ) -> Any:
        definition = define(function, batch, **settings)
        if not definition.queue.startswith(self._prefix):
            definition.queue = self._prefix + definition.queue
        before = self._definitions.get(definition.name)
        if before is not None and not _is_again(before.function, function):
            raise ConfigurationError(
                f"two functions are the task {definition.name!r}: give one another name="
            )
        for other in self.definitions:
            if other.queue == definition.queue and other is not before:
                _check_sharing(definition, other)
        self._definitions[definition.name] = definition
        return kind(self, definition, function)

    @checked
    def schedule(
        self,
        cron: str | None = None,
        *,
        every: Seconds | None = None,
        zone: str = "UTC",
        args: Mapping[str, Any] | None = None,
        name: str | None = None,
        catch_up: CatchUp = "none",
        unique: Uniqueness | None = None,
    ) -> Callable[[AsyncTask[P, R]], AsyncTask[P, R]]:
        """Let workers push a task at every tick, as the decorator above ``@tasks.task``.

        Each tick is pushed once, however many workers there are. See `ackq.worker.Schedule`.

        Args:
            cron: five fields of cron, six if the first is for seconds, or a name such as
                ``@daily``. Or give ``every``.
            every: seconds from tick to tick, counted from the epoch.
            zone: the time zone of ``cron``, as in "Europe/Berlin". Defaults to UTC.
            args: the arguments, by name. Defaults to none.
            name: of the schedule in the task's queue. Defaults to the name of the task. If a task
                has several schedules, give each another one.
            catch_up: "last" pushes the last tick that was missed while no worker ran. Defaults to
                "none".
            unique: push nothing for a tick while the message of an earlier one is in the queue:
                "done", or "taken" to push again once it is taken. Defaults to None: push every
                tick.

        Raises:
            ConfigurationError: a setting is invalid.
            InvalidArguments: the arguments do not fit the signature.
        """

        def add(task: AsyncTask[P, R]) -> AsyncTask[P, R]:
            if not isinstance(task, AsyncTask):
                raise ConfigurationError(
                    f"@tasks.schedule(…) goes above @tasks.task, and {task!r} is no task yet"
                )
            definition = task.definition
            encoded = definition.arguments.encode((), dict(args or {}))

            def message(tick: datetime) -> Any:
                now = tick.timestamp()
                expires_at = expiry(definition.expires, now, {})
                body = written(definition.name, encoded, None, expires_at, now, self._source)
                named = definition.with_group(encoded, definition.options).get("group")
                groups = self._settings.get("groups")
                return body if groups is None else grouped(body, groups.field, named)

            title, queue = definition.name if name is None else name, definition.queue
            times = {"every": every, "cron": cron, "tz": zone_of(zone)}
            rules = {"catch_up": catch_up, "unique": unique}
            if any((one.name, one.queue) == (title, queue) for one in self._schedules):
                raise ConfigurationError(
                    f"two schedules are called {title!r}: give one another name="
                )
            schedule = Schedule(title, message, queue=queue, **times, **rules)  # type: ignore[arg-type]
            self._schedules.append(schedule)
            return task

        return add

    def middleware(self, function: Middleware) -> Middleware:
        """Call a function around each task, as a decorator: ``def m(message, call)``.

        It returns what ``call()`` returns, or raises what it raises. The first middleware is the
        outermost. The message is settled after all of them have ended.

        Raises:
            ConfigurationError: the function is not asynchronous.
        """
        self._middleware.append(is_middleware(function))
        return function

    def push_middleware(self, function: PushMiddleware) -> PushMiddleware:
        """Call a function around each push, as a decorator: ``def m(message, call)``.

        It may change the message, a dict, and returns what ``call()`` returns: the id.

        Raises:
            ConfigurationError: the function is not asynchronous.
        """
        self._push_middleware.append(is_middleware(function))
        return function

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The tasks, in the order of their definition."""
        return tuple(self._definitions.values())

    # --- pushing ----------------------------------------------------------------------------

    def queue(self, name: str | None = None) -> AsyncQueue:
        """Return a queue of the tasks. It is opened at the first call.

        Args:
            name: of the queue. Defaults to the queue of tasks that name none.
        """
        if self._inline and not self._prefix:
            raise ConfigurationError(
                "within inline(), tasks have no queues: push tasks, or connect them to the server"
                " of tests by the fixture ackq_tasks"
            )
        name = name or self._default
        if name not in self._queues:
            self._queues[name] = self._open(name)
        opened: AsyncQueue = self._queues[name]
        return opened

    def _open(self, name: str) -> Any:
        beside = next(iter(self._queues.values()), None)
        if beside is None:
            server = self._server
            client = client_of(server) if server is None or isinstance(server, str) else server
            return self._kind(client, name, **self._settings)
        if isinstance(beside, AsyncQueue):
            return beside.beside(name)
        raise ConfigurationError(
            f"these tasks have the sharded queue {beside.name!r}, not {name!r}: make other tasks"
            " for other queues"
        )

    def connect(self, url: str) -> None:
        """Use the server at another URL, with the settings of the queue that was given.

        Args:
            url: as in `redis.asyncio.Redis.from_url`.
        """
        self._server = url
        self._queues.clear()

    @contextmanager
    def redirected(self, url: str, prefix: str, queues: dict[str, Any]) -> Iterator[None]:
        """Within this block, use other queues, on a server of tests: see `ackq.testing.connected`.

        Args:
            url: of the server.
            prefix: put before the names of all queues.
            queues: gets the queues that are opened.
        """
        before = self._server, self._queues, self._prefix
        self._server, self._queues, self._prefix = url, queues, prefix + self._prefix
        self._rename(lambda name: prefix + name)
        try:
            yield
        finally:
            self._rename(lambda name: name.removeprefix(prefix))
            self._server, self._queues, self._prefix = before

    def _rename(self, renamed: Callable[[str], str]) -> None:
        self._default = renamed(self._default)
        for definition in self.definitions:
            definition.queue = renamed(definition.queue)
        self._schedules = [
            replace(each, queue=each.queue and renamed(each.queue)) for each in self._schedules
        ]

    async def store(
        self, definition: Definition, arguments: bytes, options: Mapping[str, Any]
    ) -> Pushed:
        """Push the message of a task, through the middleware.

        Args:
            definition: of the task.
            arguments: as JSON.
            options: of the push.
        """
        others = dict(options)
        now, expires = time.time(), others.pop("expires", definition.expires)
        id, expires_at = others.pop("id", None), expiry(expires, now, others)
        message = written(definition.name, arguments, id, expires_at, now, self._source)
        if self._inline:
            push: Any = partial(self._handle_now, definition.queue)
        else:
            push = self.queue(definition.queue).push
        if not self._push_middleware:
            stored: Pushed = await push(message, **others)
            return stored
        # Unlike orjson, this keeps integers over 64 bits, which the push then refuses.
        plain: dict[str, Any] = msgspec.json.decode(orjson.dumps(message))
        innermost = partial(push, plain, **others)
        pushed: Pushed = await call_through(self._push_middleware, plain, innermost)
        return pushed

    # --- handling ---------------------------------------------------------------------------

    async def handle(self, message: Message) -> None:
        """Call the task that a message names: the handler of the worker.

        Raises:
            Verdict: the message is to be settled otherwise than by an ack.
            BaseException: what the task raised.
        """
        try:
            definition, arguments = self._intake.admit(message)
        except Dropped:
            return
        if definition.batch is not None:
            if errors := await self._errors_of([message]):
                raise errors[message]
        elif self._middleware or definition.circuit or not definition.arguments.by_position:
            await self._run(definition, {message: arguments})
        else:
            await call(definition, message, astuple(arguments), NONE)  # as `_run`, for most tasks

    async def handle_batch(self, messages: Sequence[Message]) -> None:
        """Call the batch task of these messages: the handler of the worker for its queue.

        Raises:
            Failed: some or all messages must not be acked.
        """
        if errors := await self._errors_of(messages):
            raise Failed(errors)

    async def _errors_of(self, messages: Sequence[Message]) -> dict[Message, BaseException]:
        """Call the batch tasks of these messages. Return what the failed ones failed with."""
        errors: dict[Message, BaseException] = {}
        groups: dict[Definition, dict[Message, Any]] = {}
        for message in messages:
            try:
                definition, arguments = self._intake.admit(message)
                if definition.batch is None:
                    raise Reject(f"the queue of task {definition.name!r} is {definition.queue!r}")
            except Dropped:
                continue
            except BaseException as error:
                errors[message] = error
            else:
                groups.setdefault(definition, {})[message] = arguments
        for definition, group in groups.items():
            try:
                await self._run(definition, group)
            except BaseException as error:
                errors |= failures_of(group, error)
        return errors

    async def _run(self, definition: Definition, admitted: Mapping[Message, Any]) -> None:
        """Call the task with the arguments of a message or of a batch, within the middleware."""
        keywords = definition.arguments.joined(list(admitted.values()))
        if definition.arguments.injected:
            keywords |= definition.parameters(list(admitted), self.state)
        message = next(iter(admitted))
        innermost = partial(call, definition, message, (), keywords)
        try:
            await call_through(self._middleware, message, innermost)
        except BaseException as error:
            ended(definition, message, error)
            raise
        ended(definition, message, None)

    async def _handle_now(self, queue: str, message: dict[str, Any], **options: Any) -> Pushed:
        """Handle a message instead of pushing it. Options, such as a delay, have no effect."""
        id, body = encode(message, MAX_INLINE, SYSTEM)
        await self.handle(Message(queue, id.encode(), body, 0, 1))
        return Pushed(id)

    @asynccontextmanager
    async def inline(self) -> AsyncIterator[None]:
        """Within this block, a push calls its task here and now. No server is needed; for tests.

        Arguments are encoded, checked and decoded as usual, and middleware runs. The push raises
        whatever the task raises, `Reject` and other verdicts included. Delays are ignored. The
        lifespan is entered for the block. `queue` raises an error, so that nothing reaches the
        server of the tasks.
        """
        before, self._inline = self._inline, True
        try:
            async with self.alive():
                yield
        finally:
            self._inline = before

    def worker(self, queues: Iterable[Any] | None = None, **settings: Any) -> AsyncTasksWorker:
        """Return a worker for the tasks.

        Args:
            queues: to take from, or a mapping of them to weights. Defaults to all that the tasks
                name.
            settings: of `ackq.worker.AsyncWorker`.

        Raises:
            ConfigurationError: there is no task, an annotation cannot be resolved, or a setting is
                out of range.
        """
        if not self._definitions:
            raise ConfigurationError("there are no tasks: decorate a function with @tasks.task")
        for definition in self.definitions:
            definition.arguments.check()
        if queues is None:
            queues = [self.queue(name) for name in self.queue_names]
        limit = settings.pop("max_receives", MAX_RECEIVES)
        limited: Any = [self._limited(queue, limit) for queue in queues]
        if isinstance(queues, Mapping):
            limited = dict(zip(limited, queues.values(), strict=True))
        names = [queue.name for queue in limited]
        mine = [schedule for schedule in self._schedules if schedule.queue in names]
        settings["schedules"] = (*settings.get("schedules", ()), *mine)
        taken = [each for each in self.definitions if each.queue in names]
        batches = {each.queue: each.batch for each in taken if each.batch is not None}
        given = settings.pop("rate_limit", None)
        rates = {} if given is None else dict.fromkeys(names, given)
        if isinstance(given, Mapping):
            rates = dict(given)
        rates |= {each.queue: each.rate_limit for each in taken if each.rate_limit is not None}
        return AsyncTasksWorker(
            self,
            limited,
            max_receives=limit,
            rate_limit=rates,
            batch=batches,
            terms=self._terms,
            **settings,
        )

    def _terms(self, message: Message) -> Terms | None:
        definition = self._definitions.get(message.task or "")
        return definition.terms if definition is not None else None

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The names of the queues of all tasks, without duplicates."""
        return tuple(dict.fromkeys(each.queue for each in self.definitions))

    @property
    def time_limits(self) -> dict[str, float]:
        """The time limits of tasks that have one of their own, by the name of the task."""
        limits = {name: each.terms.time_limit for name, each in self._definitions.items()}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def _limited(self, queue: Any, limit: int | None) -> Any:
        """Return the queue with the limit that all of its tasks have, if it is another one."""
        usual = queue.config.max_receives or limit
        mine = [each.terms for each in self.definitions if each.queue == queue.name]
        limits = {terms.max_receives or usual for terms in mine}
        if len(limits) != 1 or limits == {usual}:
            return queue
        return queue.with_config(max_receives=limits.pop())

    async def run(self, *, drain: bool = False, **settings: Any) -> None:
        """Handle messages until the worker is stopped; see `ackq.worker.AsyncWorker.run`.

        Args:
            drain: stop when no queue has ready messages. Defaults to False.
            settings: of `ackq.worker.AsyncWorker`.
        """
        await self.worker(**settings).run(drain=drain)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Enter the lifespan for this block, if there is one."""
        if self._lifespan is None:
            yield
            return
        async with entered(self._lifespan) as self.state:
            try:
                yield
            finally:
                self.state = None

    async def aclose(self) -> None:
        """Close the connections of the queues."""
        for queue in self._queues.values():
            await queue.aclose()


class AsyncTasksWorker(AsyncWorker):
    """The worker of `AsyncTasks`: it runs within their lifespan."""

    def __init__(self, tasks: AsyncTasks, queues: Any, **settings: Any) -> None:
        self._tasks = tasks
        super().__init__(queues, tasks.handle, batch_handler=tasks.handle_batch, **settings)
        self._state.handling.own_limits = True

    async def run(self, *, drain: bool = False) -> None:
        """Work within the lifespan; see `ackq.worker.AsyncWorker.run`."""
        async with self._tasks.alive():
            await super().run(drain=drain)


def _check_sharing(*both: Definition) -> None:
    """Raise an error if one of two tasks of a queue needs a queue of its own."""
    for one in both:
        if one.batch is not None or one.rate_limit is not None:
            what = "has a rate limit" if one.batch is None else "gets batches"
            names = " and ".join(repr(each.name) for each in both)
            raise ConfigurationError(
                f"task {one.name!r} {what}, so it needs a queue of its own, such as"
                f" queue={one.name!r}: {names} share {one.queue!r}"
            )


def _is_again(*both: Any) -> bool:
    """Return whether one function is the other, defined again as by a reload or in a notebook."""
    one, other = map(inspect.unwrap, both)
    if (one.__module__, one.__qualname__) != (other.__module__, other.__qualname__):
        return False
    codes: list[Any] = [getattr(each, "__code__", None) for each in (one, other)]
    if None in codes or codes[0].co_filename != codes[1].co_filename:
        return True
    return bool(codes[0].co_firstlineno == codes[1].co_firstlineno)
