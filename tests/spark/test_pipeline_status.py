"""`ackq pipeline status`: the progress of a pipeline, without Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from ackq import Queue
from ackq.cli import main
from ackq.delay import PartitionedDelayQueue
from ackq.queue.claims_client import Claims
from ackq.sharded import ShardedQueue
from ackq.spark import offsets
from ackq.spark.pipeline.checkpoint_log import CheckpointLog
from ackq.topic import Topic

Status = Callable[..., dict[str, Any]]


@pytest.fixture
def status(url: str, tmp_path: Path) -> Status:
    """``status(lines)``: what the command prints of a configuration, without what is None."""

    def status(*lines: str, checkpoint: str = "state") -> dict[str, Any]:
        file = tmp_path / "cars.toml"
        file.write_text("\n".join([f'checkpoint = "{checkpoint}"', 'sink.path = "out"', *lines]))
        done = CliRunner().invoke(
            main, ["pipeline", "status", str(file), "--url", url, "--json"], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        found = {key: value for key, value in json.loads(done.stdout).items() if value is not None}
        assert found.pop("name") == "cars"
        return found

    return status


def test_of_a_queue(
    status: Status, queue: Queue, plain_client: redis.Redis, tmp_path: Path
) -> None:
    name = queue.name
    source = f"queue {name!r}, group 'cars'"
    lines = (f'source.queue = "{name}"', 'schema.ddl = "id STRING"')
    empty = {"claims": 0, "claimed": 0, "ready": 0, "delayed": 0, "dead": 0, "lag": 0}
    assert status(*lines) == {"source": source, **empty}
    queue.push_many([{"id": str(n)} for n in range(8)])
    queue.reject(*queue.pop_many(1), reason="no good")
    claims, log = (
        Claims(plain_client, name, "cars", timeout=3600),
        CheckpointLog(tmp_path / "state"),
    )
    claims.begin()
    for batch in (1, 2):
        claims.claim(batch - 1, messages=2)
        log.plan(batch - 1, offsets.make(source, batch=batch, rows=2))
    log.commit(0)
    found = status(*lines)
    assert 0 <= found.pop("seconds_ago") < 3600
    assert 3000 < found.pop("lease_ends_in") <= 3600
    assert found == {
        "source": source,
        "batch": 0,
        "planned": 2,
        "claims": 2,
        "claimed": 4,
        "ready": 3,
        "delayed": 0,
        "dead": 1,
        "lag": 5,
    }
    claims.close()


def test_of_a_topic_whose_rejected_messages_go_to_a_queue(
    status: Status, queue: Queue, plain_client: redis.Redis, tmp_path: Path
) -> None:
    with Topic(plain_client, f"{queue.name}-news") as topic:
        topic.publish_many([{"n": n} for n in range(5)])
        log = CheckpointLog(tmp_path / "state")
        log.plan(0, offsets.make(f"topic '{topic.name}'", first=1, index=2))
        log.commit(0)
        queue.push({"id": "a"})
        queue.reject(*queue.pop_many(1), reason="no good")
        found = status(f'source.topic = "{topic.name}"', f'rejects.queue = "{queue.name}"')
        assert found.pop("seconds_ago") >= 0
        assert found == {"source": f"topic '{topic.name}'", "batch": 0, "lag": 3, "dead": 1}
        topic.trim(1)


def test_of_a_checkpoint_that_is_elsewhere(status: Status, queue: Queue) -> None:
    queue.push({"id": "a"})
    found = status(f'source.queue = "{queue.name}"', checkpoint="hdfs:///state")
    assert (found["ready"], found["lag"], found.get("batch")) == (1, 1, None)


@pytest.mark.parametrize(
    ("lines", "unknown"),
    [
        (['source.queue = "NAME"'], ["NAME"]),
        (['source.queues = ["NAME-*", "NAME"]'], ["NAME-*", "NAME"]),
        (['source.topic = "NAME"', 'rejects.queue = "bad"'], ["NAME"]),
        (['source.delay_queue = "NAME"', 'rejects.queue = "bad"'], ["NAME"]),
        (['source.queue = "KNOWN"'], []),
        (['source.queue = "SHARDED"'], []),
        (['source.queues = ["KNOW*"]'], []),
        (['source.topic = "KNOWN-topic"', 'rejects.queue = "bad"'], []),
        (
            [
                'source.delay_queue = "KNOWN-delay"',
                "source.options.partitions = 2",
                'rejects.queue = "bad"',
            ],
            [],
        ),
    ],
)
def test_a_check_names_the_sources_that_are_not_there(
    plain_client: redis.Redis,
    url: str,
    token: str,
    tmp_path: Path,
    lines: list[str],
    unknown: list[str],
) -> None:
    known, sharded, name = (f"{token}-{each}" for each in ("known", "sharded", "name"))
    with (
        Queue(plain_client, known) as queue,
        ShardedQueue(plain_client, sharded, 2) as shards,
        Topic(plain_client, f"{known}-topic") as topic,
        PartitionedDelayQueue(plain_client, f"{known}-delay", 2) as delayed,
    ):
        queue.push({"id": "a"})
        shards.shards()
        topic.publish({"id": "a"})
        delayed.push("key", {"id": "a"})
        words = {"NAME": name, "KNOWN": known, "KNOW*": f"{known[:-1]}*", "SHARDED": sharded}
        text = "\n".join(['checkpoint = "state"', 'sink.path = "out"', *lines])
        for word, value in words.items():
            text = text.replace(word, value)
        (tmp_path / "cars.toml").write_text(text)
        done = CliRunner().invoke(
            main, ["pipeline", "check", str(tmp_path / "cars.toml"), "--url", url]
        )
    assert (done.exit_code, "is valid" in done.stdout) == (0, True)
    assert [line.split("'")[1] for line in done.stderr.splitlines()] == [
        each.replace("NAME", name) for each in unknown
    ]


def test_a_check_passes_without_redis(tmp_path: Path) -> None:
    file = tmp_path / "cars.toml"
    file.write_text(
        'checkpoint = "state"\nsink.path = "out"\nsource.queue = "cars"\n'
        'source.options.url = "redis://127.0.0.1:1"\n'
    )
    done = CliRunner().invoke(main, ["pipeline", "check", str(file)])
    assert (done.exit_code, "is valid" in done.stdout) == (0, True)
    assert "Redis was not asked for the queue: " in done.stderr
