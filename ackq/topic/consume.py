"""Consume from a topic, at once or after waiting, and commit finished batches in the same call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from ackq import scripts
from ackq.config import Seconds, check_integer, microseconds
from ackq.core.call import call
from ackq.core.chunks import TAKE_CHUNK
from ackq.core.effects import Operation, Request, Sleep
from ackq.core.operation_marks import Receive, observed
from ackq.core.waits import INTERRUPTED, Deadline, block, shorten
from ackq.errors import LeaseLost, PlaceLost, UnknownOutcome
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic.keys import ConsumerKeys
from ackq.topic.messages import Batch
from ackq.topic.place import find_live, not_subscribed
from ackq.topic.publish import AT_ONCE
from ackq.topic.settle import CHUNK, commit, leased, mark_lost
from ackq.topic.spec import Guess, TopicSpec, pause
from ackq.topic.staged_rows import move

#: Seconds of jitter on a wait, so that one deadline does not wake every waiter at once.
WAIT_JITTER = 0.05
#: Attempts to publish committed rows before a consumer leaves them to quicker producers.
MOVE_ATTEMPTS = 3


@observed(Receive("consume", wanted=2, settles=5, settled_as="commit"))
def consume(
    spec: TopicSpec,
    consumer: str,
    wanted: int,
    timeout: Seconds | None,
    visibility_timeout: Seconds | None,
    committed: Iterable[Batch] | Batch,
    unfinished: UnfinishedCommits,
) -> Operation[Batch]:
    """Read the next batch; see `ackq.topic.Topic.consume`."""
    deadline = Deadline(timeout)
    check_integer(wanted, "n", 1, 2**31)
    done = leased(spec, committed)
    here = [batch for batch in done if batch.consumer == consumer]
    others = [batch for batch in done if batch.consumer != consumer]
    if others or len(here) > CHUNK:
        yield from _commit_marking(spec, others + here[CHUNK:])
        here = here[:CHUNK]
    reader = _Reader(spec, consumer, min(wanted, TAKE_CHUNK), _lease_us(spec, visibility_timeout))
    while True:
        yield from unfinished.move_in(partial(move, spec, unfinished.keys, attempts=MOVE_ATTEMPTS))
        taken = yield from reader.read(here)
        here = []
        if taken:
            return taken
        left = yield from deadline.left()
        if not left:
            return taken
        yield from reader.wait(left)


class _Reader:
    """The state of one call of consume."""

    def __init__(self, spec: TopicSpec, consumer: str, wanted: int, lease_us: int) -> None:
        self._spec = spec
        self._consumer = consumer
        self._keys: ConsumerKeys = spec.keys.consumer(consumer)
        self._wanted = wanted
        self._lease_us = lease_us
        self._guess = spec.reading.setdefault(consumer, Guess())
        #: The newest index, and µs until the next lease ends, from the last reply.
        self._newest, self._next_end = 0, -1
        #: The newest index when a wait last ended early.
        self._woken_at = -1

    def read(self, done: Sequence[Batch]) -> Operation[Batch]:
        """Commit finished batches and read; return an empty batch if there is nothing to read."""
        attempt = 0
        gap = range(0)
        while True:
            after = gap.stop - 1 if gap else self._guess.after
            slack = 0 if gap else self._guess.slack
            token = self._spec.outside.token(8).hex().encode()
            reply = yield from self._send(after, slack, gap, token, done)
            done = ()
            status = reply[0]
            if status == b"ok":
                self._guess.hit(0 if gap else reply[3] - 1 - after, reply[4])
                return self._batch(reply, token)
            if status == b"empty":
                self._newest, self._next_end = reply[2], reply[3]
                return Batch(self._spec.name, self._consumer)
            gap = range(0)
            if status == b"missing":
                gap = yield from self._missing(*reply[3:])
            elif status == b"moved":
                self._guess.missed(reply[3] - 1)
                attempt += 1
                if attempt >= AT_ONCE:
                    yield pause(self._spec, attempt)
            elif status == b"unsubscribed":
                raise not_subscribed(self._spec, self._consumer)
            elif status == b"ahead":
                raise self._lost(reply[3] + 1, reply[2], "the topic was started again")

    def wait(self, timeout: float) -> Operation[None]:
        """Wait for a publish, the end of the next lease, or the block limit."""
        block_limit = min(self._spec.block_limit, timeout)
        if self._next_end >= 0:
            left = self._next_end / 1_000_000 + self._spec.outside.fraction() * WAIT_JITTER
            block_limit = yield from shorten(block_limit, left)
            if not block_limit:
                return
        if self._woken_at == self._newest:
            # The wake-up came from a deleted topic of the same name: do not spin.
            yield Sleep(block_limit)
            return
        # The id of the last entry is the newest index, so no publish between the read and the
        # wait is missed.
        command = (
            b"XREAD",
            b"COUNT",
            1,
            b"BLOCK",
            max(1, round(block_limit * 1000)),
            b"STREAMS",
            self._spec.keys.wake,
            b"%d-0" % self._newest,
        )
        woken = yield from block(self._spec, command, block_limit, self._keys)
        if woken is not INTERRUPTED:
            self._woken_at = self._newest if woken else -1

    def _send(
        self, after: int, slack: int, gap: range, token: bytes, done: Sequence[Batch]
    ) -> Operation[Sequence[Any]]:
        spec, keys = self._spec, self._keys
        named = [
            spec.keys.newest,
            spec.keys.first,
            keys.place,
            keys.leases,
            keys.ranges,
            *spec.keys.messages(after, self._wanted + slack),
        ]
        request = Request(
            (
                len(named),
                *named,
                after,
                self._wanted,
                self._lease_us,
                token,
                gap.start,
                *(batch.receipt for batch in done),
            ),
            script=scripts.load("topic/consume"),
        )
        try:
            reply: Sequence[Any] = yield from call(spec, request, keys)
        except UnknownOutcome:
            # The commits are fenced, so they can be sent again alone. A range that the lost call
            # leased is delivered again after its timeout. If the commits fail too, the caller
            # still learns that the outcome of the read is unknown.
            with contextlib.suppress(RedisError):
                yield from _commit_marking(spec, done)
            raise
        mark_lost(done, reply[1])
        return reply

    def _batch(self, reply: Sequence[Any], token: bytes) -> Batch:
        first, last, deadline = reply[3:6]
        at = (self._spec.name, self._consumer, first, last, reply[6:])
        if not self._lease_us:
            return Batch(*at)
        return Batch(*at, b"%d:%d:%s" % (first, last, token), deadline / 1_000_000)

    def _missing(self, start: int, stop: int, first: int) -> Operation[range]:
        """Return the indexes, from ``start``, whose messages are gone."""
        live = yield from find_live(self._spec, min(max(start, first), stop + 1), stop)
        if live > start and self._spec.config.on_trimmed == "raise":
            raise self._lost(start, live - 1, "they expired or were trimmed")
        return range(start, live)

    def _lost(self, first: int, last: int, why: str) -> PlaceLost:
        return PlaceLost(
            f"topic {self._spec.name!r}: the next messages of consumer {self._consumer!r}, from"
            f" index {first}, are gone: {why}. None was skipped: seek to 'oldest' or an index, or"
            " set on_trimmed='report' to skip them",
            consumer=self._consumer,
            first=first,
            last=last,
        )


def _commit_marking(spec: TopicSpec, batches: Sequence[Batch]) -> Operation[None]:
    """Commit without raising for refused batches: only mark them, as consume does."""
    with contextlib.suppress(LeaseLost):
        yield from commit(spec, batches)


def _lease_us(spec: TopicSpec, visibility_timeout: Seconds | None) -> int:
    if visibility_timeout is None:
        visibility_timeout = spec.config.visibility_timeout
    lease = microseconds(visibility_timeout, "visibility_timeout")
    return lease if spec.config.delivery == "at_least_once" else 0
