"""The settings and the stopping logic that `Worker` and `AsyncWorker` share."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Generic, Protocol, TypeVar

from ackq.config import MAX_MAX_RECEIVES, RateLimit, Seconds, check_integer, check_seconds
from ackq.core import observation
from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.setting_types import checked
from ackq.worker.batch import Batch, Collector, Pile
from ackq.worker.effects import Bell, Routine
from ackq.worker.failures import Detail, Failures
from ackq.worker.feed import Feed, Pace, QueueOrder
from ackq.worker.feeder import Taking
from ackq.worker.forks import settle_here
from ackq.worker.health import Health
from ackq.worker.hooks import Hooks, Supervised
from ackq.worker.hooks import check as check_hooks
from ackq.worker.lane import Lane, is_sharded
from ackq.worker.logs import log
from ackq.worker.minutes import Minutes
from ackq.worker.policy import MAX_RECEIVES, Backoff, Terms
from ackq.worker.presence import INTERVAL, Presence
from ackq.worker.schedule import Schedule, Schedules
from ackq.worker.slot import Slot
from ackq.worker.state import Handling, Quota, State
from ackq.worker.suspects import Suspects
from ackq.worker.upkeep import upkeep
from ackq.worker.verdicts import check_handler

Q = TypeVar("Q")
S = TypeVar("S")
T = TypeVar("T")

#: Seconds between two rounds of settling: no ack waits longer while the server answers.
UPKEEP_INTERVAL = 0.05
#: Seconds for which a stopping worker still tries to settle finished messages.
SHUTDOWN_TIMEOUT = 5.0


class Service(Protocol):
    """A part of a worker. It is made with its settings, and begins when the worker runs."""

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Begin. Return the routines to run, each in a thread or task of its own.

        Args:
            state: of the worker.
            bell: makes a bell for a routine.
        """

    def end(self) -> None:
        """Let the routines end soon. Safe to call from any thread."""


class BaseWorker(Generic[Q, S]):
    """The settings and state of a worker."""

    #: The classes of queues that the worker takes from, the usual one first.
    _takes_from: tuple[type, type]

    @checked
    def __init__(
        self,
        queues: (
            Q
            | S
            | Sequence[Q | S]
            # A mapping is invariant in its keys.
            | Mapping[Q, float]
            | Mapping[S, float]
            | Mapping[Q | S, float]
        ),
        handler: Callable[[Message], Any] | Callable[[list[Message]], Any],
        *,
        concurrency: int = 16,
        prefetch: int = 200,
        max_receives: int | None = MAX_RECEIVES,
        time_limit: Seconds | None = None,
        grace: Seconds = 30.0,
        backoff: Backoff | None = None,
        rate_limit: RateLimit | Mapping[str, RateLimit] | None = None,
        expiry_field: str | None = None,
        batch: Batch | Mapping[str, Batch] | None = None,
        batch_handler: Callable[[list[Message]], Any] | None = None,
        hooks: Hooks | Sequence[Hooks] = (),
        health: Health | None = None,
        schedules: Sequence[Schedule] = (),
        log_errors: Detail = "text",
        name: str | None = None,
        heartbeat: Seconds | None = INTERVAL,
        history: bool = True,
        terms: Callable[[Message], Terms | None] | None = None,
    ) -> None:
        """Prepare to work; nothing is sent before `run`.

        Args:
            queues: one queue; or several, where the first that has messages always goes first;
                or a mapping of queues to weights, their shares while all have messages. The
                queues keep their settings. Leases are renewed for as long as a handler runs.
                A sharded queue counts as one queue. The worker is one of its
                consumers, and notices within a second that its number of shards has changed.
            handler: called with each `Message`, sync or async. Returning acks the message, raising
                nacks it with the backoff. Raise `Again`, `Reject` or `Release` to choose.
            concurrency: handlers that run at the same time, 1 to 10,000. Defaults to 16.
            prefetch: messages to hold beyond those being handled, 0 to 1000. At most a tenth of
                a second of work is held, so a slow handler gets none. Defaults to 200.
            max_receives: deliveries after which a message goes to the dead letters, for queues
                without a ``max_receives`` of their own; None: no limit. Defaults to 25.
            time_limit: seconds that a handler may take. Then ``message.timed_out`` is set, and an
                async handler is cancelled. A function in a thread cannot be stopped; its lease is
                renewed until it ends. Either way, the message has failed once when the handler
                ends. Defaults to None, no limit.
            grace: seconds that running handlers have to end after a stop. Defaults to 30.
            backoff: how long a failed message waits. Defaults to `Backoff`'s defaults.
            rate_limit: how many messages all workers of a queue together may take: one limit for
                each queue, or a mapping from queue names. Defaults to None.
            expiry_field: a field of the JSON body with the time, in seconds since the epoch,
                after which the message goes to the dead letters as "expired". Every body is
                then parsed. Defaults to None.
            batch: call the handler with a list of messages of one queue, sync or async. Returning
                acks them all, raising fails them all; raise `Failed` if only some failed. A message
                at its last permitted delivery is alone in its batch. ``concurrency`` is the number
                of batches, ``prefetch`` is not used. Or a mapping from names of queues: the handler
                gets single messages of the other queues. Defaults to None: one message at a time.
            batch_handler: called with the batches instead of ``handler``. Both are sync or both are
                async. Defaults to None.
            hooks: called for every message; see `Hooks`.
            health: reports whether work is stuck; see `Health`. Defaults to None.
            schedules: messages to push when due, once even if many workers have the schedule.
            log_errors: how much of a handler's error to log: "type" for its type, "text" to add
                its text, which may quote the message, "traceback" to add its traceback as well.
                Defaults to "text".
            name: shown by ``ackq workers``, and names the worker in its orders; 1 to 100
                characters. Several workers may have one name. Defaults to None: the host, the
                process id and a random number.
            heartbeat: seconds between two reports of what the worker does, 0.05 to 600. They come
                from a thread or task of their own, one round trip for each queue. An operator's
                order is noticed with the next; a worker that died is listed for 6 intervals more.
                None: the worker is not listed. Defaults to 5.
            history: keep in Redis, once a minute and for a day, what the queues hold, what became
                of their messages, and how long handlers took, also by the field ``task`` of
                messages. Up to 170 KB for a busy queue, 1.8 MB with 20 tasks, and five short calls
                a minute. Defaults to True.
            terms: returns the terms of a redelivered message when it arrives, or None.
                Defaults to None.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        listed, weights = _listed(queues, self._takes_from)
        names = {queue.name for queue in listed}
        _check_names(names, rate_limit, batch, schedules)
        check_integer(concurrency, "concurrency", 1, 10_000)
        check_integer(prefetch, "prefetch", 0, 1000)
        self._grace = check_seconds(grace, "grace", zero=True)
        if max_receives is not None:
            check_integer(max_receives, "max_receives", 1, MAX_MAX_RECEIVES)
        if time_limit is not None:
            time_limit = check_seconds(time_limit, "time_limit")
        check_handler(handler, "handler")
        if batch_handler is not None:
            check_handler(batch_handler, "batch_handler")
        self._handler: Callable[[Any], Any] = handler
        self._batch_handler: Callable[[Any], Any] = batch_handler or handler
        #: What brings work, and ends when the worker stops.
        self._sources: tuple[Service, ...] = (Taking(), Schedules(schedules), Suspects())
        self._presence = Presence(name, heartbeat, self.stop)
        #: What reports what the worker does, and ends after everything is settled.
        self._reports: tuple[Service, ...] = (self._presence, Minutes(history))
        self._health = health
        #: Whether `run` ended without waiting for handlers that still ran.
        self.cut_short = False
        #: Whether a parent process decides when the grace ends; see `stopping_on_signals`.
        self.supervised = False
        self._stop_requests = 0
        self._deadline: float | None = None
        lanes = [
            Lane(
                number,
                _unburied(queue, queue.config.max_receives or max_receives),
                _own(queue, "rate_limit", rate_limit, RateLimit),
                self._bell(),
                queue.config.max_receives or max_receives,
            )
            for number, queue in enumerate(listed)
        ]
        for lane in lanes:
            if (own := _own(lane.queue, "batch", batch, Batch)) is not None:
                lane.collector = Collector(lane.queue.name, own, self._bell(), self._pass_on)
        listed_hooks = (hooks,) if isinstance(hooks, Hooks) else tuple(hooks)
        check_hooks(listed_hooks)
        self._state = State(
            lanes=lanes,
            slots=[Slot() for _ in range(concurrency)],
            feed=Feed(
                [queue.name for queue in listed],
                QueueOrder(weights, len(lanes)),
                Pace(concurrency, prefetch),
                self._bell(),
            ),
            handling=Handling(
                failures=Failures(handler, log_errors),
                backoff=backoff or Backoff(),
                time_limit=time_limit,
                expiry_field=expiry_field,
                hooks=listed_hooks,
                terms=terms,
                hand_over=next(
                    (each.hand_over for each in listed_hooks if isinstance(each, Supervised)), None
                ),
                figures=health.figures if health is not None else None,
            ),
            clock=time.monotonic,
            upkeep_bell=self._bell(),
            suspects_bell=self._bell(),
            interrupt=self._interrupt,
            wake=self._wake,
        )
        shortest_lease = min(lane.timeout for lane in lanes)
        self._upkeep_interval = min(UPKEEP_INTERVAL, shortest_lease / 6)

    def take_only(self, source: Service) -> None:
        """Get messages from this source alone: none from the queues, and none of schedules."""
        self._sources = (source,)

    def stop(self) -> None:
        """Stop taking, let running handlers end, and release the other messages; end `run`.

        A second call ends the grace at once and releases the messages of running handlers too.
        Safe to call from any thread and from a signal handler.
        """
        # No locks here: a signal handler could deadlock with the code that it interrupts.
        self._stop_requests += 1

    def handle_at_most(self, messages: int) -> None:
        """Call handlers for no more messages than this; give back the others, uncounted.

        `run` does not end then, but the worker takes nothing. Call this before `run`.
        """
        self._state.quota = Quota(messages)

    @property
    def stopped_by_order(self) -> bool:
        """Whether an operator stopped this worker, as with ``ackq workers stop``."""
        return self._presence.ordered_to_stop

    def _bell(self) -> Bell:
        raise NotImplementedError

    def _interrupt(self, slot: Slot, message: Message, reason: str) -> None:
        raise NotImplementedError

    def _wake(self) -> None:
        raise NotImplementedError

    def _begin(self, drain: bool) -> State:
        if self._state.stopping:
            raise ConfigurationError("a worker runs once: make another one")
        settle_here()
        self._state.draining = drain
        # Only handlers of single messages.
        self._handler = observation.handled(self._handler, self._state.addresses)
        return self._state

    def _pass_on(self, batch: Pile) -> None:
        self._state.pass_on(batch)

    def _started(self, *services: Service) -> list[Routine[None]]:
        """Start services, and return their routines."""
        return [
            routine for service in services for routine in service.start(self._state, self._bell)
        ]

    def _end(self, *services: Service) -> None:
        for service in services:
            service.end()

    def _round(self) -> Routine[None]:
        """Do what is due now: the upkeep, and the check of its health."""
        yield from upkeep(self._state)
        if self._health is not None:
            yield from self._health.watch(self._state)

    def _own_consumers(self) -> list[Any]:
        """Return what `run` must close: what consumes sharded queues."""
        return [lane.queue for lane in self._state.lanes if is_sharded(lane.queue)]

    @contextlib.contextmanager
    def _healthy(self) -> Iterator[None]:
        with self._health or contextlib.nullcontext():
            yield

    def _is_over(self, helpers_run: bool) -> bool:
        """Act on calls of `stop`, and return whether nothing is left to wait for."""
        state = self._state
        if self._stop_requests and not state.stopping:
            state.stop()
            self._log_stop(state.busy())
        if not state.stopping:
            return False
        now = state.clock()
        if self._deadline is None:
            self._deadline = now + self._grace
        if self._stop_requests > 1 or now >= self._deadline:
            self.cut_short = True
            return True
        return not helpers_run and state.settled()

    def _log_stop(self, running: int) -> None:
        if running and self._stop_requests == 1:
            log.info(
                "stopping: %d running, up to %g s; stop again to release their messages",
                running,
                self._grace,
            )
        else:
            log.info("stopping")


def _listed(queues: Any, kinds: tuple[type, type]) -> tuple[list[Any], list[float] | None]:
    weights: list[float] | None = None
    if isinstance(queues, Mapping):
        weights = [float(weight) for weight in queues.values()]
        if not all(1e-6 <= weight <= 1e6 for weight in weights):
            raise ConfigurationError("the weight of a queue is 0.000001 to 1000000")
    several = isinstance(queues, Mapping | Sequence) and not isinstance(queues, str | bytes)
    listed = list(queues) if several else [queues]
    for queue in listed:
        if not isinstance(queue, kinds):
            usual, other = (kind.__name__ for kind in kinds)
            raise ConfigurationError(
                f"this worker takes from objects of the class {usual} or {other}, not"
                f" {type(queue).__name__}: {usual}(client, NAME) makes one"
            )
    names = [queue.name for queue in listed]
    if not listed or len(set(names)) < len(names):
        raise ConfigurationError("queues is one queue or several of different names")
    return listed, weights


def _check_names(
    names: Set[str],
    rate_limit: RateLimit | Mapping[str, RateLimit] | None,
    batch: Batch | Mapping[str, Batch] | None,
    schedules: Sequence[Schedule],
) -> None:
    """Check that settings name only queues of this worker."""
    for setting, given in (("rate_limit", rate_limit), ("batch", batch)):
        unknown = {*given} - names if isinstance(given, Mapping) else set()
        if unknown:
            raise ConfigurationError(
                f"{setting} names queues that this worker does not take from: {sorted(unknown)}"
            )
    for schedule in schedules:
        if schedule.queue is not None and schedule.queue not in names:
            raise ConfigurationError(
                f"schedule {schedule.name!r}: this worker has no queue {schedule.queue!r}"
            )


def _unburied(queue: Any, max_receives: int | None) -> Any:
    """Return a copy of the queue that leaves it to the worker when a message is dead.

    Of a sharded queue it is a consumer that lives as long as the worker.
    """
    return queue.with_config(max_receives=max_receives and MAX_MAX_RECEIVES)


def is_async(handler: Callable[[Any], Any]) -> bool:
    """Return whether calling the handler returns a coroutine."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object whose call is asynchronous
    )


def _own(queue: Any, name: str, given: Any, kind: type[T]) -> T | None:
    """Return the setting of one queue, from one for all queues or a mapping from their names."""
    setting = given.get(queue.name) if isinstance(given, Mapping) else given
    if setting is not None and not isinstance(setting, kind):
        raise ConfigurationError(
            f"{name} is a {kind.__name__}, such as {kind.__name__}(100), or a mapping of queues'"
            f" names to them, not {setting!r}"
        )
    return setting
