# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""The drop-in client, blocking."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import redis
from redis.exceptions import RedisError

from ackq.config import PopFrom, QueueConfig, Seconds, in_seconds
from ackq.core.io.routes import route_of
from ackq.dropin import reports
from ackq.dropin.arguments import Key, count_of, name_of, names_of, timeout_of
from ackq.dropin.call_stack import check_interpreter
from ackq.dropin.declared import QUESTIONS, Hold
from ackq.dropin.errors import refused
from ackq.dropin.held_messages import Held
from ackq.dropin.in_flight import InFlight
from ackq.dropin.owner import Caller
from ackq.dropin.passthrough import PassedOn
from ackq.dropin.wrapper_class import wrapper_of
from ackq.errors import AckqError, ConfigurationError, LeaseLost, PopFromMismatch
from ackq.queue.client import Queue
from ackq.queue.messages import Message

#: A bare RPOP limits a body only by the server's own limit, so the drop-in does too.
MAX_BODY_BYTES = 512 * 1024 * 1024
#: Seconds that a wait for several lists spends on one of them before it checks all of them again.
SEVERAL_KEYS_WAIT = 0.1
#: What the drop-in takes besides a client.
OWN_SETTINGS = ("hold", "for_", "visibility_timeout", "max_receives")
#: The ends of a list, each with the commands that pop from it, at once and after waiting.
COMMANDS: dict[PopFrom, tuple[str, str]] = {"right": ("rpop", "brpop"), "left": ("lpop", "blpop")}
#: A take that returned fewer messages and fewer bytes than this emptied the list.
_TAKE_MESSAGES, _TAKE_BYTES = 1000, 1024 * 1024


class Redis(PassedOn):
    """A redis-py client whose popped messages are not lost.

    Guarantee: at least once, for what `rpop`, `brpop`, `lpop` and `blpop` return. With ``hold=0``,
    a message is done when the same thread asks for the next message of the same list: then it is
    settled, in the same round trip. With ``hold=n``, the last n messages stay leased. Until a
    message is settled, its lease is renewed. It is redelivered if the process is killed first, or
    if a function that was running when it was popped ends with an exception.
    `SystemExit` and `KeyboardInterrupt` are exceptions too.
    If that function catches the exception itself, as in a loop that logs it and goes on, asking
    for the next message settles the last one.

    With ``hold=0``, the last message is settled by `close`, at the end of a ``with`` block
    of the client, and when its thread or the program ends.
    Each gives it back instead if an exception is the reason. Messages that ``hold=n`` keeps are
    settled by newer ones and by `settle` alone.

    Calls that ackq cannot protect are reported once for each list, as an `UnprotectedWarning`.

    It is an instance of the wrapped client's class, with the same connections. What is not
    documented here works as it does there: ``rpop`` in a pipeline or a script still loses messages.
    ``lrange``, ``exists``, ``type``, ``rename`` and ``expire`` see only the messages that wait in
    the list: neither those in flight, nor those that wait to be redelivered, which stay under the
    old name and never expire. ``keys``, ``scan`` and ``dbsize`` also see the keys that ackq keeps
    beside a list in use, such as ``jobsBACKUP``.

    Safe to share between threads, and after a fork.
    """

    def __new__(cls, client: Any, **settings: Any) -> Self:
        """Return a client that is also of the class of ``client``; see `__init__`."""
        check_interpreter()
        if isinstance(client, Redis):
            raise ConfigurationError("client is already an ackq.dropin client")
        route_of(client, b"")
        if cls.__init__ is Redis.__init__ and "hold" not in settings:
            raise ConfigurationError(QUESTIONS)
        return wrapper_of(cls, client)

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        *,
        hold: int,
        for_: Seconds | None = None,
        visibility_timeout: Seconds = 30.0,
        max_receives: int | None = None,
    ) -> None:
        """Wrap ``client``; nothing is sent before the first operation.

        Args:
            client: any blocking redis-py client. Its ``decode_responses`` applies to results.
            hold: how many of the last messages that
                each thread popped from a list
                stay leased when it asks for more, 0 to 1,000,000: as many as the program may still
                be working on then. They are settled once as many newer ones were popped, or by
                `settle`. 0 if each message is finished before the next one is asked for. It has no
                default: without it the error explains how to choose.
            for_: seconds during which a message stays leased after it was popped, whatever
                ``hold`` says, for programs that write what they collect every few seconds. From
                0.000001 to 12 hours. Defaults to None, no time.
            visibility_timeout: seconds after which the messages of a dead consumer are
                redelivered. It does not limit the work: leases are renewed. Defaults to 30.
            max_receives: deliveries after which a message goes to the dead letters, as in
                `ackq.Queue`. Defaults to None, no limit.

        Raises:
            ConfigurationError: ``client`` is not a blocking redis-py client, ``hold`` is
                missing, or a setting is out of range.
        """
        settings: dict[str, Any] = {
            "visibility_timeout": in_seconds(visibility_timeout),
            "max_receives": max_receives,
        }
        self._ackq_given = {**settings, "hold": hold, "for_": for_}
        settings["max_body_bytes"] = MAX_BODY_BYTES
        QueueConfig(**settings)
        self._ackq = Held(client, settings, Hold.of(hold, for_))
        self._ackq_encoder = client.get_encoder()

    @classmethod
    def from_url(
        cls,
        url: str,
        *args: Any,
        **settings: Any,
    ) -> Self:
        """Return a drop-in around the client that redis-py's ``from_url`` returns.

        Args:
            url: where the server is.
            args: more for redis-py's ``from_url``.
            settings: those of the drop-in, ``hold`` among them, and of redis-py's ``from_url``.
        """
        own = {each: settings.pop(each) for each in OWN_SETTINGS if each in settings}
        return cls(redis.Redis.from_url(url, *args, **settings), **own)

    def rpop(self, name: Key, count: int | None = None) -> Any:
        """Settle what this thread popped from ``name`` before, and pop the next message.

        One round trip, and another one per 1,000 messages or 1 MiB.

        Args:
            name: the list.
            count: the most messages to pop. Defaults to None: one, not in a list.

        Returns:
            The message, or None; with ``count`` a list of 1..count messages, or None.

        Raises:
            UnknownOutcome: the reply was lost; popped messages are redelivered. Call it again.
            KeyTypeError: the key is no list. It is a `redis.ResponseError` too.
            Refused: ackq cannot pop from this list. It is a `redis.ResponseError` too.
        """
        return self._pop(name, count, "right", Caller(sys._getframe()))

    def lpop(self, name: Key, count: int | None = None) -> Any:
        """Do as `rpop` does, at the left end of the list: for producers that use ``rpush``.

        All consumers of a list must pop from the same end. Where another one pops from the right,
        this is the client's own command, which ackq does not protect, with a warning.
        """
        return self._pop(name, count, "left", Caller(sys._getframe()))

    def brpop(self, keys: Key | Iterable[Key], timeout: Seconds | None = 0) -> Any:
        """Settle what this thread popped from ``keys`` before, and wait for the next message.

        Args:
            keys: a list's name, or several in the order in which they are checked. Several lists
                are checked every 0.1 seconds, with one round trip each.
            timeout: seconds to wait; 0 or None waits for ever. Defaults to 0.

        Returns:
            The list's name and the message, or None if none came in time.

        Raises:
            UnknownOutcome: the reply was lost; popped messages are redelivered. Call it again.
            KeyTypeError: a key is no list. It is a `redis.ResponseError` too.
            Refused: ackq cannot pop from a list. It is a `redis.ResponseError` too.
        """
        return self._wait_and_pop(keys, timeout, "right", Caller(sys._getframe()))

    def blpop(self, keys: Key | Iterable[Key], timeout: Seconds | None = 0) -> Any:
        """Do as `brpop` does, at the left end of the lists; see `lpop`."""
        return self._wait_and_pop(keys, timeout, "left", Caller(sys._getframe()))

    @contextmanager
    def batch(self, name: Key, *more: Key) -> Iterator[None]:
        """Keep all messages that this thread pops in the block, and settle them at its end.

        ::

            with r.batch("jobs"):
                rows = r.rpop("jobs", 500)
                store(rows)                      # a kill here: all 500 are redelivered

        If the block raises, they return to the queue: redelivered after a second, or longer if they
        did so before. Their leases are renewed while the block runs. What was popped from
        these lists before the block is settled when it begins.

        Args:
            name: the list.
            more: further lists.

        Raises:
            ConfigurationError: this client keeps the last messages, or those of the last seconds,
                which a block cannot tell from its own. Use `settle`.
        """
        if self._ackq.kept:
            raise ConfigurationError(
                "batch needs a client with hold=0 and without for_=. With this one, call"
                " settle(name) of the client when the work is done"
            )
        names = names_of((name, *more), self._ackq_encoder)
        all_in_flight = [self._ackq.in_flight(text, end) for text in names for end in COMMANDS]
        all_in_flight = [in_flight for in_flight in all_in_flight if not in_flight.in_batch]
        for in_flight in all_in_flight:
            in_flight.settle()
            in_flight.in_batch = True
        try:
            yield
        except BaseException:
            self._end_batch(all_in_flight, clean=False)
            raise
        self._end_batch(all_in_flight, clean=True)

    def settle(self, name: Key, *values: Any) -> int:
        """Settle messages of ``name`` now, without popping more, and return their number.

        ::

            r.settle("jobs", raw)   # this one, whichever thread popped it
            r.settle("jobs")        # all that this thread popped and has not settled yet

        Only in the process that popped them. If the call fails, the next pop settles them.
        Messages of a `batch` stay until its end. One round trip for each thread that popped some.

        Args:
            name: the list.
            values: messages, as they were popped. Of equal ones, as many as are named, those of
                this thread first. Values that are not held are ignored. Defaults to all that this
                thread popped from the list.

        Raises:
            LeaseLost: the lease of a message has ended, and it is delivered again. The others are
                settled.
        """
        text = name_of(name, self._ackq_encoder)
        wanted = [bytes(self._ackq_encoder.encode(value)) for value in values] if values else None
        places = self._ackq.of_consumer(text)
        if wanted is not None:
            places += self._ackq.of_all(text)
        settled, lost = 0, []
        for in_flight in places:
            try:
                settled += in_flight.settle_only(wanted)
            except LeaseLost as error:
                settled += error.settled
                lost.append(error)
        if lost:
            messages = tuple(each for error in lost for each in error.messages)
            text = "\n".join(map(str, lost))
            raise LeaseLost(text, messages=messages, settled=settled) from lost[0]
        return settled

    def llen(self, name: Key) -> int:
        """Count what `rpop` can take: the list and redelivered messages. One round trip."""
        text = name_of(name, self._ackq_encoder)
        try:
            try:
                stats = self._ackq.queue(text).stats()
            except PopFromMismatch:
                stats = self._ackq.queue(text, "left").stats()
            return stats.ready
        except ConfigurationError:
            # ackq cannot use this list, so it keeps nothing beside it.
            return super().llen(name)  # type: ignore[arg-type]

    def client(self) -> Self:
        """Return a drop-in around the client's own ``client()``, with nothing in flight."""
        client: Any = self._ackq.client
        return self._again(client.client())

    def close(self, *args: Any, **options: Any) -> None:
        """Settle the last messages of this thread and of ended threads, and close the client.

        While an exception is being handled (in a ``finally`` or ``except`` clause), this thread's
        message is not settled but returned to the queue. Messages of running threads keep their
        leases.
        """
        self._ackq.close(clean=sys.exception() is None)
        super().close(*args, **options)
        if hasattr(self, "connection"):
            # The one connection of a client that has only one: it is closed now.
            self._ackq.client.connection = None  # type: ignore[union-attr]

    def __exit__(self, kind: type[BaseException] | None, *more: Any) -> None:
        self._ackq.close(clean=kind is None)
        super().__exit__(kind, *more)  # type: ignore[no-untyped-call]

    def __del__(self, *_: Any) -> None:
        """Leave the connections to the wrapped client, which owns them."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A copy has the same client, or its copy, and nothing in flight.
        return functools.partial(self._dropin(), **self._ackq_given), (self._ackq.client,)

    def __repr__(self) -> str:
        return f"<ackq.dropin.Redis around {self._ackq.client!r}>"

    def _pop(self, name: Key, count: int | None, end: PopFrom, caller: Caller) -> Any:
        text = name_of(name, self._ackq_encoder)
        wanted = 1 if count is None else count_of(count)
        if text in self._ackq.reports.moved_into:
            self._ackq.reports.warn(reports.AFTER_MOVE, text)
        try:
            in_flight = self._ackq.in_flight(text, end, caller)
            if not wanted:
                in_flight.settle_done(in_flight.asked(caller))
                return [] if self.llen(name) else None
            values = self._take(in_flight, wanted, caller)
        except PopFromMismatch:
            self._ackq.reports.warn(reports.BOTH_ENDS, text, command=COMMANDS[end][0])
            return getattr(self._ackq.client, COMMANDS[end][0])(name, count)
        if count is None:
            return values[0] if values else None
        return values or None

    def _wait_and_pop(
        self, keys: Any, timeout: Seconds | None, end: PopFrom, caller: Caller
    ) -> Any:
        names, seconds = names_of(keys, self._ackq_encoder), timeout_of(timeout)
        if len(names) > 1:
            try:
                return self._take_from_several(names, seconds, end, caller)
            except PopFromMismatch as error:
                raise refused(error) from error
        try:
            in_flight = self._ackq.in_flight(names[0], end, caller)
            values = self._take(in_flight, 1, caller, seconds)
        except PopFromMismatch:
            self._ackq.reports.warn(reports.BOTH_ENDS, names[0], command=COMMANDS[end][1])
            return getattr(self._ackq.client, COMMANDS[end][1])(keys, timeout)
        return self._pair(names[0], values) if values else None

    def _take(
        self, in_flight: InFlight, wanted: int, caller: Caller, timeout: Seconds | None = None
    ) -> list[Any]:
        before = in_flight.asked(caller)
        try:
            messages = in_flight.queue.pop_many(min(wanted, _TAKE_MESSAGES), timeout, ack=before)
        except PopFromMismatch:
            raise
        except ConfigurationError as error:
            raise refused(error) from error
        in_flight.clear(before)
        if not messages:
            return []
        self._ackq.watch(in_flight, messages, caller)
        try:
            for more in _rest(in_flight.queue, messages, wanted):
                self._ackq.watch(in_flight, more, caller)
                messages += more
            return [self._ackq_encoder.decode(message.body) for message in messages]
        except BaseException:
            # A body cannot be decoded, say. Nobody gets the messages, so they are redelivered.
            in_flight.take_out(*messages)
            raise

    def _take_from_several(
        self, names: Sequence[str], seconds: float, end: PopFrom, caller: Caller
    ) -> Any:
        # Settle first: if this failed after a take, the taken message could not be returned.
        for name in names[1:]:
            in_flight = self._ackq.in_flight(name, end, caller)
            in_flight.settle_done(in_flight.asked(caller))
        until, turn = time.monotonic() + seconds, 0
        while True:
            for name in names:
                if values := self._take(self._ackq.in_flight(name, end, caller), 1, caller):
                    return self._pair(name, values)
            left = until - time.monotonic()
            if left <= 0:
                return None
            name = names[turn % len(names)]
            in_flight, wait = self._ackq.in_flight(name, end, caller), min(left, SEVERAL_KEYS_WAIT)
            if values := self._take(in_flight, 1, caller, wait):
                return self._pair(name, values)
            turn += 1

    def _pair(self, name: str, values: list[Any]) -> tuple[Any, Any]:
        return self._ackq_encoder.decode(name.encode("utf-8", "surrogateescape")), values[0]

    def _end_batch(self, all_in_flight: Sequence[InFlight], clean: bool) -> None:
        for in_flight in all_in_flight:
            # A forked child holds nothing of its parent's.
            if (
                self._ackq.in_flight(in_flight.queue.name, in_flight.queue.config.pop_from)
                is in_flight
            ):
                in_flight.end_batch(clean)

    def _again(self, client: Any) -> Self:
        return self._dropin()(client, **self._ackq_given)

    def _dropin(self) -> type[Self]:
        """Return the class that was called: this object's has the client's class added."""
        return type(self).__bases__[0]


def _rest(queue: Queue, first: list[Message], wanted: int) -> Iterator[list[Message]]:
    """Take more if one call returned too few: RPOP with a count is never cut short."""
    last, taken = first, len(first)
    while taken < wanted and (
        len(last) >= _TAKE_MESSAGES or sum(len(message.body) for message in last) >= _TAKE_BYTES
    ):
        try:
            last = queue.pop_many(min(wanted - taken, _TAKE_MESSAGES))
        except (RedisError, AckqError):
            return  # hand over the messages already taken; the next call meets the error
        taken += len(last)
        yield last
