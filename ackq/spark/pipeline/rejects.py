"""Write the rejected rows of a batch to the dead letters, in bounded slices, on any process."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count, groupby, islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from ackq.core.page_size import TARGET
from ackq.errors import PlaceLost
from ackq.queue.row_dead_letters import RejectedRow
from ackq.queue.row_dead_letters_client import RowDeadLetters
from ackq.spark.claim_reader import MAX_PER_CALL, bodies_at
from ackq.spark.connection import retry
from ackq.spark.formats.misfit import Misfit
from ackq.spark.options import Parsing, Reading
from ackq.spark.pipeline.plan import UNPARSED
from ackq.spark.topic_source import bodies_of
from ackq.spark.values import MISFITS, converter, fitting

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

#: Why a body of JSON fits no schema.
MALFORMED = "not a JSON object"


def sql_of(kind: DataType) -> str:
    """Return a type as in DDL. Names of fields keep their case, which JSON distinguishes."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{each.name}: {sql_of(each.dataType)}' for each in kind)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_of(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{sql_of(kind.keyType)}, {sql_of(kind.valueType)}>"
    return kind.simpleString().upper()


class Misfits:
    """Finds the columns that bodies do not fit."""

    def __init__(self, columns: Sequence[StructField], parsing: Parsing) -> None:
        """Prepare.

        Args:
            columns: that are parsed.
            parsing: how they are parsed.
        """
        self._decode = parsing.format.decoder(columns)
        self._columns = [
            (column.name, sql_of(column.dataType), converter(column.dataType, parsing.time_zone))
            for column in columns
        ]

    def of(self, body: bytes) -> list[str]:
        """Return the reasons, such as "size is not INT"; none if the body fits."""
        try:
            fields = self._decode(body)
        except Misfit as misfit:
            return [str(misfit)]
        except MISFITS:
            return [MALFORMED]
        values = ((fields.get(name), name, kind, convert) for name, kind, convert in self._columns)
        return [
            f"{name} is not {kind}"
            for value, name, kind, convert in values
            if value is not None and not fitting(convert, value)[1]
        ]


#: Most rows of one claim or topic that are looked at together.
MAX_ROWS = 10_000
#: Columns that a reason names.
MAX_COLUMNS = 3

#: A row without its body: the values of `Plan.row_columns`, and why it was rejected.
Rejected = tuple[Any, ...]
Fetch = Callable[[int, int], Sequence[bytes | None]]


@dataclass(frozen=True)
class Rejects:
    """The rejected rows of one batch. Pickled into tasks.

    Rows have no bodies: those are read from Redis again, about a mebibyte at a time, and written
    before the next are read. So neither Spark nor this process needs memory for a whole batch.
    """

    reading: Reading
    #: The queue for the dead letters; None: the queue of each row.
    queue: str | None
    #: The names of the writer and of its batch.
    writer: str
    batch: str
    #: The columns that bodies may not fit. Defaults to none.
    columns: tuple[StructField, ...] = ()

    def begin(self) -> None:
        """Begin the batch, on the driver, before any row is written."""
        queues = self.reading.target.lists if self.queue is None else (self.queue,)
        for queue in queues:
            letters = _dead_letters(self.reading, queue, self.writer)
            retry(partial(letters.begin, self.batch), self.reading.retry_timeout)

    def write_partition(self, rows: Iterable[Rejected]) -> Iterator[tuple[int, Counter[str]]]:
        """Write the rows of a task; yield their number, also by reason. For ``mapPartitions``.

        Rows whose bodies are gone have no reason.
        """
        seen = count()
        reasons = self.write(row for row, _ in zip(rows, seen, strict=False))
        yield next(seen), reasons

    def write(self, rows: Iterable[Rejected]) -> Counter[str]:
        """Write some rows; return their number by reason.

        Raises:
            BatchSuperseded: the driver has begun another batch.
            ClaimLost, PlaceLost: a body is gone, and ``failOnDataLoss`` is set.
        """
        reasons: Counter[str] = Counter()
        misfits = Misfits(self.columns, self.reading.parsing)
        for source, group in groupby(rows, lambda row: row[:-2]):
            while wanted := {position: reason for *_, position, reason in islice(group, MAX_ROWS)}:
                reasons += self._write_from(source, wanted, misfits)
        return reasons

    def _write_from(
        self, source: Sequence[Any], wanted: dict[int, str], misfits: Misfits
    ) -> Counter[str]:
        origin, *claim = source
        name = ":".join(map(str, source))
        reasons: Counter[str] = Counter()
        for bodies in self._bodies(sorted(wanted), self._fetcher(origin, *claim)):
            rejects = [
                RejectedRow(f"{name}:{position}", body, _in_detail(wanted[position], body, misfits))
                for position, body in bodies
                if body is not None
            ]
            if len(rejects) < len(bodies):
                self._allow_loss(origin, next(at for at, body in bodies if body is None))
            self._append(self.queue or origin, rejects)
            reasons.update(each.reason for each in rejects)
        return reasons

    def _append(self, queue: str, rows: list[RejectedRow]) -> None:
        letters = _dead_letters(self.reading, queue, self.writer)
        retry(lambda: letters.reject(self.batch, rows), self.reading.retry_timeout)

    def _bodies(
        self, positions: Sequence[int], fetch: Fetch
    ) -> Iterator[list[tuple[int, bytes | None]]]:
        """Yield ``positions`` with their bodies.

        A call reads all messages from one position to the last one within reach, since a call
        costs more than the messages in between. The reach grows to about a mebibyte.
        """
        at, reach = 0, 1
        while at < len(positions):
            first = positions[at]
            end = bisect_left(positions, first + reach, at)
            count = positions[end - 1] + 1 - first
            bodies = retry(partial(fetch, first, count), self.reading.retry_timeout)
            yield [(position, bodies[position - first]) for position in positions[at:end]]
            average = 1 + sum(len(body or b"") for body in bodies) // count
            at, reach = end, max(1, min(2 * reach, MAX_PER_CALL, TARGET // average))

    def _fetcher(self, origin: str, *claim: int) -> Fetch:
        if claim:
            return partial(bodies_at, self.reading, origin, *claim)
        return bodies_of(self.reading.connection, origin).read

    def _allow_loss(self, topic: str, index: int) -> None:
        """Raise `PlaceLost` if ``failOnDataLoss`` is set. Claims raise their own error."""
        if self.reading.fail_on_data_loss:
            raise PlaceLost(
                f"topic {topic!r}: index {index} expired or was trimmed before it could be written"
                " to the dead letters. Set failOnDataLoss=false to go on without such messages",
                first=index,
                last=index,
            )


def _in_detail(reason: str, body: bytes, misfits: Misfits) -> str:
    """Return a reason with the columns that a body does not fit."""
    if reason != UNPARSED or not (columns := misfits.of(body)):
        return reason
    more = f" and {len(columns) - MAX_COLUMNS} more" if len(columns) > MAX_COLUMNS else ""
    return f"{reason}: {', '.join(columns[:MAX_COLUMNS])}{more}"


@lru_cache(maxsize=256)
def _dead_letters(reading: Reading, queue: str, writer: str) -> RowDeadLetters:
    """Return a writer. Cached, so a reused process keeps its connections."""
    return RowDeadLetters(reading.connection.client(), queue, writer)
