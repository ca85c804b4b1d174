"""What child processes do to a topic, each step noted in a journal that survives a SIGKILL."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

import ackq
from ackq.topic import Batch, Topic
from tests.faults.roles import Log

#: Seconds; a killed reader's range comes back so soon.
LEASE = 0.4


def produce(url: str, name: str, log: Path, label: str, stop: Path) -> None:
    """Publish one by one and in batches until ``stop`` exists."""
    topic, journal, draw = Topic.from_url(url, name), Log(log), random.Random(label)
    number = 0
    while not stop.exists():
        sent = [f"{label}-{number + n}" for n in range(draw.choice([1, 1, 5]))]
        number += len(sent)
        journal.write(kind="publish", bodies=sent)
        confirmed: list[int] = []
        _try(lambda sent=sent, confirmed=confirmed: confirmed.extend(_publish(topic, sent)))  # type: ignore[misc]
        if confirmed:
            journal.write(kind="published", bodies=sent, indexes=confirmed)
        time.sleep(0.003)


def read(url: str, name: str, log: Path, label: str, stop: Path, delivery: Any) -> None:
    """Read as one of the sharers of the id that is named like the mode, until ``stop`` exists."""
    topic = Topic.from_url(url, name, delivery=delivery, visibility_timeout=LEASE)
    journal, draw = Log(log), random.Random(label)
    while not stop.exists():
        found: list[Batch] = []
        wanted = draw.choice([1, 3, 8])
        _try(lambda: found.append(topic.consume(delivery, wanted, timeout=0.2)))  # noqa: B023
        if not found or not found[0]:
            continue
        batch = found[0]
        journal.write(
            kind="deliver",
            consumer=delivery,
            first=batch.first,
            reader=label,
            bodies=[message.body.decode() for message in batch],
        )
        if draw.random() < 0.05:
            time.sleep(LEASE * draw.uniform(0.8, 2))
        if delivery == "at_least_once":
            _commit(topic, batch, journal)


def _commit(topic: Topic, batch: Batch, journal: Log) -> None:
    about = {"first": batch.first, "last": batch.last}
    journal.write(kind="commit", state="invoked", **about)
    try:
        state = "ok" if topic.commit(batch) else "gone"
    except ackq.LeaseLost:
        state = "refused"
    except redis.RedisError:
        return
    journal.write(kind="commit", state=state, **about)


def _publish(topic: Topic, sent: list[str]) -> list[int]:
    if len(sent) == 1:
        return [topic.publish(sent[0].encode())]
    return topic.publish_many([body.encode() for body in sent])


def _try(operation: Callable[[], Any]) -> None:
    """Run it; while the server is away its outcome is unknown."""
    try:
        operation()
    except redis.RedisError:
        time.sleep(0.02)
