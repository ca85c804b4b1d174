"""Put back on a queue what consumers left in their processing lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import redis
from redis.exceptions import ClusterCrossSlotError, ResponseError

from ackq.core.client import Client
from ackq.core.effects import Operation, Request
from ackq.errors import ConfigurationError, CrossSlotError, KeyTypeError
from ackq.ops.move import OnStep, ignore
from ackq.ops.survey.neighbours import is_kept_by_ackq
from ackq.queue.keys import QueueKeys
from ackq.queue.record import recorded

#: Messages between two calls of `OnStep`.
STEP = 500


class Recovery(Client):
    """Put messages of processing lists back on a queue.

    A processing list is where a consumer moves a message with RPOPLPUSH, BRPOPLPUSH, LMOVE or
    BLMOVE, until it removes it with LREM. A consumer that dies leaves its messages there.
    """

    def __init__(self, client: redis.Redis, queue: str) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server.
            queue: the list that the consumers took the messages from.

        Raises:
            QueueNameError: ackq cannot use that name.
        """
        self._ready = QueueKeys.of(queue).ready
        super().__init__(client, queue)

    def count(self, lists: Sequence[str]) -> dict[str, int]:
        """Return the number of messages in each list. One round trip per list, and one more.

        Bytes of a name that are not UTF-8 are given as surrogate escapes, as in `sys.argv`.

        Raises:
            ConfigurationError: a list is the queue itself, or one that ackq keeps for it.
            KeyTypeError: a key, or that of the queue, is not a list.
        """
        for name in lists:
            if _key(name) == self._ready or is_kept_by_ackq(self._ready, _key(name)):
                raise ConfigurationError(
                    f"{name!r} is a list of queue {self._key!r} itself, not a processing list"
                )
        with self._same_slot():
            self._run(_count(self._key))
            return {name: self._run(_count(name)) for name in dict.fromkeys(lists)}

    def put_back(self, counted: Mapping[str, int], on_step: OnStep = ignore) -> int:
        """Move the counted messages to the front of the queue, and return how many were moved.

        Guarantee: every message is in exactly one of the lists at any time, since each is moved
        by one LMOVE. If the call is interrupted, call it again to move the rest. Bodies do not
        change. Of one list, the message at the end that the queue is popped from is delivered
        first: with RPOPLPUSH and BRPOPLPUSH, that is the oldest one.

        Stop the consumers first: a message that one of them is still working on would be delivered
        to another one too. One round trip per message.

        Args:
            counted: what `count` returned. No more messages than that are moved, but for one more
                each time the reply to a command is lost.
            on_step: called after every 500 messages, and at the end of each list.
        """
        known = self._run(recorded(QueueKeys.of(self._key)))
        keys = QueueKeys.of(self._key, known.get("pop_from", "right"))
        moved = 0
        for name, count in counted.items():
            while count > 0:
                step = min(count, STEP)
                with self._same_slot():
                    arrived = self._run(_move(_key(name), keys, step))
                moved += arrived
                on_step(moved)
                count = count - step if arrived == step else 0
        return moved

    @contextmanager
    def _same_slot(self) -> Iterator[None]:
        try:
            yield
        except ClusterCrossSlotError as error:
            raise CrossSlotError(
                f"in a cluster, a processing list shares the slot of queue {self._key!r}: {error}"
            ) from error


def _key(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _count(name: str) -> Operation[int]:
    try:
        length: int = yield Request((b"LLEN", _key(name)), resend=True)
    except ResponseError as error:
        if "WRONGTYPE" not in str(error):
            raise
        kind: bytes = yield Request((b"TYPE", _key(name)), resend=True)
        raise KeyTypeError(f"{name!r} is a {kind.decode()}, not a list") from error
    return length


def _move(source: bytes, keys: QueueKeys, n: int) -> Operation[int]:
    # What is to be delivered first goes last, and ends up at the front. Resending is safe: if the
    # lost reply was applied, the next message is moved, which is wanted anyway.
    front, other = (b"LEFT", b"RIGHT") if keys.pop_from == "left" else (b"RIGHT", b"LEFT")
    command = (b"LMOVE", source, keys.ready, other, front)
    for moved in range(n):
        if (yield Request(command, resend=True)) is None:
            return moved
    return n
