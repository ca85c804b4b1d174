"""What a configuration would reject, without taking a message, and a redrive of what it accepts."""

import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.cli import main
from ackq.delay import DelayEntry, PartitionedDelayQueue
from ackq.errors import ConfigurationError
from ackq.escaping import json_line
from ackq.spark.pipeline.trial import Trial, Verdict
from ackq.topic import Topic
from tests.spark.test_pipeline import Make, make, reasons

__all__ = ["make"]

BAD = {
    b'{"id":"a","kind":"k","size":"many"}': "does not parse",
    b'{"id":"b","kind":[1],"size":"x"}': "does not parse",
    b"tea": "does not parse",
    b'{"id":"c","size":1}': "null: kind",
    b'{"id":"d","kind":"k","size":100}': "check: size",
}


def test_a_sample_tells_what_is_rejected_by_reason_and_column(make: Make, queue: Queue) -> None:
    queue.push_many([*BAD, *({"id": f"m{n}", "kind": "k", "size": n} for n in range(20))])
    pipeline = make()
    trial = pipeline.try_ready(1000)
    assert (trial.rows, trial.accepted) == (25, 20)
    assert trial.rejected["null: kind"] == Verdict(1, ["c"])
    assert trial.rejected["check: size"] == Verdict(1, ["d"])
    assert trial.rejected["does not parse"].count == 3
    assert trial.fields == Counter(
        {"size is not INT": 2, "kind is null": 1, "not a JSON object": 1}
    )
    assert pipeline.try_ready(5).rows == 5
    assert queue.stats().ready == 25  # none was taken
    pipeline.run(once=True)
    # A new schema accepts two of the dead letters, and the others stay.
    wide = {
        "schema": {"ddl": "id STRING, kind STRING, size STRING"},
        "checks": {"size": "size > ''"},
    }
    trial = make(**wide).try_dead(1000)
    assert (trial.rows, trial.accepted) == (5, 4)
    assert make(**wide).redrive(1000) == 4
    assert queue.stats().ready == 4
    assert reasons(queue) == {"does not parse: not a JSON object": 1}


def test_a_trial_is_printed_as_json() -> None:
    trial = Trial(3, {"does not parse": Verdict(1, ["a"])}, Counter({"n is not INT": 1}))
    assert json.loads(json_line(trial.as_dict())) == {
        "rows": 3,
        "accepted": 2,
        "fields": {"n is not INT": 1},
        "rejected": {"does not parse": {"count": 1, "examples": ["a"]}},
    }


def test_a_topic_has_a_sample_and_no_dead_letters(
    make: Make, name: str, url: str, plain_client: redis.Redis
) -> None:
    with Topic(plain_client, name) as topic:
        topic.publish_many([b'{"id":"a","kind":"k","size":"many"}', b'{"id":"b","kind":"k"}'])
    pipeline = make(
        source={"topic": name, "options": {"url": url}}, rejects={"queue": "x"}, checks={}
    )
    trial = pipeline.try_ready(10)
    assert (trial.rows, trial.accepted) == (2, 1)
    with pytest.raises(ConfigurationError, match="a topic has no dead letters"):
        pipeline.try_dead(10)


def test_a_delay_queue_has_a_sample_a_run_and_dead_letters_of_consumers(
    make: Make, name: str, url: str, plain_client: redis.Redis
) -> None:
    source = {"delay_queue": name, "options": {"url": url, "partitions": 2}}
    rejects = {"queue": f"{name}-bad"}
    with (
        PartitionedDelayQueue(plain_client, name, 2) as delayed,
        Queue(plain_client, f"{name}-bad") as bad,
    ):
        delayed.push_many(DelayEntry(f"k{n}", body) for n, body in enumerate(BAD))
        delayed.push("good", {"id": "g", "kind": "k", "size": 1})
        delayed.push("later", {"id": "l", "kind": "k", "size": 1}, delay=3600)
        pipeline = make(source=source, rejects=rejects)
        trial = pipeline.try_ready(1000)
        assert (trial.rows, trial.accepted) == (6, 1)
        assert trial.rejected["null: kind"] == Verdict(1, ["k3"])  # by the message's key
        for message in delayed.take(100):
            delayed.reject(message) if message.key == "good" else delayed.release(message)
        assert make(source=source, rejects=rejects).redrive(1000) == 1
        progress = pipeline.run(once=True)
        assert (progress.rows, progress.rejected) == (6, 5)
        assert sum(reasons(bad).values()) == 5
        stats = delayed.stats()
        assert (stats.ready, stats.in_flight, stats.delayed, stats.dead) == (0, 0, 1, 0)
        assert delayed.claims() == []


def test_the_command_prints_a_sample(
    spark: SparkSession, queue: Queue, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ackq.spark.pipeline.run.quiet_session", lambda *_, **__: nullcontext(spark)
    )
    config = tmp_path / "jobs.toml"
    config.write_text(
        f'checkpoint = "c"\nsink.format = "noop"\nsource.queue = "{queue.name}"\n'
        f'source.options.url = "{url}"\nschema = {{ ddl = "size INT", not_null = ["size"] }}'
    )
    queue.push_many([{"id": "good", "size": 1}, *({"id": f"b{n}", "size": "x"} for n in range(2))])
    done = CliRunner().invoke(main, ["pipeline", "check", str(config), "--sample", "100"])
    total, rejected, by_column, column = done.output.splitlines()
    assert (done.exit_code, total, by_column) == (0, "3 messages, 1 accepted", "by column:")
    assert rejected.strip() == "2  does not parse  such as b0, b1"
    assert column.strip() == "2  size is not INT"
