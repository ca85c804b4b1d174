"""`Pipeline`: run a streaming query, watch it and stop it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType
from redis.exceptions import NoPermissionError

from ackq.errors import (
    CheckpointMismatch,
    ConfigurationError,
    Fenced,
    PipelineConfigError,
    PipelineFailed,
)
from ackq.spark.checkpoint import local_folder, quicken
from ackq.spark.launch import is_submitted, quiet_session
from ackq.spark.lists import located
from ackq.spark.options import EPOCHS, MAX_MESSAGES, QUEUES, Reading
from ackq.spark.pipeline.checkpoint_log import CheckpointLog
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.failure import NO_REPLY, failure, is_jvm_gone, one_line
from ackq.spark.pipeline.micro_batches import BatchResult, MicroBatchHandler
from ackq.spark.pipeline.plan import CORRUPT_OPTION, Plan
from ackq.spark.pipeline.progress import Progress
from ackq.spark.pipeline.query import BacklogQuery, BatchCallback, Query, SparkQuery, Stopping
from ackq.spark.pipeline.section import refused
from ackq.spark.pipeline.spark_settings import check_places
from ackq.spark.pipeline.stateful import StatefulSink
from ackq.spark.pipeline.status import Lag
from ackq.spark.pipeline.trial import Trial, Trials
from ackq.spark.shards import Shards, open_queue
from ackq.spark.source import AckqDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: The format of the source.
SOURCE = AckqDataSource
#: Seconds between two checks of a query.
WATCH_INTERVAL = 0.2

#: Messages up to which a run with ``once`` is short for Java; see `ackq.spark.launch.SHORT`. Longer
#: runs were not measured.
FEW_MESSAGES = 500_000

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
        reading = self._located()
        with closing(Lag(reading)) as lag:
            lag.check_connection()  # before Spark is started, which takes seconds
            progress = Progress(self.config.name, lag=lag.count(None))
            if on_progress is not None:
                on_progress(progress)
            once = once or self.config.once
            is_short = once and progress.lag is not None and progress.lag <= FEW_MESSAGES
            with self._session(is_short) as spark:
                self.plan.check(spark)
                if self._spark is None:
                    quicken(spark, self.config.checkpoint)
                return _Run(self, spark, reading, lag, progress, on_progress).run(once)

    @property
    def stops(self) -> int:
        """Number of calls of `stop` since the run began."""
        return self._stops

    def _located(self) -> Reading:
        try:
            return located(Reading.of(self.config.source.all_options()), patient=False)
        except ConfigurationError as error:
            raise PipelineConfigError(
                f"{self.config.where}: [source]: {error}", key="source"
            ) from error

    @contextmanager
    def _session(self, is_short: bool = False) -> Iterator[SparkSession]:
        with ExitStack() as stack:
            name = f"ackq pipeline {self.config.name}"
            if self._spark is None and not is_submitted():
                check_places(self.config.where, self.config.spark)
            try:
                session = quiet_session(name, self.config.spark, self._spark, is_short=is_short)
                spark = stack.enter_context(session)
            except (*NO_REPLY, PySparkException) as error:
                raise PipelineConfigError(
                    f"{self.config.where}: [spark]: Spark does not start with these settings:"
                    f" {one_line(error)}",
                    key="spark",
                ) from error
            yield spark


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
        self._folder = self._make_folder()
        self._log = None if self._folder is None else CheckpointLog(self._folder)
        self._claims = Shards(reading)
        self._batches = MicroBatchHandler(
            self._config, self._plan, reading, self._claims, self._done.append
        )
        self._stateful = [
            StatefulSink(self._config, self._plan, each)
            for each in self._config.sinks
            if each.stateful is not None
        ]
        self._progress = progress

    def run(self, once: bool) -> Progress:
        query: Query | None = None
        try:
            if self._log is not None:  # before a stateful sink reads what was restored with it
                self._claims.check_checkpoint(*self._log.ends())
            if not once:
                self._start_stateful(once)
            query = self._start(once)
            self._watch(query)
            if self._pipeline.stops < 2:
                self._ack_last_batch(query)
            if once and not self._pipeline.stops:
                self._start_stateful(once)
            self._watch_stateful(query)
        except CheckpointMismatch as error:
            raise self._failure(error, self._batches) from error
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

    def _make_folder(self) -> Path | None:
        """Make the folder of the checkpoint, if it is on a local disk."""
        folder = local_folder(self._spark, self._config.checkpoint)
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                problem = f"cannot be made: {error.strerror}: {folder}"
                raise refused(self._config.where, "", "checkpoint", problem) from error
        return folder

    def _check_name(self) -> None:
        names = [each.name for each in self._spark.streams.active]
        if self._config.name in names:
            raise ConfigurationError(
                f"{self._config.where}: name: a query named {self._config.name!r} already runs in"
                " this session: stop it first, or choose another name"
            )

    def _start(self, once: bool) -> Query:
        self._check_name()
        options = self._options(once)
        if once and self._log is not None and not self._plan.uses_current_time(self._spark):
            return self._start_backlog(self._log, options)
        reader = self._spark.readStream.format(SOURCE.name()).options(**options)
        if self._plan.schema is not None:
            reader = reader.schema(self._plan.schema)
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
        return SparkQuery(query)

    def _start_backlog(self, log: CheckpointLog, options: Mapping[str, str]) -> Query:
        source, ddl = SOURCE(dict(options)), self._plan.schema
        schema = source.schema() if ddl is None else cast("StructType", DataType.fromDDL(ddl))
        reader, prepare = source.streamReader(schema), self._plan.checked
        return BacklogQuery(self._spark, reader, schema, log, prepare, self._batches)

    def _options(self, once: bool) -> dict[str, str]:
        """Return the options of the source. What the user sets wins."""
        # Only this process knows the executors.
        options = {"parallelism": str(self._spark.sparkContext.defaultParallelism)}
        options[EPOCHS] = self._claims.epochs
        if once:
            options |= batch_options(self._reading, self._config.source.options)
        options |= self._plan.source_options
        if several := self._reading.target.several:
            # All processes must agree on the queues that match a pattern.
            options[QUEUES] = ",".join(several)
        if self._plan.schema is not None:
            options |= dict([CORRUPT_OPTION])
        return options

    def _ack_last_batch(self, query: Query) -> None:
        """Ack the last batch of a query that has ended. Otherwise the next run would ack it."""
        if query.reached is not None and "batch" in query.reached:  # a topic has no claims
            with suppress(Fenced):
                self._claims.ack(query.reached["batch"])

    def _start_stateful(self, once: bool) -> None:
        for each in self._stateful:
            each.start(self._spark, self._claims, once)

    def _watch_stateful(self, query: Query) -> None:
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
                raise self._failure(error, each.batches, each.section) from cause

    def _watch(self, query: Query) -> None:
        """Wait until the query ends, and stop it if requested.

        Raises:
            PipelineFailed: the query ended with an error.
        """
        while query.is_active:
            state = "working" if self._batches.busy else "waiting"
            if self._pipeline.stops:
                state = "stopping"
                self._batches.stopping = True
                if self._pipeline.stops > 1 or self._batches.is_between_batches(query.committed):
                    self._batches.aborted = True
                    query.stop()
                    return
            self._check_stateful()
            self._show(query, state)
            time.sleep(WATCH_INTERVAL)
        if (error := query.error) is not None and not isinstance(self._batches.error, Stopping):
            raise self._failure(error, self._batches) from (self._batches.error or error)

    def _failure(
        self, error: BaseException, batches: BatchCallback, section: str = ""
    ) -> PipelineFailed:
        return failure(self._config.name, error, batches, self._folder, section)

    def _show(self, query: Query | None, state: str) -> None:
        progress = self._progress
        done = [self._done.pop(0) for _ in range(len(self._done))]
        reached, committed = (None, -1) if query is None else (query.reached, query.committed)
        newest = done[-1] if done else progress.batch
        # Spark reports a batch some time after it was written.
        is_unreported = newest is not None and committed < newest.number
        progress.lag = self._lag.count(
            reached,
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


#: Most messages in a batch, and about the most bytes of bodies.
MAX_BACKLOG, BYTES = 1_000_000, 1024 * 1024 * 1024
#: Messages whose size is looked at.
SAMPLE = 100
#: The option that is set here, and its other name.
LIMIT, _ALIAS = "maxMessagesPerTrigger", "maxOffsetsPerTrigger"


def batch_options(reading: Reading, given: Mapping[str, str]) -> dict[str, str]:
    """Return options for a run with ``--once``: a larger limit for batches of a queue.

    Each batch costs Spark some time. The limit depends on the size of the first messages, and is
    never below the usual one.

    Args:
        reading: the source.
        given: the user's options, which win.
    """
    named = {name.lower() for name in given}
    if reading.target.kind == "topic" or named & {LIMIT.lower(), _ALIAS.lower()}:
        return {}
    try:
        sizes = _sizes(reading)
    except NoPermissionError:  # a user who may claim, but not look
        return {}
    average = sum(sizes) // len(sizes) if sizes else 0
    return {LIMIT: str(max(MAX_MESSAGES, min(MAX_BACKLOG, BYTES // max(1, average))))}


def _sizes(reading: Reading) -> list[int]:
    names = reading.target.lists[:SAMPLE]
    sizes: list[int] = []
    for name in names:
        with open_queue(reading, name) as queue:
            sizes += [len(each.body) for each in queue.peek(SAMPLE // len(names))]
    return sizes
