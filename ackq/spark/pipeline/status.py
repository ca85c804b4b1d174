"""The status of a pipeline, from its checkpoint and Redis, whether it runs or not."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis

from ackq.delay.client import DelayQueue
from ackq.ops.kinds import opened
from ackq.ops.sharded import is_sharded
from ackq.queue.client import Queue
from ackq.spark import offsets
from ackq.spark.lists import find_queues, located
from ackq.spark.offsets import Offset
from ackq.spark.options import Reading, is_pattern
from ackq.spark.pipeline.checkpoint_log import CheckpointLog
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.section import local_path
from ackq.spark.shards import open_queue
from ackq.spark.topic_source import topic_of

#: Seconds between two counts.
COUNT_INTERVAL = 1.0


class Lag:
    """Counts the ready messages of a source and those of the current batch, once a second."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._queues: list[Queue | DelayQueue] = []
        if reading.target.kind != "topic":
            self._queues = [open_queue(reading, name) for name in reading.target.lists]
        self._counted_at = float("-inf")
        self._reached: Offset | None = None
        self._count: int | None = None

    def count(
        self, reached: Offset | None, written: int = 0, *, at_once: bool = False
    ) -> int | None:
        """Return the number of messages; None if it is unknown.

        Args:
            reached: the offset of the last finished batch; None: there is none yet.
            written: the number of messages after it that are written, too. Defaults to 0.
            at_once: count now, instead of returning a count that is up to a second old.
        """
        is_old = time.monotonic() - self._counted_at >= COUNT_INTERVAL
        if at_once or is_old or reached != self._reached:
            self._count = None
            with suppress(redis.RedisError, OSError):
                self._count = self._in_queues(reached) if self._queues else self._behind(reached)
            self._counted_at, self._reached = time.monotonic(), reached
        return None if self._count is None else max(0, self._count - written)

    def check_connection(self) -> None:
        """Check that Redis can be reached.

        Raises:
            redis.ConnectionError: it cannot be reached.
        """
        if self._queues:
            self._ready()
        else:
            topic_of(self._reading.connection, self._reading.target.name).newest()

    def close(self) -> None:
        """Close the connections."""
        for queue in self._queues:
            queue.close()

    def _ready(self) -> int:
        return sum(queue.stats().ready for queue in self._queues)

    def _in_queues(self, reached: Offset | None) -> int:
        done = offsets.read(reached, self._reading.source, "batch")[0] if reached else 0
        ready = self._ready()
        # Messages claimed since `_ready` are counted twice, which is better than not at all.
        return ready + sum(
            claim.rows
            for queue in self._queues
            for claim in queue.claims()
            if claim.group == self._reading.group
            and claim.batch > done
            and claim.lease_ends_in is not None
            and claim.lease_ends_in > 0
        )

    def _behind(self, reached: Offset | None) -> int | None:
        if reached is None:
            return None
        (index,) = offsets.read(reached, self._reading.source, "index")
        newest = topic_of(self._reading.connection, self._reading.target.name).newest()
        return max(0, newest - max(0, index))


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """How far a pipeline is. What is unknown is None."""

    name: str
    #: The source and its group.
    source: str
    #: The last batch that is done, and the seconds since then. None if there is none, or if the
    #: checkpoint is not on this machine.
    batch: int | None = None
    seconds_ago: float | None = None
    #: Messages of the batch after it, which is planned and not done.
    planned: int | None = None
    #: Messages that are not processed yet: those that are ready, and those of unfinished batches.
    lag: int | None = None
    #: Batches that are claimed and not acked, and their messages. A topic has none of the next
    #: five.
    claims: int | None = None
    claimed: int | None = None
    #: Seconds until the claims return to the queue, unless the pipeline runs and renews them.
    lease_ends_in: float | None = None
    ready: int | None = None
    delayed: int | None = None
    #: Dead letters in the queue to which rejected messages go.
    dead: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the status for JSON."""
        return asdict(self)


def read_status(config: PipelineConfig) -> PipelineStatus:
    """Return the status of a pipeline.

    Cost: a few commands for each queue.

    Raises:
        redis.ConnectionError: Redis cannot be reached.
        ConfigurationError: the checkpoint has another format.
    """
    reading = located(Reading.of(config.source.all_options()), patient=False)
    figures: dict[str, Any] = {}
    reached = None
    log = _checkpoint(config.checkpoint)
    if log is not None:
        done = log.committed()
        following = log.planned(done + 1)
        figures["planned"] = None if following is None else offsets.messages(following)
        if done >= 0:
            reached = log.planned(done)
            figures["batch"], figures["seconds_ago"] = done, time.time() - log.committed_at(done)
    with closing(Lag(reading)) as lag:
        lag.check_connection()
        figures["lag"] = lag.count(reached, at_once=True)
    if reading.target.kind != "topic":
        figures |= _counts(reading)
    if config.rejects.queue is not None:
        with Queue(reading.connection.client(), config.rejects.queue) as rejects:
            figures["dead"] = rejects.stats().dead
    return PipelineStatus(config.name, reading.source, **figures)


def unknown_sources(config: PipelineConfig) -> list[str]:
    """Return the names and patterns of the source for which Redis has nothing.

    An empty queue has no keys, so it is among them, unless its workers are running.

    Raises:
        redis.ConnectionError: Redis cannot be reached.
    """
    reading = Reading.of(config.source.all_options())
    return [name for name in config.source.names if not _is_known(reading, name)]


def _is_known(reading: Reading, name: str) -> bool:
    client, kind = reading.connection.client(), reading.target.kind
    if kind == "topic":
        return topic_of(reading.connection, name).newest() > 0
    if kind == "delayQueue":
        lists = reading.target.lists
    elif is_pattern(name):
        return bool(find_queues(client, [name]))
    else:
        lists = () if is_sharded(client, name) else (name,)
    for each in lists:
        with opened(client, "list" if kind == "queue" else "delay", each) as queue:
            if queue.has_keys():
                return True
    return not lists


def _checkpoint(folder: str) -> CheckpointLog | None:
    path = local_path(folder)
    return None if path is None else CheckpointLog(Path(path))


def _counts(reading: Reading) -> dict[str, Any]:
    """Return the counts of all lists of a source, and the claims of its group."""
    every, claims = [], []
    for name in reading.target.lists:
        with closing(open_queue(reading, name)) as queue:
            every.append(queue.stats())
            claims += queue.claims()
    ours = [claim for claim in claims if claim.group == reading.group]
    batches = Counter[int]()
    for claim in ours:
        batches[claim.batch] += claim.rows
    leases = [each.lease_ends_in for each in ours if each.lease_ends_in is not None]
    return {
        "claims": len(batches),
        "claimed": batches.total(),
        "lease_ends_in": min(leases, default=None),
        "ready": sum(stats.ready for stats in every),
        "delayed": sum(stats.delayed for stats in every),
        "dead": sum(stats.dead for stats in every),
    }
