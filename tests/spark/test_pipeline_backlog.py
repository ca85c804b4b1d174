"""A run with ``--once`` takes a backlog in larger batches."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ackq import Queue
from ackq.spark.options import MAX_MESSAGES, Reading
from ackq.spark.pipeline import Pipeline, run


def limit(reading: Reading, **given: str) -> int | None:
    options = run.batch_options(reading, given)
    return int(options[run.LIMIT]) if options else None


def test_a_batch_has_a_million_messages_or_a_gibibyte_but_not_less_than_usual(
    queue: Queue, url: str
) -> None:
    reading = Reading.of({"queue": queue.name, "url": url})
    assert limit(reading) == 1_000_000
    queue.push_many(b"x" * size for size in (1024, 3072))
    assert limit(reading) == 1024 * 1024 // 2
    queue.push(b"x" * 1024 * 1024)
    assert limit(reading) == MAX_MESSAGES
    assert limit(reading, maxmessagespertrigger="7") is None
    assert limit(reading, maxOffsetsPerTrigger="7") is None
    assert limit(Reading.of({"topic": queue.name, "url": url})) is None


@pytest.mark.parametrize(
    ("given", "rows"), [({}, [30, 30, 10]), ({"maxOffsetsPerTrigger": 40}, [40, 30])]
)
def test_the_limit_is_that_of_the_batches_of_once_unless_the_user_sets_it(
    spark: SparkSession,
    queue: Queue,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, int],
    rows: list[int],
) -> None:
    for each in ("MAX_BACKLOG", "MAX_MESSAGES"):
        monkeypatch.setattr(run, each, 30)
    queue.push_many({"id": f"m-{n}"} for n in range(70))
    config = {
        "name": queue.name,
        "checkpoint": str(tmp_path / "checkpoint"),
        "source": {"queue": queue.name, "options": {"url": url, **given}},
        "schema": {"ddl": "id STRING"},
        "sink": {"path": str(tmp_path / "out")},
    }
    found: dict[int, int] = {}

    def note(progress: object) -> None:
        batch = progress.batch  # type: ignore[attr-defined]
        if batch is not None:
            found[batch.number] = batch.rows

    Pipeline(config, spark=spark).run(once=True, on_progress=note)
    assert list(found.values()) == rows
