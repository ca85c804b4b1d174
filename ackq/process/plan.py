"""The settings of ``ackq work``, as a value that can be passed to a child process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

import orjson
import redis
from redis.exceptions import NoPermissionError

from ackq.config import PopFrom, QueueConfig, RateLimit, RecordErrors
from ackq.core.client import client_of
from ackq.core.io.outside import SYSTEM
from ackq.errors import ConfigurationError, redact
from ackq.ops.kinds import check_workable
from ackq.ops.sharded import groups_of, hides_list, is_sharded
from ackq.process.figures import ChildHealth
from ackq.process.held_messages import HeldMessages, Limits
from ackq.process.inbox import Inbox
from ackq.process.retirement import Recycling
from ackq.queue import record
from ackq.queue.client import Queue
from ackq.queue.client_async import AsyncQueue
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from ackq.worker.base import is_async
from ackq.worker.failures import Detail
from ackq.worker.health import Health
from ackq.worker.hooks import Hooks
from ackq.worker.logs import JsonFormatter, TextFormatter, location_of, log, reason_of
from ackq.worker.outages import Outages
from ackq.worker.policy import MAX_RECEIVES
from ackq.worker.presence import INTERVAL
from ackq.worker.schedule import Schedule
from ackq.worker.suspects import Suspects
from ackq.worker.tasks import AsyncWorker
from ackq.worker.threads import Worker

#: The environment variable that passes the plan: other users cannot read a process's environment.
PLAN_VARIABLE = "ACKQ_WORK_PLAN"
#: The queue to consume if the user names none, and the handler's module has none.
DEFAULT_QUEUE = "jobs"
#: Exit code of a process that an operator stopped through Redis. It is not replaced.
ORDERED_TO_STOP = 4
#: Exit code of a process that handled enough messages or uses too much memory. It is replaced.
RECYCLED = 5
#: What a process reports instead of a server that no URL names.
UNNAMED = "-"
#: Seconds between two tries to find out whether a queue is sharded.
LOOK_AGAIN = 0.5
#: Seconds without a suspect after which the process that runs them ends.
PATIENCE = 5.0
_SHARDED = (ShardedQueue, AsyncShardedQueue)
_QUEUES = (Queue, AsyncQueue, *_SHARDED)


def _ignore(report: str) -> None:
    """Tell nobody."""


def ending(code: int, reason: str = "") -> str:
    """Return what a process reports when it ends by itself."""
    return f"end {code} {reason}"


@runtime_checkable
class HasTasks(Protocol):
    """What `ackq.tasks.Tasks` and `AsyncTasks` have. Their package is not imported for others."""

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The queues of the tasks."""

    @property
    def time_limits(self) -> Mapping[str, float]:
        """The time limits of tasks that have one of their own, by the name of the task."""

    @property
    def definitions(self) -> tuple[Any, ...]:
        """The tasks."""

    handle: Callable[[Any], Any]

    def connect(self, url: str) -> None:
        """Use another server."""

    def queue(self, name: str) -> Any:
        """Return a queue."""

    def worker(self, queues: Any, **settings: Any) -> Any:
        """Return a worker."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One worker: its handler, its queues, and the settings of both."""

    handler: str  #: module:name
    #: All of them NAME, or all NAME=WEIGHT. Empty: the only queue of the handler's module, or jobs.
    queues: tuple[str, ...]
    url: str | None = None
    concurrency: int = 16
    prefetch: int = 200
    processes: int = 1
    #: Settings of the queues. None: as in a queue of that name in the handler's module, if any.
    lease: float | None = None
    max_receives: int | None = None  #: 0: no limit
    max_body: int | None = None
    pop_from: PopFrom | None = None
    time_field: str | None = None
    record_errors: RecordErrors | None = None
    time_limit: float | None = None
    kill_after: float | None = None  #: seconds over the time limit
    max_messages: int | None = None  #: of one process, which is then replaced
    max_memory: int | None = None  #: MiB of one process, which is then replaced
    grace: float = 30.0
    rate: str | None = None  #: count/seconds
    expiry_field: str | None = None
    schedules: str | None = None  #: module:name
    health_file: str | None = None
    health_port: int | None = None
    health_host: str = "127.0.0.1"
    figures_file: str | None = None  #: where a child writes what its handlers did
    held_file: str | None = None  #: where a child writes which messages it holds
    #: The seconds without a suspect after which the child that runs suspects ends.
    patience: float | None = None
    taker: str = ""  #: names a process, so that its parent can find what it took last
    is_spare: bool = False  #: only import the handler, and wait for another plan
    stalled_after: float = 60.0
    log_errors: Detail = "text"
    log_json: bool = False
    verbose: bool = False
    drain: bool = False
    name: str | None = None
    heartbeat: float = INTERVAL  #: 0: not listed
    history: bool = True

    def dumps(self) -> str:
        """Return the plan as text.

        Raises:
            ConfigurationError: a setting is not UTF-8.
        """
        try:
            return orjson.dumps(self).decode()
        except TypeError as error:
            raise ConfigurationError("an argument or option of ackq work is not UTF-8") from error

    @classmethod
    def loads(cls, text: str) -> Plan:
        """Return the plan that `dumps` wrote."""
        fields = orjson.loads(text)
        return cls(**{**fields, "queues": tuple(fields["queues"])})

    def replaced(self, **changes: Any) -> Plan:
        """Return a plan with some settings changed."""
        return dataclasses.replace(self, **changes)

    def health(self) -> Health | None:
        """Return the health check of the whole plan, or None if none is configured."""
        if self.health_file is None and self.health_port is None:
            return None
        return Health(
            file=self.health_file,
            port=self.health_port,
            host=self.health_host,
            stalled_after=self.stalled_after,
        )

    def of_child(self, health: Path, figures: Path, held: Path) -> Plan:
        """Return what one process does. It writes what its parent must know into these files."""
        return self.replaced(
            health_file=str(health),
            health_port=None,
            figures_file=str(figures) if self.health_port is not None else None,
            held_file=str(held),
        )

    def of_quarantine(self) -> Plan:
        """Return what the process does that runs suspects, one at a time."""
        return self.replaced(
            concurrency=1,
            prefetch=0,
            drain=False,
            max_messages=None,
            max_memory=None,
            patience=PATIENCE / 10 if self.drain else PATIENCE,
        )

    def run(self, report: Callable[[str], None] = _ignore) -> int:
        """Work until stopped: in tasks if the handler is async, otherwise in threads.

        Args:
            report: called with what the parent must know: the server, if it was not given, and
                the exit code before the process ends.

        Returns:
            The exit code: 0, `ORDERED_TO_STOP` or `RECYCLED`.

        Raises:
            ConfigurationError: the handler or schedules do not exist, or a setting is invalid.
        """
        SYSTEM.taker = self.taker
        handler = import_object(self.handler)
        has_tasks = isinstance(handler, HasTasks)
        if not has_tasks and not callable(handler):
            raise ConfigurationError(f"{self.handler} is neither a function nor Tasks")
        self._check_kill_after(handler)
        if has_tasks and self.url is not None:
            handler.connect(self.url)
        if not self.queues:
            names = handler.queue_names if has_tasks else (self._only_queue(),)
            if not names:
                raise ConfigurationError(f"{self.handler} has no tasks")
            return self.replaced(queues=names).run(report)
        recycling = None
        if self.max_messages is not None or self.max_memory is not None:
            recycling = Recycling(self.max_memory)
        settings = self._settings(recycling)
        if is_async(handler.handle if has_tasks else handler):
            code = asyncio.run(self._run_tasks(handler, settings, report))
        else:
            code = self._run_threads(handler, settings, report)
        log.info("stopped")
        code = RECYCLED if recycling is not None and recycling.ended else code
        report(ending(code))
        return code

    def _run_threads(self, handler: Any, settings: Any, report: Callable[[str], None]) -> int:
        opened = self._opened(handler, Queue, ShardedQueue)
        try:
            worker: Worker = self._worker(Worker, handler, opened, settings, report)
            worker.run(drain=self.drain)
        finally:
            for queue in opened:
                queue.close()
        return _code_of(worker, report)

    async def _run_tasks(self, handler: Any, settings: Any, report: Callable[[str], None]) -> int:
        opened = self._opened(handler, AsyncQueue, AsyncShardedQueue)
        try:
            worker: AsyncWorker = self._worker(AsyncWorker, handler, opened, settings, report)
            await worker.run(drain=self.drain)
        finally:
            for queue in opened:
                await queue.aclose()
        return _code_of(worker, report)

    def _worker(
        self,
        kind: Any,
        handler: Any,
        opened: Sequence[Any],
        settings: dict[str, Any],
        report: Callable[[str], None],
    ) -> Any:
        """Return a worker for these queues, after a report of what the parent cannot know."""
        if self.url is None:  # the tasks name the server, and the parent does not import them
            report(f"server {opened[0].url or UNNAMED}\n")
        settings["hooks"] = self._hooks(handler, opened)
        if isinstance(handler, HasTasks):
            worker = handler.worker(self._weighted(opened), **settings)
        else:
            worker = kind(self._weighted(opened), handler, **settings)
        worker.supervised = True
        if self.max_messages is not None:
            worker.handle_at_most(self.max_messages)
        if self.patience is not None:
            worker.take_only(Suspects(Inbox(self.patience)))
        self._log_start(opened)
        return worker

    def _log_start(self, opened: Sequence[Any]) -> None:
        """Log the server, the queues and the settings, after all settings were checked."""
        queues = []
        for text, queue in zip(self.queues, opened, strict=True):
            config = queue.config
            limit = config.max_receives or self._max_receives() or "unlimited"
            queues.append(f"{text} (lease {config.visibility_timeout:g} s, max receives {limit})")
        server = redact(self.url) if self.url else opened[0].address
        log.info(
            "working on %s at %s with %s: concurrency %d, processes %d, ackq %s",
            ", ".join(queues),
            server,
            self.handler,
            self.concurrency,
            self.processes,
            version("ackq"),
        )

    def _opened(self, handler: Any, usual: Any, sharded: Any) -> list[Any]:
        """Return the queues, of one class or the other. All settings are checked first."""
        if isinstance(handler, HasTasks):
            given = self._given()
            named = [handler.queue(name) for name, _ in self._queue_weights()]
            return [queue.with_config(**given) if given else queue for queue in named]
        opened = [self._open(usual, name) for name, _ in self._queue_weights()]
        for number, queue in enumerate(opened):
            name, (is_sharded, recorded) = queue.name, self._look_at(queue.name)
            if is_sharded:
                opened[number] = self._open(sharded, name, {} if queue.config.grouped else recorded)
            elif recorded and not queue.config.grouped:
                opened[number] = self._open(usual, name, recorded)
        return opened

    def _open(
        self, kind: Any, name: str, recorded: Mapping[str, Any] = MappingProxyType({})
    ) -> Any:
        settings = {**self._in_module(name), **self._given(), **recorded}
        settings["max_receives"] = settings.get("max_receives") or None
        return kind.from_url(self.url, name, **settings)

    def _given(self) -> dict[str, Any]:
        """Return the settings of queues that the user gave."""
        chosen = {
            "visibility_timeout": self.lease,
            "max_receives": self.max_receives,
            "max_body_bytes": self.max_body,
            "pop_from": self.pop_from,
            "time_field": self.time_field,
            "record_errors": self.record_errors,
        }
        given = {setting: value for setting, value in chosen.items() if value is not None}
        return given if self.max_receives != 0 else {**given, "max_receives": None}

    def _look_at(self, name: str) -> tuple[bool, dict[str, Any]]:
        """Return whether a queue is sharded, and what is recorded of its groups and its limit.

        While Redis is unreachable, keep trying.
        """
        outages = Outages(name, redact(self.url) if self.url else "the embedded server")
        while True:
            try:
                with client_of(self.url) as client:
                    sharded = is_sharded(client, name)
                    hides = sharded and hides_list(client, name)
                    recorded = groups_of(client, name) if sharded else {}
                    # A user that ackq acl made may not look, and the server would log that.
                    if not sharded and urlsplit(self.url or "").username in (None, "", "default"):
                        check_workable(client, name)
                if not sharded:
                    recorded = recorded_groups(self.url, name)
                break
            except (redis.RedisError, OSError) as error:
                outages.failed("look at the queue", error, time.monotonic())
            if self.health_file is not None:
                Path(self.health_file).touch()  # a restart would not help
            time.sleep(LOOK_AGAIN)
        outages.succeeded("look at the queue", time.monotonic())
        if hides:
            log.warning("%r is a sharded queue: nothing is taken from the list of that name", name)
        return sharded, recorded

    def _in_module(self, name: str) -> dict[str, Any]:
        """Return the settings of the queue of that name in the handler's module, if any."""
        queue = self._queues_in_module().get(name)
        return queue.config.settings() if queue is not None else {}

    def _queues_in_module(self) -> dict[str, Any]:
        """Return the queues of the handler's module by name, the first of each name."""
        module = sys.modules[self.handler.partition(":")[0]]
        queues = [value for value in vars(module).values() if isinstance(value, _QUEUES)]
        return {queue.name: queue for queue in reversed(queues)}

    def _only_queue(self) -> str:
        """Return the name of the queue to consume if the user named none."""
        names = sorted(self._queues_in_module())
        if len(names) > 1:
            listed = ", ".join(map(repr, names[:-1])) + f" and {names[-1]!r}"
            raise ConfigurationError(
                f"the module of {self.handler} has {len(names)} queues, {listed}: choose with -q"
            )
        return names[0] if names else DEFAULT_QUEUE

    def _max_receives(self) -> int | None:
        """Return the limit for queues that set none of their own."""
        return None if self.max_receives == 0 else MAX_RECEIVES

    def _settings(self, recycling: Recycling | None) -> dict[str, Any]:
        schedules = import_object(self.schedules) if self.schedules else ()
        if isinstance(schedules, Schedule):
            schedules = (schedules,)
        if not (
            isinstance(schedules, Sequence)
            and all(isinstance(schedule, Schedule) for schedule in schedules)
        ):
            raise ConfigurationError(f"{self.schedules} must be a Schedule or a list of them")
        health = self.health()
        if health is not None and self.health_port is None:
            assert self.health_file is not None
            health = ChildHealth(self.health_file, self.stalled_after, self.figures_file, recycling)
        return {
            "health": health,
            "concurrency": self.concurrency,
            "prefetch": self.prefetch,
            "max_receives": self._max_receives(),
            "time_limit": self.time_limit,
            "grace": self.grace,
            "rate_limit": parse_rate(self.rate),
            "expiry_field": self.expiry_field,
            "schedules": schedules,
            "log_errors": self.log_errors,
            "name": self.name,
            "heartbeat": self.heartbeat or None,
            "history": self.history,
        }

    def _check_kill_after(self, handler: Any) -> None:
        if self.kill_after is None or self.time_limit is not None:
            return
        if not (isinstance(handler, HasTasks) and handler.time_limits):
            raise ConfigurationError("--kill-after counts from the --time-limit: set that as well")

    def _hooks(self, handler: Any, opened: Sequence[Any]) -> list[Hooks]:
        """Return what writes down the messages that this process holds."""
        hooks: list[Hooks] = []
        if self.held_file is not None:
            after = math.inf if self.kill_after is None else self.kill_after
            usual = self.time_limit
            own = handler.time_limits if isinstance(handler, HasTasks) else {}
            tasks = handler.definitions if isinstance(handler, HasTasks) else ()
            limits = Limits(
                (math.inf if usual is None else usual) + after,
                {name: limit + after for name, limit in own.items()},
                {each.name: each.terms for each in tasks},
            )
            configs = {queue.name: self._with_limit(queue.config) for queue in opened}
            sharded = {each.name for each in opened if isinstance(each, _SHARDED)}
            sizes = [each.batch.size for each in tasks if each.batch is not None]
            running = self.concurrency * max(sizes, default=1)
            file = Path(self.held_file)
            hooks.append(HeldMessages(file, configs, sharded, running, self.prefetch, limits))
        return hooks

    def _with_limit(self, config: QueueConfig) -> QueueConfig:
        limit = config.max_receives or self._max_receives()
        return dataclasses.replace(config, max_receives=limit)

    def _queue_weights(self) -> list[tuple[str, float | None]]:
        named: list[tuple[str, float | None]] = []
        for text in self.queues:
            name, equals, weight = text.rpartition("=")
            try:
                named.append((name, float(weight)) if equals else (text, None))
            except ValueError:
                raise ConfigurationError(f"queue {text!r}: the weight is not a number") from None
        if len({weight is None for _, weight in named}) > 1:
            raise ConfigurationError("give every queue a weight, as in jobs=3, or none of them")
        return named

    def _weighted(self, opened: Sequence[Any]) -> Sequence[Any] | Mapping[Any, float]:
        weights = [weight for _, weight in self._queue_weights()]
        if weights[0] is None:
            return opened
        return dict(zip(opened, [weight or 0.0 for weight in weights], strict=True))


def _code_of(worker: Worker | AsyncWorker, report: Callable[[str], None]) -> int:
    """Return the exit code after a worker has ended; if its handlers still run, exit with it."""
    code = ORDERED_TO_STOP if worker.stopped_by_order else 0
    if worker.cut_short:
        report(ending(code))
        _exit_now(code)
    return code


def _exit_now(code: int) -> None:
    """End the process at once.

    Running handlers were signalled, and their messages were released. Without this, Python would
    wait without limit for a task that ignores cancellation or for an executor's thread.
    """
    log.info("stopped; handlers that still ran were abandoned")
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)


def recorded_groups(url: str | None, name: str) -> dict[str, Any]:
    """Return the groups and the limit that are recorded of a list queue; none if not permitted."""
    with Queue.from_url(url, name) as queue, contextlib.suppress(NoPermissionError):
        known = queue.execute(lambda spec: record.recorded(spec.keys))
        return {} if "pop_from" in known else known
    return {}


def import_object(path: str) -> Any:
    """Return the object at ``module:name``, looking in the current folder first.

    Raises:
        ConfigurationError: the module or name does not exist, or the module cannot be imported.
            The text is one line; for a failed import it has the file and line number.
    """
    module, _, name = path.partition(":")
    if not module or not name or module.startswith("."):
        raise ConfigurationError(f"{path!r}: write module:name")
    if sys.path[0] != (here := os.getcwd()):
        sys.path.insert(0, here)
    try:
        value = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        name_missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if name_missing is not None and (module + ".").startswith(name_missing + "."):
            raise ConfigurationError(f"{path}: there is no module {name_missing!r} here") from error
        reason = " ".join(reason_of(error).split())
        raise ConfigurationError(f"{path}: {reason}, at {_location_of(error)}") from error
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise ConfigurationError(f"{path}: module {module!r} has no {name!r}") from None
    return value


def _location_of(error: BaseException) -> str:
    """Return the file and line at which an import failed."""
    if isinstance(error, SyntaxError):  # its traceback does not contain the faulty line
        return f"{error.filename}:{error.lineno}"
    return location_of(error)


def parse_rate(text: str | None) -> RateLimit | None:
    """Parse "count/seconds", as in "100/60"; a count alone is per second."""
    if text is None:
        return None
    count, _, per = text.partition("/")
    try:
        return RateLimit(int(count), float(per or 1))
    except ValueError as error:
        raise ConfigurationError(f"rate {text!r}: write count/seconds, as in 100/60") from error


def set_up_logs(as_json: bool, verbose: bool) -> None:
    """Write the logs to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
