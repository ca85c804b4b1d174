"""`Pipeline`: run a streaming query, watch it and stop it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackq.errors import ConfigurationError, Fenced, PipelineFailed, PipelineFenced
from ackq.spark import offsets
from ackq.spark.command_session import quiet_session
from ackq.spark.offsets import Offset
from ackq.spark.options import QUEUES, Reading
from ackq.spark.pipeline.backlog import batch_options
from ackq.spark.pipeline.callback import BatchCallback, Stopping
from ackq.spark.pipeline.checkpoint import quicken
from ackq.spark.pipeline.compare import Comparison, compare
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.failure import NO_REPLY, advice, is_jvm_gone, one_line
from ackq.spark.pipeline.lag import Lag
from ackq.spark.pipeline.micro_batches import BatchResult, MicroBatchHandler
from ackq.spark.pipeline.plan import CORRUPT_OPTION, Plan
from ackq.spark.pipeline.progress import Progress
from ackq.spark.pipeline.stateful import StatefulSink
from ackq.spark.pipeline.trial import Trial, Trials
from ackq.spark.shards import Shards, open_queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

#: The format of the source.
FORMAT = "ackq"
#: Seconds between two checks of a query.
WATCH_INTERVAL = 0.2
_FENCED = f"{Fenced.__name__}: "

OnProgress = Callable[[Progress], None]


class Pipeline:
    """Reads a source, validates and transforms the messages, and writes to a sink.

    Guarantee: no message is lost, and none holds up the others. A message that does not parse or
    fails a check becomes a dead letter with a reason, exactly once. The others are written exactly
    once to files, the format ``ackq`` or Delta, and at least once to other formats. If the pipeline
    is killed at any point, the next run with its checkpoint continues from there.
    """

    def __init__(
        self,
        config: PipelineConfig | Mapping[str, Any] | str | Path,
        *,
        spark: SparkSession | None = None,
    ) -> None:
        """Check the configuration, without starting Spark.

        Args:
            config: the path of a TOML file, or a mapping with the same structure, in which a
                callable may be the function itself.
            spark: the session to run in. Defaults to a session of its own, created by
                `ackq.spark.session` and stopped after each run.

        Raises:
            PipelineConfigError: the configuration is not valid. The error names the file, the key
                and a fix.
            ConfigurationError: ``spark`` is a session of Spark Connect, whose callbacks run in
                another process than the pipeline.
        """
        if isinstance(config, str | Path):
            config = PipelineConfig.read(config)
        elif isinstance(config, Mapping):
            config = PipelineConfig.of(config)
        self.config = config
        self.plan = Plan(config)
        if spark is not None and _is_remote(spark):
            raise ConfigurationError(
                "a pipeline cannot run in a Spark Connect session: leave spark= out, and set"
                " spark.master in [spark], or start the pipeline on the cluster with spark-submit"
            )
        self._spark = spark
        self._stops = 0

    def check(self) -> None:
        """Let Spark check the sink's format, the schema, the checks and the SQL. Reads no messages.

        Raises:
            PipelineConfigError: Spark rejects one of them. The error names the key and the reason.
        """
        with self._session() as spark:
            self.plan.check(spark)

    def try_ready(self, rows: int) -> Trial:
        """Apply the schema and the checks to ready messages, without taking any.

        Args:
            rows: how many messages, from the front of the queue or the start of the topic.

        Raises:
            PipelineConfigError: as in `check`.
        """
        with self._session() as spark:
            return Trials(self.plan, spark).sample(rows)

    def try_dead(self, rows: int) -> Trial:
        """Apply the schema and the checks to dead letters of the source queue, oldest first.

        Raises:
            PipelineConfigError: as in `check`.
            ConfigurationError: the source is a topic, which has no dead letters.
        """
        with self._session() as spark:
            return Trials(self.plan, spark).dead(rows)

    def compare(self, old: PipelineConfig, rows: int = 0, *, dead: bool = False) -> Comparison:
        """Compare schema and checks with those of an older configuration.

        Args:
            old: the older configuration.
            rows: messages of this one's source to try both on, without taking any. Defaults to 0.
            dead: try dead letters instead. Defaults to ready messages.

        Raises:
            PipelineConfigError: as in `check`, for either of them.
            ConfigurationError: ``dead`` is set, and the source is a topic.
        """
        with self._session() as spark:
            return compare(old, self.config, spark, rows, dead=dead)

    def redrive(self, rows: int) -> int:
        """Make those of the ``rows`` oldest dead letters ready again that are accepted now.

        Returns how many. Only the schema and the checks are applied, so a message at which the
        transform fails becomes a dead letter again.

        Raises:
            PipelineConfigError: as in `check`.
            ConfigurationError: the source is a topic, which has no dead letters.
        """
        reading = Reading.of(self.config.source.all_options())
        with self._session() as spark:
            accepted = Trials(self.plan, spark).accepted_entries(rows)
        redriven = 0
        for name, entries in accepted.items():
            with open_queue(reading, name) as queue:
                redriven += queue.redrive(entries=entries)
        return redriven

    def stop(self) -> None:
        """Stop `run` after the current micro-batch. A second call aborts the batch.

        Safe to call from a signal handler and from other threads.
        """
        self._stops += 1

    def run(self, *, once: bool = False, on_progress: OnProgress | None = None) -> Progress:
        """Run until `stop` is called, and return the progress of the run.

        Args:
            once: process the messages that are ready now, then return. Also if the trigger of the
                configuration is "once".
            on_progress: called about five times a second, in this thread.

        Raises:
            PipelineConfigError: Spark rejects the format, the schema, a check or the SQL. Nothing
                was read.
            redis.ConnectionError: Redis cannot be reached at the start. Later, calls are retried
                for ``retryTimeoutMs``.
            PipelineFailed: the query failed. Its claimed messages are kept for the next run.
            PipelineFenced: another process took over the group of claims.
        """
        self._stops = 0
        reading = Reading.of(self.config.source.all_options()).located(patient=False)
        with closing(Lag(reading)) as lag:
            lag.check_connection()  # before Spark is started, which takes seconds
            progress = Progress(self.config.name, lag=lag.count(None))
            if on_progress is not None:
                on_progress(progress)
            with self._session() as spark:
                self.plan.check(spark)
                if self._spark is None:
                    quicken(spark, self.config.checkpoint)
                return _Run(self, spark, reading, lag, progress, on_progress).run(
                    once or self.config.once
                )

    @property
    def stops(self) -> int:
        """Number of calls of `stop` since the run began."""
        return self._stops

    def _session(self) -> AbstractContextManager[SparkSession]:
        return quiet_session(f"ackq pipeline {self.config.name}", self.config.spark, self._spark)


class _Run:
    """The query of a pipeline, and those of its stateful sinks."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        reading: Reading,
        lag: Lag,
        progress: Progress,
        on_progress: OnProgress | None,
    ) -> None:
        self._pipeline = pipeline
        self._config, self._plan = pipeline.config, pipeline.plan
        self._spark = spark
        self._reading = reading
        self._lag = lag
        self._on_progress = on_progress
        self._done: list[BatchResult] = []
        self._batches = MicroBatchHandler(self._config, self._plan, reading, self._done.append)
        self._stateful = [
            StatefulSink(self._config, self._plan, each)
            for each in self._config.sinks
            if each.stateful is not None
        ]
        self._progress = progress

    def run(self, once: bool) -> Progress:
        query: StreamingQuery | None = None
        try:
            if not once:
                self._start_stateful(once)
            query = self._start(once)
            self._watch(query)
            self._ack_last_batch(query)
            if once and not self._pipeline.stops:
                self._start_stateful(once)
            self._watch_stateful(query)
        except NO_REPLY as error:
            if not is_jvm_gone(error):
                raise
            raise self._failure(error, self._batches) from error
        finally:
            self._batches.aborted = True
            with suppress(*NO_REPLY):
                for each in self._stateful:
                    each.stop(abort=True)
                if query is not None:
                    query.stop()
        self._show(query, "stopped")
        return self._progress

    def _start(self, once: bool) -> StreamingQuery:
        reader = self._spark.readStream.format(FORMAT)
        # Only this process knows the executors; what the user sets comes later and wins.
        reader = reader.option("parallelism", self._spark.sparkContext.defaultParallelism)
        if once:
            reader = reader.options(**batch_options(self._reading, self._config.source.options))
        reader = reader.options(**self._plan.source_options)
        if several := self._reading.target.several:
            # All processes must agree on the queues that match a pattern.
            reader = reader.option(QUEUES, ",".join(several))
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

    def _start_stateful(self, once: bool) -> None:
        for each in self._stateful:
            each.start(self._spark, once)

    def _watch_stateful(self, query: StreamingQuery) -> None:
        """Wait until the queries of the stateful sinks have ended, and stop them if requested.

        Raises:
            PipelineFailed: one ended with an error.
        """
        while any(each.is_active for each in self._stateful):
            self._check_stateful()
            for each in self._stateful:
                if self._pipeline.stops:
                    each.stop(abort=self._pipeline.stops > 1)
            self._show(query, "stopping" if self._pipeline.stops else "working")
            time.sleep(WATCH_INTERVAL)
        self._check_stateful()

    def _check_stateful(self) -> None:
        for each in self._stateful:
            if (error := each.error) is not None:
                cause = each.batches.error or error
                raise self._failure(error, each.batches, f"[{each.section}] ") from cause

    def _watch(self, query: StreamingQuery) -> None:
        """Wait until the query ends, and stop it if requested.

        Raises:
            PipelineFailed: the query ended with an error.
        """
        while query.isActive:
            state = "working" if self._batches.busy else "waiting"
            if self._pipeline.stops:
                state = "stopping"
                self._batches.stopping = True
                if self._pipeline.stops > 1 or self._batches.is_between_batches(query):
                    self._batches.aborted = True
                    query.stop()
                    return
            self._check_stateful()
            self._show(query, state)
            time.sleep(WATCH_INTERVAL)
        error = query.exception()
        if error is not None and not isinstance(self._batches.error, Stopping):
            raise self._failure(error, self._batches) from (self._batches.error or error)

    def _ack_last_batch(self, query: StreamingQuery) -> None:
        """Ack the last batch. The query itself would ack it only with the next batch."""
        reached, epochs = _reached(query.lastProgress), _epochs(query)
        if reached is None or not epochs or self._pipeline.stops > 1:
            return
        shards = Shards(self._reading)
        # Use the epochs of the query, so that a query that took over the group is not fenced.
        shards.adopt(epochs)
        with suppress(Fenced):
            shards.ack(offsets.read(reached, self._reading.source, "batch")[0], 0.0)

    def _failure(
        self, error: Exception, batches: BatchCallback, section: str = ""
    ) -> PipelineFailed:
        cause, number = batches.error, batches.number
        where = "the query failed" if cause is None else f"batch {number} failed"
        reason = one_line(cause or error)
        kind = PipelineFenced if reason.startswith(_FENCED) else PipelineFailed
        return kind(
            f"{self._config.name}: {section}{where}: {reason}.{advice(cause or error)}"
            " Nothing is lost: the claimed messages are kept, and the next run begins with them",
            batch=None if cause is None else number,
        )

    def _show(self, query: StreamingQuery | None, state: str) -> None:
        progress = self._progress
        done = [self._done.pop(0) for _ in range(len(self._done))]
        last = query.lastProgress if query is not None else None
        newest = done[-1] if done else progress.batch
        # Spark reports a batch some time after it was written.
        is_unreported = newest is not None and (last is None or last.batchId < newest.number)
        progress.lag = self._lag.count(
            _reached(last),
            newest.rows if newest is not None and is_unreported else 0,
            at_once=bool(done) or state == "stopped",
        )
        progress.search = self._batches.search
        for each in self._stateful:
            each.count_late()
        progress.late = sum(each.late for each in self._stateful)
        for batch in done:  # before the new state, so that no line of a batch follows it
            if progress.state != "stopping":
                progress.state = "working"
            progress.add(batch)
            self._notify()
        progress.state = state
        progress.tick()
        self._notify()

    def _notify(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._progress)


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _reached(last: StreamingQueryProgress | None) -> Offset | None:
    """Return the offset of the last batch that is in the commit log."""
    end = last.sources[0].endOffset if last is not None else None
    return json.loads(end) if end else None


def _epochs(query: StreamingQuery) -> list[int]:
    """Return the epochs of the source's claims; none for a topic."""
    last = query.lastProgress
    latest = json.loads((last and last.sources[0].latestOffset) or "null") or {}
    return list(latest.get("epochs", ()))
