"""Rows at which the transform or the sink fails: they, and no others, become dead letters."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackq import Queue
from ackq.errors import PipelineFailed
from ackq.spark.pipeline import Progress, failed_rows
from ackq.spark.pipeline import sinks as pipeline_sinks
from ackq.topic import Topic
from tests.spark.test_pipeline import Make, ids, make, push, reasons, written

__all__ = ["make"]
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

#: Fails at m-0013 and, where there are as many, m-0113.
DIVIDING = {"sql": "SELECT id, 100 / (size - 13) AS share FROM messages"}


def test_a_row_that_the_sql_cannot_take_is_a_dead_letter_and_the_others_are_written_once(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    pushed = push(queue, 0, 60)
    searches = set[tuple[int, int]]()

    def note(progress: Progress) -> None:
        if progress.search is not None:
            searches.add((progress.search.jobs, progress.search.found))

    progress = make(transform=DIVIDING).run(once=True, on_progress=note)
    assert len(searches) > 1  # the search is visible while it goes on
    assert progress.search is None
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.reason) == ("m-0013", "transform: DIVIDE_BY_ZERO")
    assert letter.body == b'{"id":"m-0013","kind":"b","size":13}'
    assert ids(written(tmp_path / "out")) == [each for each in pushed if each != "m-0013"]
    assert (progress.rows, progress.rejected, progress.written) == (60, 1, 59)
    assert queue.stats().ready == queue.stats().in_flight == 0


@pytest.mark.campaign
def test_a_row_on_which_a_function_fails_is_a_dead_letter_with_its_error(
    make: Make, queue: Queue, tmp_path: Path
) -> None:
    pushed = push(queue, 0, 60)

    def double(size: int) -> int:
        if size in (7, 48):
            raise ValueError("I do not like it")
        return 2 * size

    def doubled(messages: DataFrame) -> DataFrame:
        return messages.withColumn("size", F.udf(lambda size: double(size), "int")("size"))

    make(transform={"callable": doubled}).run(once=True)
    assert reasons(queue) == {"transform: ValueError: I do not like it": 2}
    assert {letter.id for letter in queue.dead_letters()} == {"m-0007", "m-0048"}
    assert ids(written(tmp_path / "out")) == sorted({*pushed} - {"m-0007", "m-0048"})


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("value", "options", "reason"),
    [
        ("IF(size = 5, NULL, id)", {}, "transform: InvalidMessage: row 5: column 'value' is null"),
        (
            "IF(size = 5, repeat('x', 50), id)",
            {"maxBodyBytes": 40},
            "transform: MessageTooLarge: row 5 is a message of 50 bytes",
        ),
    ],
)
def test_a_row_that_can_be_no_message_is_a_dead_letter(
    make: Make,
    queue: Queue,
    name: str,
    url: str,
    plain_client: redis.Redis,
    value: str,
    options: dict[str, Any],
    reason: str,
) -> None:
    push(queue, 0, 10)
    sink = {"queue": f"{name}-out", "options": {"url": url, **options}}
    make(transform={"sql": f"SELECT {value} AS value FROM messages"}, sink=sink).run(once=True)
    (letter,) = queue.dead_letters()
    assert letter.id == "m-0005"
    assert letter.reason.startswith(reason.replace("row 5", "row 0"))
    with Queue(plain_client, f"{name}-out") as out:
        assert len(out.peek(100)) == 9


@pytest.mark.campaign
def test_a_transform_that_fails_at_too_many_rows_ends_the_run_and_rejects_none(
    make: Make, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(queue, 0, 10)
    monkeypatch.setattr(failed_rows, "MAX_FAILING", 3)
    with pytest.raises(PipelineFailed, match="DIVIDE_BY_ZERO"):
        make(transform={"sql": "SELECT 1 / (size - size) AS share FROM messages"}).run(once=True)
    assert not reasons(queue)
    assert queue.stats().in_flight == 10


@pytest.mark.campaign
def test_a_batch_with_such_a_row_may_be_replayed(
    make: Make, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed = push(queue, 0, 30)
    write, calls = pipeline_sinks.write, Counter[str]()

    def cut(*args: Any) -> None:
        calls["write"] += 1
        if calls["write"] == 2:
            raise OSError("cut")
        write(*args)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline_sinks, "write", cut)
        with pytest.raises(PipelineFailed, match="cut"):
            make(transform=DIVIDING).run(once=True)
    make(transform=DIVIDING).run(once=True)
    assert reasons(queue) == {"transform: DIVIDE_BY_ZERO": 1}
    assert ids(written(tmp_path / "out")) == [each for each in pushed if each != "m-0013"]


@pytest.mark.campaign
def test_such_rows_of_a_topic_go_to_the_queue_of_its_rejects(
    make: Make, queue: Queue, name: str, url: str, plain_client: redis.Redis, tmp_path: Path
) -> None:
    with Topic(plain_client, f"{name}-t") as topic:
        topic.publish_many(
            [b'{"id":"m-%04d","kind":"a","size":%d}' % (n, n) for n in range(10, 20)]
        )
    source = {"topic": f"{name}-t", "options": {"url": url}}
    make(source=source, rejects={"queue": name}, transform=DIVIDING).run(once=True)
    (letter,) = queue.dead_letters()
    assert letter.body == b'{"id":"m-0013","kind":"a","size":13}'
    assert len(ids(written(tmp_path / "out"))) == 9


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_messages_that_are_neither_parsed_nor_changed_arrive_byte_for_byte(
    make: Make, queue: Queue, name: str, url: str, plain_client: redis.Redis, kind: str
) -> None:
    bodies = [b'{"id":"a"}', b"\xff\x00 no text", b'{"id": "\\u00e9", "n": 1e5}']
    if kind == "queue":
        queue.push_many(bodies)
    else:
        with Topic(plain_client, name) as topic:
            topic.publish_many(bodies)
    config = {
        "source": {kind: name, "options": {"url": url}},
        "schema": {},
        "checks": {},
        "sink": {"queue": f"{name}-out", "options": {"url": url}},
        "rejects": {"queue": f"{name}-bad"},
    }
    make(**config).run(once=True)
    with Queue(plain_client, f"{name}-out") as out:
        assert [each.body for each in out.peek(10)] == bodies
