"""redis-py's own `lpush`, `rpop`, `brpop` and `llen`, without losing popped messages.

::

    r = ackq.dropin.Redis(redis.Redis())     # was: r = redis.Redis()
    while True:
        _, raw = r.brpop("jobs")
        work_on(raw)                         # kill -9 here: the message is redelivered
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import redis
from redis.exceptions import ResponseError

from ackq.core.io.connections import route_of
from ackq.dropin.hand import InFlight, LeaseRenewal
from ackq.dropin.stack import CallStack
from ackq.errors import AckqError
from ackq.queue.client import Queue
from ackq.queue.messages import Message

__all__ = ["Redis"]

Key: TypeAlias = str | bytes | bytearray | memoryview
Value: TypeAlias = Any

#: A bare RPOP limits a body only by the server's own limit, so the drop-in does too.
MAX_BODY_BYTES = 512 * 1024 * 1024
#: Seconds that `brpop` over several keys waits on one of them before it checks all of them again.
SEVERAL_KEYS_WAIT = 0.1
#: A take that returned fewer messages and fewer bytes than this emptied the list.
_TAKE_MESSAGES, _TAKE_BYTES = 1000, 1024 * 1024


class Redis:
    """A redis-py client whose `rpop` and `brpop` do not lose messages.

    Guarantee: at least once. A popped message is settled when the same thread asks for the next
    message of that queue, in the same round trip. Its lease is renewed until then. The message is
    redelivered after its lease ends if the process is killed first, or if the function that
    popped it ends with an exception, including `SystemExit` and `KeyboardInterrupt`. If that
    function catches the exception itself, as in a loop that logs it and goes on, asking for the
    next message settles the last one.

    The last message is settled by `close`, at the end of a ``with`` block that does not raise,
    and when the thread or the program ends with every function having returned. A program that
    ends with ``sys.exit()`` must call `close`; otherwise its last message is redelivered.

    All other methods are the wrapped client's: ``rpop`` and ``lpop`` in a pipeline still lose
    messages. Threads may share the client. A forked child does not hold its parent's messages.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        *,
        visibility_timeout: float = 30.0,
        max_receives: int | None = None,
    ) -> None:
        """Wrap ``client``; nothing is sent before the first operation.

        Args:
            client: any blocking redis-py client. Its ``decode_responses`` applies to results.
            visibility_timeout: seconds after which the messages of a dead consumer are
                redelivered. It does not limit the work: leases are renewed. Defaults to 30.
            max_receives: deliveries after which a message goes to the dead letters, as in
                `ackq.Queue`. Defaults to None, no limit.

        Raises:
            ConfigurationError: ``client`` is not a redis-py client, or is one for asyncio.
        """
        route_of(client, b"")
        self._client = client
        self._settings: dict[str, Any] = {
            "visibility_timeout": visibility_timeout,
            "max_receives": max_receives,
            "max_body_bytes": MAX_BODY_BYTES,
        }
        self._at_exit_too = False
        self._reset()

    def lpush(self, name: Key, *values: Any) -> int:
        """Push onto the list and return its length: the client's own LPUSH."""
        length: int = self._client.lpush(name, *values)  # type: ignore[arg-type]
        return length

    def rpop(self, name: Key, count: int | None = None) -> Value:
        """Settle what this thread popped from ``name`` before, and pop the next message.

        One round trip, and another one per 1,000 messages or 1 MiB.

        Args:
            name: the list.
            count: the most messages to pop. Defaults to None: one, not in a list.

        Returns:
            The message, or None; with ``count`` a list of 1..count messages, or None.

        Raises:
            UnknownOutcome: the reply was lost; popped messages are redelivered. Call it again.
        """
        if count is None:
            values = self._take(name, 1)
            return values[0] if values else None
        if count < 0:
            raise ResponseError("value is out of range, must be positive")
        if count == 0:
            self._settle([_text(name)])
            return [] if self.llen(name) else None
        return self._take(name, count) or None

    def brpop(
        self, keys: Key | Iterable[Key], timeout: float | None = 0
    ) -> tuple[Value, Value] | None:
        """Settle what this thread popped from ``keys`` before, and wait for the next message.

        Args:
            keys: a list's name, or several in the order in which they are checked. Several lists
                are checked every 0.1 seconds, with one round trip each.
            timeout: seconds to wait; 0 or None waits for ever. Defaults to 0.

        Returns:
            The list's name and the message, or None if none came in time.

        Raises:
            UnknownOutcome: the reply was lost; popped messages are redelivered. Call it again.
        """
        if timeout is not None and timeout < 0:
            raise ResponseError("timeout is negative")
        names = [keys] if isinstance(keys, Key) else list(dict.fromkeys(keys))
        if not names:
            raise ResponseError("wrong number of arguments for 'brpop' command")
        patience = timeout or math.inf
        if len(names) > 1:
            return self._take_from_several(names, patience)
        values = self._take(names[0], 1, patience)
        return self._pair(names[0], values) if values else None

    def llen(self, name: Key) -> int:
        """Count what `rpop` can take: the list and redelivered messages. One round trip."""
        return self._hand(_text(name)).queue.stats().ready

    def close(self) -> None:
        """Settle the last messages of this thread and of ended threads, and close the client.

        While an exception is being handled (in a ``finally`` or ``except`` clause), this thread's
        message is not settled but redelivered. Messages of running threads keep their leases.
        """
        self._close(clean=sys.exception() is None)

    def __enter__(self) -> Redis:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(clean=kind is None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._client, name)

    def __repr__(self) -> str:
        return f"<ackq.dropin.Redis around {self._client!r}>"

    def _take(self, name: Key, wanted: int, timeout: float | None = None) -> list[Value]:
        hand = self._hand(_text(name))
        before = hand.finish()
        messages = hand.queue.pop_many(min(wanted, _TAKE_MESSAGES), timeout, ack=before)
        hand.clear()
        self._fill_up(hand.queue, messages, wanted)
        # A body that cannot be decoded raises here, before it is held, and is redelivered.
        values = [self._decode(message.body) for message in messages]
        if messages:
            self._watch(hand, messages)
        return values

    def _watch(self, hand: InFlight, messages: Sequence[Message]) -> None:
        if not self._at_exit_too:
            atexit.register(self._at_exit)
            self._at_exit_too = True
        # Include our own frames: a Ctrl-C before the caller has the message must not settle it.
        hand.hold(messages, CallStack(sys._getframe(1)))
        self._renewal.watch(hand)

    def _fill_up(self, queue: Queue, messages: list[Message], wanted: int) -> None:
        """Take more if one call returned too few: RPOP with a count is never cut short."""
        last: Sequence[Message] = messages
        while len(messages) < wanted and (
            len(last) >= _TAKE_MESSAGES or sum(len(each.body) for each in last) >= _TAKE_BYTES
        ):
            try:
                last = queue.pop_many(min(wanted - len(messages), _TAKE_MESSAGES))
            except (redis.RedisError, AckqError):
                return  # hand over the messages already taken; the next call meets the error
            messages += last

    def _take_from_several(self, names: list[Key], patience: float) -> tuple[Value, Value] | None:
        # Settle first: if this failed after a take, the taken message could not be returned.
        self._settle([_text(name) for name in names[1:]])
        until, turn = time.monotonic() + patience, 0
        while True:
            for name in names:
                if values := self._take(name, 1):
                    return self._pair(name, values)
            left = until - time.monotonic()
            if left <= 0:
                return None
            name = names[turn % len(names)]
            if values := self._take(name, 1, min(left, SEVERAL_KEYS_WAIT)):
                return self._pair(name, values)
            turn += 1

    def _pair(self, name: Key, values: list[Value]) -> tuple[Value, Value]:
        return self._decode(_text(name).encode()), values[0]

    def _settle(self, names: Iterable[str]) -> None:
        for name in names:
            self._hand(name).settle()

    def _hand(self, name: str) -> InFlight:
        """Return the calling thread's in-flight messages of queue ``name``."""
        if self._pid != os.getpid():
            self._reset()
        hands: dict[str, InFlight] = self._local.__dict__
        hand = hands.get(name)
        if hand is None:
            queue = self._queues.get(name)
            if queue is None:
                queue = self._queues.setdefault(name, Queue(self._client, name, **self._settings))
            hand = hands[name] = InFlight(queue)
        return hand

    def _decode(self, value: bytes) -> Value:
        return self._client.get_encoder().decode(value)

    def _reset(self) -> None:
        """Start with nothing in flight: at first, and in a forked child."""
        self._pid = os.getpid()
        self._local = threading.local()
        self._queues: dict[str, Queue] = {}
        self._renewal = LeaseRenewal(self._settings["visibility_timeout"])

    def _at_exit(self) -> None:
        if self._pid == os.getpid():
            for hand in self._renewal.hands():
                hand.close_at_exit()

    def _close(self, clean: bool) -> None:
        if self._pid == os.getpid():
            for hand in self._renewal.hands():
                hand.close(clean)
            for queue in self._queues.values():
                queue.close()
        atexit.unregister(self._at_exit)
        self._at_exit_too = False
        self._client.close()


def _text(name: Key) -> str:
    if isinstance(name, memoryview | bytearray):
        name = bytes(name)
    return name.decode() if isinstance(name, bytes) else name
