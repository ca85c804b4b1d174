"""A pipeline dies between any two of its steps, with and without Structured Streaming.

A death is an error that no part of the pipeline handles: nothing after it happens in that run, as
after a crash, but Redis and the checkpoint keep what they have. test_pipeline_kills kills real
drivers at the same steps.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ackq import Queue
from ackq.delay import DelayEntry, DelayQueue
from ackq.errors import PipelineFailed
from ackq.sharded import ShardedQueue
from ackq.spark.pipeline import Pipeline
from ackq.spark.pipeline import sinks as pipeline_sinks
from ackq.spark.pipeline.checkpoint_log import CheckpointLog
from ackq.spark.pipeline.micro_batches import MicroBatchHandler
from ackq.spark.pipeline.plan import Plan
from ackq.topic import Topic
from tests.spark.test_campaign import TOO_BUSY
from tests.spark.test_pipeline import ids, written

#: The steps of a batch: each run dies after one of them. Files are written before dead letters.
STEPS = ("claim", "plan", "sink", "half of the dead letters", "dead letters", "mark", "commit")
#: Those that Spark's own query passes in this process.
SPARKS = ("sink", "half of the dead letters", "dead letters", "mark")
SOURCES = ("queue", "queues", "shards", "delay_queue", "topic")
SINKS = ("files", "queue", "topic", "delay_queue", "several", "limit")
USUAL = ("queue", "files")
#: The sink whose runs use Structured Streaming in turns. They take several times as long.
ALTERNATING = "files"
MESSAGES, BATCH = 60, 13


class Died(Exception):
    """The driver was killed."""


def dies_after(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that does its work, and then the driver dies."""

    def dying(*args: Any) -> None:
        method(*args)
        raise Died

    return dying


def plant(patched: pytest.MonkeyPatch, step: str) -> None:
    """Let the driver die after a step."""
    if step == "claim":
        patched.setattr(CheckpointLog, "plan", dies_after(lambda *args: None))
    elif step == "plan":
        patched.setattr(CheckpointLog, "plan", dies_after(CheckpointLog.plan))
    elif step == "sink":
        patched.setattr(pipeline_sinks, "write", dies_after(pipeline_sinks.write))
        patched.setattr(MicroBatchHandler, "_failing", lambda self, checked, error: [])
    elif step == "mark":
        patched.setattr(pipeline_sinks, "mark", dies_after(pipeline_sinks.mark))
    elif step == "half of the dead letters":
        patched.setattr(MicroBatchHandler, "_reject", dies_after(_reject_half))
    elif step == "dead letters":
        patched.setattr(MicroBatchHandler, "_reject", dies_after(MicroBatchHandler._reject))
    else:
        patched.setattr(CheckpointLog, "commit", dies_after(CheckpointLog.commit))


_reject = MicroBatchHandler._reject


def _reject_half(handler: MicroBatchHandler, checked: DataFrame, number: int) -> None:
    position = checked.columns[-2]  # before the reason
    _reject(handler, checked.where(F.col(position) % 2 == 0), number)


class Stage:
    """A source with messages, every fifth of which is rejected, and a sink."""

    def __init__(self, client: redis.Redis, name: str, url: str, folder: Path) -> None:
        self._client, self._name, self._url, self._folder = client, name, url, folder
        self._pushed = 0

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
        if sink in ("queue", "several"):
            with Queue(self._client, out) as queue:
                found = [*found, *(str(each.id) for each in queue.peek(1000))]
        elif sink == "topic":
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


@pytest.fixture
def stage(plain_client: redis.Redis, name: str, url: str, tmp_path: Path) -> Stage:
    return Stage(plain_client, name, url, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("source", "sink"),
    [
        pytest.param(source, sink, marks=() if (source, sink) == USUAL else pytest.mark.campaign)
        for source in SOURCES
        for sink in SINKS
    ],
)
def test_a_pipeline_that_dies_after_any_step_has_every_row_once(
    spark: SparkSession,
    stage: Stage,
    source: str,
    sink: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = Pipeline(stage.config(source, sink), spark=spark)

    def attempt() -> str:
        try:
            pipeline.run(once=True)
        except PipelineFailed as failed:
            return str(failed)
        return ""

    def run(*, streaming: bool, step: str | None = None) -> None:
        with monkeypatch.context() as patched:
            if streaming:
                patched.setattr(Plan, "uses_current_time", lambda self, session: True)
            if step is not None:
                plant(patched, step)
            error = TOO_BUSY
            while TOO_BUSY in error:
                error = attempt()
            assert (step is not None) == ("Died" in error), error

    stage.fill(source)
    in_turns = sink == ALTERNATING
    for step in STEPS:
        run(streaming=False, step=step)
        if in_turns and step in SPARKS:
            run(streaming=True, step=step)
    run(streaming=in_turns)
    stage.fill(source)
    run(streaming=False)
    assert stage.arrived(sink) == stage.expected(bad=False)
    assert stage.dead() == stage.expected(bad=True)


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sink", ["files", "queue"])
def test_a_row_is_never_lost_though_the_checks_change_before_the_replay(
    spark: SparkSession, stage: Stage, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = stage.config("queue", sink)
    loose = {**strict, "checks": {}}
    stage.fill("queue")
    for step in STEPS:
        for config in (strict, loose):
            with monkeypatch.context() as patched, contextlib.suppress(PipelineFailed):
                plant(patched, step)
                Pipeline(config, spark=spark).run(once=True)
    Pipeline(strict, spark=spark).run(once=True)
    found = stage.arrived(sink).keys() | stage.dead().keys()
    assert found == stage.expected(bad=True).keys() | stage.expected(bad=False).keys()
