"""The sink: tasks stage their rows, and the driver commits them."""

from __future__ import annotations

import contextlib
import functools
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ackq.delay.staging_client import DelayStaging
from ackq.errors import (
    ConfigurationError,
    InvalidMessage,
    PartlyStored,
    StagingLost,
    UnknownOutcome,
)
from ackq.queue.client import Queue
from ackq.queue.staging_client import Staging
from ackq.sharded.operations import shard_of
from ackq.spark.connection import retry
from ackq.spark.row_encoder import Messages, RowEncoder, with_id
from ackq.spark.sink_options import Writing
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged
from ackq.staging.operations import Delayed
from ackq.topic.staging_client import TopicStaging

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ackq.staging.client import StagingBase

#: Rows, and bytes of rows, that a task collects before it stages them. Spark hands over 10,000 rows
#: at a time, and they may go to many lists.
COLLECTED_ROWS, COLLECTED_BYTES = 100_000, 32 * 1024 * 1024
#: Maximum queues or topics to which the rows of one task may go: each has its own connection.
MAX_TARGETS = 1000


def staging_of(writing: Writing, name: str, writer: str) -> StagingBase:
    """Return the staging client for one list: a queue, shard or topic, or a delay queue."""
    client, target = writing.connection.client(), writing.target
    if target.kind == "topic":
        return TopicStaging(
            client, name, writer, max_age=writing.max_age, max_messages=writing.max_messages
        )
    if target.kind == "delayQueue":
        return DelayStaging(client, name, writer, partitions=writing.partitions)
    if target.resized:
        # A batch that was committed to some shards may be replayed after a resize. Some shards keep
        # their names but get other rows: the marker of the former shards must not drop these.
        writer = f"{writer}.{len(target.lists)}"
    return Staging(client, name, writer, pop_from=target.pop_from)


class Task:
    """Stages the rows of one attempt, each on its list, under names unique to the attempt.

    A list is the target, one of its shards, or the queue or topic that the row names.

    A message without an id gets one that is the same if the task runs again on the same rows:
    writer, batch, partition, the shard if there is one, and a number.
    """

    def __init__(self, writing: Writing, writer: str, batch: int, partition: int) -> None:
        """Wait until Redis can be reached; ``partition`` is Spark's."""
        self._writing = writing
        self._batch = batch
        self._partition = partition
        self._rows = 0
        #: Ids made so far, by their prefix.
        self._made: dict[str, int] = {}
        self._made_by = f"{writer}:{batch}:{partition}"
        # In direct mode each task commits its own rows, so each is a separate writer.
        self._writer = writer if writing.mode == "transactional" else uuid.uuid4().hex
        self._attempt = f"{partition:05d}-{secrets.token_hex(8)}"
        self._stagings: dict[str, StagingBase] = {}
        self._queues: dict[str, Queue] = {}
        #: Ready and delayed rows that are not staged yet, by list, and how many and how long.
        self._collected: dict[str, tuple[list[bytes], list[Delayed]]] = {}
        self._collected_rows = self._collected_bytes = 0
        #: The rows staged so far, by list. A commit renames its first list into an empty queue, and
        #: moves the rows of the others one by one, so each task makes only one.
        self.staged: dict[str, Staged] = {}
        #: The server's time at the start of the task, in µs. Delays count from here.
        self._now = 0
        for name in writing.target.lists[:1]:
            self._start(name)

    def add(self, rows: pa.RecordBatch, encoder: RowEncoder) -> None:
        """Collect some rows, and stage them if there are many; in direct mode push them.

        Raises:
            InvalidMessage: a row cannot become a message; the error names the row.
            MessageTooLarge: a message is too long; the error names the row.
            UnknownOutcome: in direct mode, replies were lost during all of ``retryTimeoutMs``; the
                task must run again.
        """
        if not rows.num_rows:
            return
        named = self._targets(rows, encoder) if self._writing.target.column else None
        messages = encoder.encode(rows, self._where, self._now)
        for name, part in self._by_list(messages, named).items():
            self._send(name, part)
        self._rows += rows.num_rows

    def _targets(self, rows: pa.RecordBatch, encoder: RowEncoder) -> list[str]:
        named = encoder.targets(rows, self._where)
        if not self._now:
            self._start(named[0])
        if len({*named, *self._stagings}) > MAX_TARGETS:
            raise InvalidMessage(
                f"the rows of partition {self._partition} name over {MAX_TARGETS} queues or"
                f" topics: column {self._writing.target.column!r} may be the wrong one. If it is"
                " not, repartition the rows by this column first"
            )
        return named

    def _by_list(self, messages: Messages, named: list[str] | None) -> dict[str, Messages]:
        """Divide messages among lists, and add ids to those without one."""
        lists = self._writing.target.lists
        if named is not None:
            self._name(self._made_by, messages)
            return _divided(messages, named)
        if len(lists) == 1:
            self._name(self._made_by, messages)
            return {lists[0]: messages}
        parts = _divided(messages, [lists[shard] for shard in _shards(messages, len(lists))])
        for name, part in parts.items():
            self._name(f"{self._made_by}:{lists.index(name)}", part)
        return parts

    def _start(self, name: str) -> None:
        self._now = retry(self._on(name).now, self._writing.retry_timeout)

    def finish(self) -> None:
        """Stage the rows that are left. In direct mode, commit the delayed rows."""
        self._stage_collected()
        if self._writing.mode == "direct":
            for name, staged in self.staged.items():
                commit = functools.partial(self._on(name).commit, self._batch, [staged])
                retry(commit, self._writing.retry_timeout)
                self._on(name).forget()

    def discard(self) -> None:
        """Delete the staged rows. If Redis cannot be reached, they expire."""
        for name, staged in self.staged.items():
            with contextlib.suppress(Exception):
                self._on(name).discard(self._batch, staged)

    def close(self) -> None:
        """Close the connections."""
        for staging in (*self._stagings.values(), *self._queues.values()):
            staging.close()

    def _send(self, name: str, messages: Messages) -> None:
        bodies = messages.bodies
        delayed: list[Delayed] = []
        if self._writing.target.kind == "delayQueue":
            bodies = self._delayed_rows(messages)
        elif messages.dues:
            bodies, delayed = _split(messages)
        if bodies and self._writing.mode == "direct":
            self._push(name, bodies)
            bodies = []
        if bodies or delayed:
            self._collect(name, bodies, delayed)

    def _collect(self, name: str, bodies: list[bytes], delayed: list[Delayed]) -> None:
        ready, later = self._collected.setdefault(name, ([], []))
        ready += bodies
        later += delayed
        self._collected_rows += len(bodies) + len(delayed)
        self._collected_bytes += sum(map(len, bodies)) + sum(len(body) for _, body in delayed)
        if self._collected_rows >= COLLECTED_ROWS or self._collected_bytes >= COLLECTED_BYTES:
            self._stage_collected()

    def _stage_collected(self) -> None:
        for name, (bodies, delayed) in self._collected.items():
            self._stage(name, bodies, delayed)
        self._collected.clear()
        self._collected_rows = self._collected_bytes = 0

    def _stage(self, name: str, bodies: list[bytes], delayed: list[Delayed]) -> None:
        on, failed = self._on(name), False

        def stage() -> None:
            nonlocal failed
            known = self.staged.setdefault(name, Staged(f"{self._attempt}-0"))
            if failed:
                known = self.staged[name] = on.rename(self._batch, known, _next(known.task))
            failed = True
            staged = replace(known)
            on.stage(self._batch, staged, bodies, delayed)
            self.staged[name] = staged

        retry(stage, self._writing.retry_timeout)

    def _push(self, name: str, bodies: list[bytes]) -> None:
        if name not in self._queues:
            writing = self._writing
            self._queues[name] = Queue(
                writing.connection.client(),
                name,
                max_body_bytes=writing.max_body_bytes,
                pop_from=writing.target.pop_from,
            )
        queue, left = self._queues[name], bodies

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

    def _name(self, prefix: str, messages: Messages) -> None:
        """Add ids to messages without one."""
        first = self._made.get(prefix, 0)
        for number, position in enumerate(messages.unnamed, first):
            messages.bodies[position] = with_id(messages.bodies[position], f"{prefix}:{number}")
        self._made[prefix] = first + len(messages.unnamed)

    def _delayed_rows(self, messages: Messages) -> list[bytes]:
        staging = cast(DelayStaging, self._on(self._writing.target.name))
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

    def _on(self, name: str) -> StagingBase:
        if name not in self._stagings:
            self._stagings[name] = staging_of(self._writing, name, self._writer)
        return self._stagings[name]


def _next(task: str) -> str:
    """Return the name for the next list of a task."""
    attempt, _, number = task.rpartition("-")
    return f"{attempt}-{int(number) + 1}"


def _shards(messages: Messages, shards: int) -> Iterator[int]:
    """Yield the shard of each message, by its id, or by its content if there is no id.

    So a replayed batch puts each message on the same shard, whatever its position.
    """
    for body, key in zip(messages.bodies, messages.keys, strict=True):
        yield shard_of(body.decode(errors="surrogateescape") if key is None else key, shards)


def _divided(messages: Messages, lists: Sequence[str]) -> dict[str, Messages]:
    """Return the messages by list; ``lists`` names that of each message."""
    dealt: dict[str, Messages] = {}
    unnamed = set(messages.unnamed)
    for number, (body, name) in enumerate(zip(messages.bodies, lists, strict=True)):
        part = dealt.setdefault(name, Messages([]))
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


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The rows that one task staged, by list and by writer."""

    writer: str
    staged: dict[str, Staged]


class _Sink:
    """Base of the batch and stream writers. Pickled into every task, so it has no secrets."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, overwrite: bool, *, stream: bool
    ) -> None:
        if overwrite:
            raise ConfigurationError(
                "a queue can only be appended to: outputMode('complete') would write all rows"
                " again with each batch. Use 'append' or 'update'"
                if stream
                else "a queue can only be appended to: use .mode('append')"
            )
        writing = Writing.of(options, stream=stream)
        self._schema = schema
        RowEncoder(schema, writing)  # rejects invalid columns here, not in a task
        self._writing = writing.located()

    def _write(
        self, batches: Iterator[pa.RecordBatch], writer: str, batch: int, partition: int
    ) -> Written:
        encoder = RowEncoder(self._schema, self._writing)
        with contextlib.closing(Task(self._writing, writer, batch, partition)) as task:
            try:
                for rows in batches:
                    task.add(rows, encoder)
                task.finish()
            except BaseException:
                task.discard()
                raise
            return Written(writer, task.staged)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Commit the staged rows of all tasks, one queue, shard or topic after another."""
        written = [each for each in messages if isinstance(each, Written)]
        if len(written) < len(messages):
            raise StagingLost("a task did not report its staged rows. Nothing was committed")
        for name, staging in self._stagings(written):
            tasks = [each.staged[name] for each in written if name in each.staged]
            self._retry(functools.partial(staging.commit, batch, tasks))

    def _abort(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        for _, staging in self._stagings([each for each in messages if isinstance(each, Written)]):
            self._retry(functools.partial(staging.abort, batch))

    def _stagings(self, written: Sequence[Written]) -> Iterator[tuple[str, StagingBase]]:
        """Yield where rows are staged, for each list; nowhere in direct mode."""
        if not written or self._writing.mode == "direct":
            return
        named = sorted({name for each in written for name in each.staged})
        for name in self._writing.target.lists or named:
            with staging_of(self._writing, name, written[0].writer) as staging:
                yield name, staging

    def _retry(self, call: Callable[[], object]) -> None:
        # All operations of a driver can be repeated safely.
        retry(call, self._writing.retry_timeout)


class BatchSink(_Sink, DataSourceArrowWriter):
    """``df.write.format("ackq").mode("append")``.

    Exactly once per ``txnAppId`` and ``txnVersion``. Without them each write is one of its own:
    its rows arrive once, or not at all if it fails before its commit.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Check all options and columns, and whether the queue is sharded."""
        super().__init__(options, schema, overwrite, stream=False)
        self._writer, self._batch = self._writing.transaction or (uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of one task."""
        return self._write(iterator, self._writer, self._batch, _context().partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible."""
        self._commit(messages, self._batch)
        if self._writing.transaction is None:
            # This name is never used again, so its marker is not needed.
            for _, staging in self._stagings([each for each in messages if each is not None]):  # type: ignore[misc]
                self._retry(staging.forget)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the staged rows."""
        self._abort([Written(self._writer, {}), *messages], self._batch)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """``writeStream.format("ackq")``: exactly once per query and batch, over restarts."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Check all options and columns, and whether the queue is sharded."""
        super().__init__(options, schema, overwrite, stream=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of one task."""
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise ConfigurationError("Spark did not set the query and batch of this task")
        return self._write(iterator, query, int(batch), context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows of all tasks visible, unless an earlier run of the batch did."""
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the staged rows."""
        # If no task succeeded, the id of the query is unknown. The staged rows are then deleted by
        # the next run of the batch, or expire.
        self._abort(messages, batchId)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise ConfigurationError("the sink can only write within a Spark task")
    return context
