"""Pipelines from every source to every sink that die together after a step.

``python -m tests.spark.crash_matrix FOLDER URL STEP`` runs them, one after another, until each has
done the step, and then says in the folder that it can be killed. The step ``end`` is the last one.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackq import Queue
from ackq.delay import DelayEntry, DelayQueue
from ackq.errors import PipelineFailed
from ackq.membership.shards import shard_names
from ackq.sharded import ShardedQueue
from ackq.spark import stream
from ackq.spark.pipeline import Pipeline, run
from ackq.spark.pipeline import sinks as pipeline_sinks
from ackq.spark.pipeline.checkpoint_log import CheckpointLog
from ackq.spark.pipeline.micro_batches import MicroBatchHandler
from ackq.spark.pipeline.plan import Plan
from ackq.spark.shards import Batch
from ackq.topic import Topic
from tests.spark.conftest import SMALL
from tests.spark.test_pipeline import ids, written

#: The steps of a batch, in their order.
STEPS = ("claim", "plan", "sink", "half of the dead letters", "dead letters", "publish", "commit")
#: Those that Structured Streaming passes in the driver's Python, with the prefix of such a run.
STREAMING = "streaming: "
SPARKS = ("sink", "half of the dead letters", "dead letters", "publish")
END = "end"
SOURCES = ("queue", "queues", "shards", "delay_queue", "topic")
SINKS = ("files", "queue", "shards", "named", "topic", "delay_queue", "several", "limit")
#: Those whose runs use Structured Streaming too. Each such run has a process for its source.
STREAMED = ("files", "queue")
MESSAGES, BATCH = 60, 13
#: How Spark ends a query where the machine was too busy to start a process of its own within ten
#: seconds, which cannot be changed. As a supervisor would, the tests run it again.
TOO_BUSY = "Python worker failed to connect back"

_reject = MicroBatchHandler._reject


def combinations(step: str) -> list[tuple[str, str]]:
    """Return the sources and sinks whose pipelines die after a step."""
    sinks = STREAMED if step.startswith(STREAMING) else SINKS
    return [(source, sink) for source in SOURCES for sink in sinks]


def plant(patched: pytest.MonkeyPatch, step: str, die: Callable[[], None]) -> None:
    """Let a driver die after a step: then it calls ``die``."""

    def dies_after(method: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*args: Any) -> None:
            method(*args)
            die()

        return dying

    patched.setattr(stream, "AHEAD_FROM", 1)  # as for large batches
    if step.startswith(STREAMING):
        patched.setattr(Plan, "uses_current_time", lambda self, session: True)
        step = step.removeprefix(STREAMING)
    if step == "claim":
        patched.setattr(CheckpointLog, "plan", dies_after(lambda *args: None))
    elif step == "plan":
        patched.setattr(CheckpointLog, "plan", dies_after(CheckpointLog.plan))
    elif step == "sink":
        patched.setattr(pipeline_sinks, "write", dies_after(pipeline_sinks.write))
        patched.setattr(MicroBatchHandler, "_failing", lambda self, checked, error: [])
    elif step == "publish":
        patched.setattr(pipeline_sinks, "publish", dies_after(pipeline_sinks.publish))
    elif step == "half of the dead letters":
        patched.setattr(MicroBatchHandler, "_reject", dies_after(_reject_half))
    elif step == "dead letters":
        patched.setattr(MicroBatchHandler, "_reject", dies_after(MicroBatchHandler._reject))
    elif step == "commit":
        patched.setattr(CheckpointLog, "commit", dies_after(CheckpointLog.commit))


def _reject_half(handler: MicroBatchHandler, checked: DataFrame, batch: Batch) -> None:
    position = checked.columns[-2]  # before the reason
    _reject(handler, checked.where(F.col(position) % 2 == 0), batch)


def attempt(pipeline: Pipeline) -> str:
    """Run a pipeline; return the error that ended it, if there is one."""
    while True:
        try:
            pipeline.run(once=True)
        except PipelineFailed as failed:
            if TOO_BUSY not in str(failed):
                return str(failed)
        else:
            return ""


class Stage:
    """A source with messages, every fifth of which is rejected, and a sink."""

    def __init__(self, client: redis.Redis, name: str, url: str, folder: Path) -> None:
        self._client, self._name, self._url, self._folder = client, name, url, folder
        self._pushed = 0

    @classmethod
    def of(cls, client: redis.Redis, url: str, folder: Path, source: str, sink: str) -> Stage:
        """Return the stage of two of many kinds, which share a folder and a server."""
        return cls(client, f"{source}-{sink}", url, folder / f"{source}-{sink}")

    def fill(self, source: str) -> None:
        """Push some messages into the source."""
        numbers = range(self._pushed, self._pushed + MESSAGES)
        self._pushed += MESSAGES
        rows = [{"id": f"m-{n}", "share": n % 5} for n in numbers]
        if source == "topic":
            with Topic(self._client, self._name) as topic:
                topic.publish_many(rows)
        elif source == "delay_queue":
            with DelayQueue(self._client, self._name) as delayed:
                delayed.push_many(DelayEntry(str(each["id"]), each, at=1) for each in rows)
        elif source == "shards":
            with ShardedQueue(self._client, self._name, shards=2) as sharded:
                sharded.push_many(rows, key=lambda message: message["id"])
        else:
            names = [self._name] if source == "queue" else [f"{self._name}-{n}" for n in (1, 2)]
            for at, each in enumerate(names):
                with Queue(self._client, each) as queue:
                    queue.push_many(rows[at :: len(names)])

    def config(self, source: str, sink: str) -> dict[str, Any]:
        """Return the configuration of a pipeline."""
        options = {"url": self._url, "maxMessagesPerTrigger": BATCH}
        if source == "queues":
            read: dict[str, Any] = {"queues": [f"{self._name}-1", f"{self._name}-2"]}
        else:
            read = {"queue" if source == "shards" else source: self._name}
        return {
            "name": self._name,
            "checkpoint": str(self._folder / "checkpoint"),
            "source": {**read, "options": options},
            "schema": {"ddl": "id STRING, share INT"},
            "checks": {"share": "share > 0"},
            "rejects": {
                "queue": f"{self._name}-bad",
                **({"stop_above": 0.9} if sink == "limit" else {}),
            },
            "every": 0,
            **self._sinks(sink),
        }

    def _sinks(self, sink: str) -> dict[str, Any]:
        out, path = f"{self._name}-out", str(self._folder / "out")
        options = {"url": self._url}
        if sink in ("files", "limit"):
            return {"sink": {"path": path}}
        if sink == "shards":
            return {"sink": {"queue": out, "options": {**options, "shards": 2}}}
        if sink == "named":
            goes = f"SELECT *, concat('{out}-', share % 2) AS goes FROM messages"
            named = {"queue_column": "goes", "options": options}
            return {"transform": {"sql": goes}, "sink": named}
        if sink == "several":
            low, high = ("SELECT * FROM rows WHERE share < 3", "SELECT * FROM rows WHERE share > 2")
            return {
                "sinks": {
                    "low": {"path": path, "sql": low},
                    "high": {"queue": out, "options": options, "sql": high},
                }
            }
        return {"sink": {sink: out, "options": options}}

    def arrived(self, sink: str) -> Counter[str]:
        """Return the ids in the sink."""
        out = f"{self._name}-out"
        found: Iterable[str] = []
        if sink in ("files", "several", "limit"):
            found = ids(written(self._folder / "out"))
        queues = {
            "queue": [out],
            "several": [out],
            "named": [f"{out}-0", f"{out}-1"],
            "shards": shard_names(out, 2),
        }
        for name in queues.get(sink, ()):
            with Queue(self._client, name) as queue:
                found = [*found, *(str(each.id) for each in queue.peek(1000))]
        if sink == "topic":
            with Topic(self._client, out) as topic:
                topic.subscribe("test")
                found = [str(each.json()["id"]) for each in topic.consume("test", 1000)]
        elif sink == "delay_queue":
            with DelayQueue(self._client, out) as delayed:
                found = [str(each.id) for each in delayed.peek(1000)]
        return Counter(found)

    def expected(self, *, bad: bool) -> Counter[str]:
        """Return the ids of the messages that are rejected, or of the others."""
        return Counter(f"m-{n}" for n in range(self._pushed) if bad is (n % 5 == 0))

    def dead(self) -> Counter[str]:
        """Return the ids of the dead letters."""
        with Queue(self._client, f"{self._name}-bad") as queue:
            return Counter(str(each.id) for each in queue.dead_letters(1000))


def main(folder: Path, url: str, step: str) -> None:
    """Run all pipelines until each is at the step, or has ended."""
    from ackq.spark import session

    warnings.simplefilter("ignore")
    spark = session("matrix", master="local[2]", url=url, config=SMALL)
    spark.sparkContext.setLogLevel("OFF")
    arrived = threading.Semaphore(0)
    errors: list[str] = []

    def wait_to_be_killed() -> None:
        arrived.release()
        time.sleep(3600)

    def work(pipeline: Pipeline) -> None:
        try:
            error = attempt(pipeline)
            if error or step != END:
                errors.append(error or "it ended before the step")
        except BaseException as error:
            errors.append(repr(error))
            raise
        finally:
            arrived.release()

    run.WATCH_INTERVAL = 1.0
    plant(pytest.MonkeyPatch(), step, wait_to_be_killed)
    with redis.Redis.from_url(url) as client:
        for source, sink in combinations(step):
            stage = Stage.of(client, url, folder, source, sink)
            pipeline = Pipeline(stage.config(source, sink), spark=spark)
            threading.Thread(target=work, args=(pipeline,), daemon=True).start()
            arrived.acquire()
            if errors:
                sys.exit(f"{source} to {sink}, {step}: {errors[0]}")
    if step != END:
        (folder / "reached").touch()
        time.sleep(3600)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
