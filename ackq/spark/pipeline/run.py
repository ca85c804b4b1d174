"""`Pipeline`: runs as a streaming query, and is watched and stopped from here."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackq.errors import Fenced, PipelineFailed, PipelineFenced, redact
from ackq.spark import offsets
from ackq.spark.offsets import Offset
from ackq.spark.options import Reading
from ackq.spark.pipeline.batches import Batch, Batches, Stopping
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.lag import Lag
from ackq.spark.pipeline.plan import CORRUPT_OPTION, Plan
from ackq.spark.pipeline.progress import Progress
from ackq.spark.quiet import quiet_session
from ackq.spark.shards import Shards

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

#: What reads the source.
FORMAT = "ackq"
#: Seconds between two looks at a query.
LOOK = 0.2
#: What ackq raised in a process of Spark's, as its traceback there ends.
_OURS = re.compile(r"^(?:ackq\.errors|redis\.exceptions)\.(\w+: .*)$", re.MULTILINE)
_FENCED = f"{Fenced.__name__}: "
_NEW_LINE = "\n"

OnProgress = Callable[[Progress], None]


class Pipeline:
    """A queue or a topic, through validation and a transform, into a sink.

    Guarantee: no message is lost, and none holds up the others. What does not parse or fails a
    check becomes a dead letter, with the reason, once. The rest is in the sink once if that is
    files, the format ``ackq`` or Delta, and at least once in any other. It may be killed anywhere;
    started again with its checkpoint it goes on where it was.
    """

    def __init__(
        self,
        config: PipelineConfig | Mapping[str, Any] | str | Path,
        *,
        spark: SparkSession | None = None,
    ) -> None:
        """Check the configuration; Spark is not started.

        Args:
            config: a TOML file, or what would be in one as a mapping; there a callable may be the
                function itself.
            spark: the session to run in. Defaults to one of its own, as `ackq.spark.session`
                makes it, ended after each run.

        Raises:
            PipelineConfigError: says which file and which key, and what to do.
        """
        if isinstance(config, str | Path):
            config = PipelineConfig.read(config)
        elif isinstance(config, Mapping):
            config = PipelineConfig.of(config)
        self.config = config
        self.plan = Plan(config)
        self._given = spark
        self._stops = 0

    def check(self) -> None:
        """Let Spark find the format and analyse schema, checks and SQL, without reading anything.

        Raises:
            PipelineConfigError: says which key, and what Spark makes of it.
        """
        with self._session() as spark:
            self.plan.check(spark)

    def stop(self) -> None:
        """Let the micro-batch in hand end, then `run`; a second call ends it at once.

        Safe to call from a signal handler and from other threads.
        """
        self._stops += 1

    def run(self, *, once: bool = False, on_progress: OnProgress | None = None) -> Progress:
        """Run until `stop`, and return what was done.

        Args:
            once: run until what is there now is done.
            on_progress: called about five times a second, from this thread.

        Raises:
            PipelineConfigError: Spark refused the format, the schema, a check or the SQL; nothing
                was read.
            redis.ConnectionError: Redis cannot be reached now. Later on it is waited for.
            PipelineFailed: the query ended with an error. What it had taken is kept for the next
                run, which begins with it.
            PipelineFenced: since another process took its group of claims over.
        """
        self._stops = 0
        reading = Reading.of(self.config.source.all_options())
        with closing(Lag(reading)) as lag:
            lag.reach()  # before Spark is started, which takes seconds
            with self._session() as spark:
                self.plan.check(spark)
                return _Run(self, spark, reading, lag, on_progress).run(once)

    @property
    def stops(self) -> int:
        """How often `stop` was called since the run began."""
        return self._stops

    def _session(self) -> AbstractContextManager[SparkSession]:
        return quiet_session(f"ackq pipeline {self.config.name}", self.config.spark, self._given)


class _Run:
    """One query of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        reading: Reading,
        lag: Lag,
        on_progress: OnProgress | None,
    ) -> None:
        self._pipeline = pipeline
        self._config, self._plan = pipeline.config, pipeline.plan
        self._spark = spark
        self._reading = reading
        self._lag = lag
        self._on_progress = on_progress
        self._done: list[Batch] = []
        self._batches = Batches(self._config, self._plan, self._done.append)
        self._progress = Progress(self._config.name)

    def run(self, once: bool) -> Progress:
        query = self._start(once)
        try:
            self._watch(query)
            self._settle(query)
        finally:
            self._batches.ended = True
            query.stop()
            self._batches.close()
        self._show(query, "stopped")
        return self._progress

    def _start(self, once: bool) -> StreamingQuery:
        self._show(None, "starting")
        reader = self._spark.readStream.format(FORMAT)
        reader = reader.options(**self._config.source.all_options())
        if self._plan.schema is not None:
            reader = reader.schema(self._plan.schema).option(*CORRUPT_OPTION)
        writer = self._plan.checked(reader.load()).writeStream.foreachBatch(self._batches)
        writer = writer.option("checkpointLocation", self._config.checkpoint)
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(
                processingTime=f"{round(self._config.every * 1000)} milliseconds"
            )
        query = writer.queryName(self._config.name).start()
        self._batches.start(query.id)
        return query

    def _watch(self, query: StreamingQuery) -> None:
        """Return when the query has ended.

        Raises:
            PipelineFailed: with an error.
        """
        while query.isActive:
            state = "working" if self._batches.busy else "waiting"
            if self._pipeline.stops:
                state = "stopping"
                self._batches.stopping = True
                if self._pipeline.stops > 1 or self._between_batches(query):
                    self._batches.ended = True
                    query.stop()
                    return
            self._show(query, state)
            time.sleep(LOOK)
        error = query.exception()
        if error is not None and not isinstance(self._batches.error, Stopping):
            raise self._failure(error) from (self._batches.error or error)

    def _between_batches(self, query: StreamingQuery) -> bool:
        """Return whether no batch is in hand, and the last one is in the commit log."""
        number = self._batches.number
        last = query.lastProgress
        return not self._batches.busy and (
            number < 0 or (last is not None and last.batchId >= number)
        )

    def _settle(self, query: StreamingQuery) -> None:
        """Ack the last batch, as the query itself would do at the next one."""
        reached, epochs = _reached(query.lastProgress), _epochs(query)
        if reached is None or not epochs or self._pipeline.stops > 1:
            return
        shards = Shards(self._reading)
        # As the query, and not as its successor: one that was started meanwhile has the group.
        shards.adopt(epochs)
        with suppress(Fenced):
            shards.ack(offsets.read(reached, self._reading.source, "batch")[0], 0.0)

    def _failure(self, error: Exception) -> PipelineFailed:
        cause, number = self._batches.error, self._batches.number
        where = "the query failed" if cause is None else f"batch {number} failed"
        reason = _one_line(cause or error)
        kind = PipelineFenced if reason.startswith(_FENCED) else PipelineFailed
        return kind(
            f"{self._config.name}: {where}: {reason}. Nothing is lost: what it had taken is kept,"
            " and the next run begins with it",
            batch=None if cause is None else number,
        )

    def _show(self, query: StreamingQuery | None, state: str) -> None:
        progress = self._progress
        done = [self._done.pop(0) for _ in range(len(self._done))]
        last = query.lastProgress if query is not None else None
        newest = done[-1] if done else progress.batch
        # Spark tells of a batch some time after it was written.
        is_untold = newest is not None and (last is None or last.batchId < newest.number)
        progress.lag = self._lag.count(
            _reached(last),
            newest.rows if newest is not None and is_untold else 0,
            at_once=bool(done) or state == "stopped",
        )
        for batch in done:  # first of all: no line may follow the new state
            if progress.state != "stopping":
                progress.state = "working"
            progress.add(batch)
            self._tell()
        progress.state = state
        progress.tick()
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._progress)


def _reached(last: StreamingQueryProgress | None) -> Offset | None:
    """Return the offset of the last batch that is in the commit log."""
    end = last.sources[0].endOffset if last is not None else None
    return json.loads(end) if end else None


def _epochs(query: StreamingQuery) -> list[int]:
    """Return the epochs under which the source holds its claims; none of a topic."""
    last = query.lastProgress
    told = json.loads((last and last.sources[0].latestOffset) or "null") or {}
    return list(told.get("epochs", ()))


def _one_line(error: BaseException) -> str:
    """Return what went wrong in a line: of Spark's reports, what ackq itself said in them."""
    text = redact(str(error))
    if found := _OURS.findall(text):
        return str(found[-1])
    return f"{type(error).__name__}: {text.strip().partition(_NEW_LINE)[0]}"
