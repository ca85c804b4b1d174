"""One attempt of one task of a sink."""

from __future__ import annotations

import contextlib
import functools
import itertools
import secrets
import uuid
from typing import TYPE_CHECKING, cast

from ackq.delay.staging_client import DelayStaging
from ackq.errors import PartlyStored, UnknownOutcome
from ackq.queue.client import Queue
from ackq.queue.staging_client import Staging
from ackq.sharded.operations import shard_of
from ackq.spark.retry import retry
from ackq.spark.row_encoder import Messages, RowEncoder, with_id
from ackq.spark.sink_options import Writing
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged
from ackq.staging.operations import Delayed
from ackq.topic.staging_client import TopicStaging

if TYPE_CHECKING:
    import pyarrow as pa


def staging_of(writing: Writing, shard: int, writer: str) -> StagingBase:
    """Return the staging client for one shard."""
    client, target = writing.connection.client(), writing.target
    if target.kind == "topic":
        return TopicStaging(
            client, target.name, writer, max_age=writing.max_age, max_messages=writing.max_messages
        )
    if target.kind == "delayQueue":
        return DelayStaging(client, target.name, writer, partitions=writing.partitions)
    return Staging(client, target.lists[shard], writer, pop_from=target.pop_from)


class Task:
    """Stages the rows of one attempt, each on its shard, under names unique to the attempt.

    A message without an id gets one that is the same if the task runs again on the same rows:
    writer, batch, partition, the shard if there is one, and a number.
    """

    def __init__(self, writing: Writing, writer: str, batch: int, partition: int) -> None:
        """Wait until Redis can be reached; ``partition`` is Spark's."""
        self._writing = writing
        self._batch = batch
        self._partition = partition
        self._rows = 0
        self._made: dict[int, int] = {}
        self._made_by = f"{writer}:{batch}:{partition}"
        # In direct mode each task commits its own rows, so each is a separate writer.
        self._writer = writer if writing.mode == "transactional" else uuid.uuid4().hex
        self._attempt = f"{partition:05d}-{secrets.token_hex(8)}"
        self._lists = itertools.count()
        self._stagings: dict[int, StagingBase] = {}
        self._queues: dict[int, Queue] = {}
        #: The rows staged so far, by shard.
        self.staged: dict[int, list[Staged]] = {}
        #: The server's time at the start of the task, in µs. Delays count from here.
        self._now = retry(self._on(0).now, writing.retry_timeout)

    def add(self, rows: pa.RecordBatch, encoder: RowEncoder) -> None:
        """Stage some rows, or push them in direct mode.

        Raises:
            InvalidMessage: a row cannot become a message; the error names the row.
            MessageTooLarge: a message is too long; the error names the row.
            UnknownOutcome: in direct mode, replies were lost during all of ``retryTimeoutMs``; the
                task must run again.
        """
        messages = encoder.encode(rows, self._where, self._now)
        shards = len(self._writing.target.lists)
        for shard, part in (_by_shard(messages, shards) if shards > 1 else {0: messages}).items():
            self._send(shard, part)
        self._rows += rows.num_rows

    def finish(self) -> None:
        """In direct mode, commit the delayed rows."""
        if self._writing.mode == "direct":
            for shard, staged in self.staged.items():
                commit = functools.partial(self._on(shard).commit, self._batch, staged)
                retry(commit, self._writing.retry_timeout)
                self._on(shard).forget()

    def discard(self) -> None:
        """Delete the staged rows. If Redis cannot be reached, they expire."""
        for shard, lists in self.staged.items():
            with contextlib.suppress(Exception):
                for staged in lists:
                    self._on(shard).discard(self._batch, staged)

    def close(self) -> None:
        """Close the connections."""
        for each in (*self._stagings.values(), *self._queues.values()):
            each.close()

    def _send(self, shard: int, messages: Messages) -> None:
        self._name(shard, messages)
        bodies = messages.bodies
        delayed: list[Delayed] = []
        if self._writing.target.kind == "delayQueue":
            bodies = self._delayed_rows(messages)
        elif messages.dues:
            bodies, delayed = _split(messages)
        if bodies and self._writing.mode == "direct":
            self._push(shard, bodies)
            bodies = []
        if bodies or delayed:
            stage = functools.partial(self._stage, shard, bodies, delayed)
            staged = retry(stage, self._writing.retry_timeout)
            self.staged.setdefault(shard, []).append(staged)

    def _stage(self, shard: int, bodies: list[bytes], delayed: list[Delayed]) -> Staged:
        # Use a new list for each attempt: after a lost reply, the contents of the old list are
        # unknown, so it is left to be deleted.
        staged = Staged(f"{self._attempt}-{next(self._lists):04d}")
        self._on(shard).stage(self._batch, staged, bodies, delayed)
        return staged

    def _push(self, shard: int, bodies: list[bytes]) -> None:
        if shard not in self._queues:
            writing = self._writing
            self._queues[shard] = Queue(
                writing.connection.client(),
                writing.target.lists[shard],
                max_body_bytes=writing.max_body_bytes,
                pop_from=writing.target.pop_from,
            )
        queue, left = self._queues[shard], bodies

        def push() -> None:
            nonlocal left
            try:
                queue.push_many(left)
            except UnknownOutcome as error:
                left = left[error.stored :]  # do not push confirmed messages again
                raise
            except PartlyStored as error:
                left = left[error.stored :]
                # The cause of the failure decides whether to retry.
                raise error.__cause__ or error from None

        retry(push, self._writing.retry_timeout)

    def _name(self, shard: int, messages: Messages) -> None:
        """Add ids to messages without one."""
        sharded = len(self._writing.target.lists) > 1
        prefix = f"{self._made_by}:{shard}" if sharded else self._made_by
        first = self._made.get(shard, 0)
        for number, position in enumerate(messages.unnamed, first):
            messages.bodies[position] = with_id(messages.bodies[position], f"{prefix}:{number}")
        self._made[shard] = first + len(messages.unnamed)

    def _delayed_rows(self, messages: Messages) -> list[bytes]:
        staging = cast(DelayStaging, self._on(0))
        dues = messages.dues or [None] * len(messages.bodies)
        return [
            staging.row(
                f"{self._made_by}:{number}" if key is None else key,
                self._now if due is None else due,
                body,
            )
            for number, (key, due, body) in enumerate(
                zip(messages.keys, dues, messages.bodies, strict=True), self._rows
            )
        ]

    def _where(self, number: int) -> str:
        return f"row {self._rows + number} of partition {self._partition}, counted from 0"

    def _on(self, shard: int) -> StagingBase:
        if shard not in self._stagings:
            self._stagings[shard] = staging_of(self._writing, shard, self._writer)
        return self._stagings[shard]


def _by_shard(messages: Messages, shards: int) -> dict[int, Messages]:
    """Assign messages to shards by id, or by content if there is no id.

    So a replayed batch puts each message on the same shard, whatever its position.
    """
    dealt: dict[int, Messages] = {}
    unnamed = set(messages.unnamed)
    for number, (body, key) in enumerate(zip(messages.bodies, messages.keys, strict=True)):
        shard = shard_of(body.decode(errors="surrogateescape") if key is None else key, shards)
        part = dealt.setdefault(shard, Messages([]))
        if number in unnamed:
            part.unnamed.append(len(part.bodies))
        part.bodies.append(body)
        if messages.dues:
            part.dues.append(messages.dues[number])
    return dealt


def _split(messages: Messages) -> tuple[list[bytes], list[Delayed]]:
    """Split messages into those that are ready at once and those that become ready later."""
    bodies: list[bytes] = []
    delayed: list[Delayed] = []
    for body, due in zip(messages.bodies, messages.dues, strict=True):
        if due is None:
            bodies.append(body)
        else:
            delayed.append((due, body))
    return bodies, delayed
