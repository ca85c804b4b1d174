"""One task of the sink, on a real server and without a session."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
import pyarrow as pa
import pytest
import redis
from pyspark.sql import types as T

from ackq import InvalidMessage, Queue
from ackq.delay import DelayQueue
from ackq.embedded import Server
from ackq.errors import ConfigurationError
from ackq.membership.shards import shard_names
from ackq.sharded import ShardedQueue
from ackq.spark import sink
from ackq.spark.lists import located
from ackq.spark.options import Reading
from ackq.spark.row_encoder import RowEncoder
from ackq.spark.sink import MAX_TARGETS, BatchSink, Task, staging_of
from ackq.spark.sink_options import Writing
from ackq.topic import Topic
from tests.faults.proxy import Proxy
from tests.servers import private_server

SCHEMA = T.StructType([T.StructField("n", T.LongType())])
Begin = Callable[..., Task]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with private_server(tmp_path_factory.mktemp("task")) as server:
        yield server


@pytest.fixture
def begin() -> Iterator[Begin]:
    """``begin(queue=..., ...)``: the task of partition 3 of batch 7."""
    with contextlib.ExitStack() as stack:

        def begin(**options: str) -> Task:
            writing = Writing.of(options, stream=False).located()
            return stack.enter_context(contextlib.closing(Task(writing, "writer", 7, 3)))

        yield begin


def rows(*numbers: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})


def add(task: Task, *batches: pa.RecordBatch) -> None:
    encoder = RowEncoder(SCHEMA, task._writing)
    for batch in batches:
        task.add(batch, encoder)


def commit(task: Task) -> None:
    task.finish()
    for shard, staged in task.staged.items():
        with staging_of(task._writing, shard, "writer") as staging:
            staging.commit(7, [staged])


@pytest.mark.parametrize("shards", [1, 2])
def test_made_ids_go_on_from_one_arrow_batch_to_the_next(
    begin: Begin, url: str, token: str, plain_client: redis.Redis, shards: int
) -> None:
    options = {"shards": str(shards)} if shards > 1 else {}
    task = begin(queue=token, url=url, **options)
    add(task, rows(*range(5)), rows(*range(5, 10)), rows(10))
    commit(task)
    found: dict[str, int] = {}
    for name in task._writing.target.lists:
        with Queue(plain_client, name) as queue:
            made = [each.id for each in queue.peek(100)]
            by = f"writer:7:3:{task._writing.target.lists.index(name)}" * (shards > 1)
            assert made == [f"{by or 'writer:7:3'}:{number}" for number in range(len(made))]
            found |= {each.id: orjson.loads(each.body)["n"] for each in queue.peek(100)}
            queue.purge()
            plain_client.delete(queue.name + "COMMITS")
    assert sorted(found.values()) == list(range(11))


def test_made_keys_of_a_delay_queue_go_on_as_well(
    begin: Begin, url: str, token: str, plain_client: redis.Redis
) -> None:
    task = begin(delayQueue=token, url=url)
    add(task, rows(0, 1), rows(2, 3))
    commit(task)
    with DelayQueue(plain_client, token) as delay:
        assert [each.key for each in delay.take(10)] == [f"writer:7:3:{n}" for n in range(4)]
        delay.purge()
    plain_client.delete(f"{token}:commits")


@pytest.mark.parametrize("kind", ["lose_request", "lose_reply"])
def test_direct_pushes_nothing_again_that_is_stored(
    begin: Begin, server: Server, token: str, kind: Any
) -> None:
    assert server.port is not None
    with Proxy(server.port) as proxy, redis.Redis.from_url(server.url) as client:
        fault = proxy.fail(b"LPUSH", kind, skip=1)
        add(begin(queue=token, url=proxy.url, writeMode="direct"), rows(*range(2500)))
        assert fault.hit == 1
        stored = Counter(orjson.loads(body)["n"] for body in client.lrange(token, 0, -1))
    twice = {number for number, count in stored.items() if count == 2}
    # A push is a thousand messages. The outcome of the second is not known; it alone is repeated.
    assert set(stored) == set(range(2500))
    assert twice == (set(range(1000, 2000)) if kind == "lose_reply" else set())


@pytest.mark.parametrize("kind", ["lose_request", "lose_reply"])
@pytest.mark.parametrize("more", [(), (b"RENAME", b"LTRIM")])
def test_a_task_keeps_one_list_with_each_row_once_if_replies_are_lost(
    begin: Begin,
    server: Server,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    more: tuple[bytes, ...],
) -> None:
    monkeypatch.setattr(sink, "COLLECTED_ROWS", 100)
    assert server.port is not None
    with Proxy(server.port) as proxy, redis.Redis.from_url(server.url) as client:
        task = begin(queue=token, url=proxy.url)
        add(task, rows(*range(100)))
        # The third list is the one that stays. RENAME and LTRIM are repeated until they succeed.
        faults = [proxy.fail(b"LPUSHX", kind, times=2), *(proxy.fail(each, kind) for each in more)]
        add(task, *(rows(*range(first, first + 100)) for first in (100, 200)))
        assert [fault.hit for fault in faults] == [2, *([1] * len(more))]
        assert client.keys(f"{token}STAGED:*") == [
            f"{token}STAGED:writer:7:{task.staged[token].task}".encode()
        ]
        assert task.staged[token].rows == 300
        assert task.staged[token].task.endswith("-2")
        commit(task)
        stored = [orjson.loads(body)["n"] for body in reversed(client.lrange(token, 0, -1))]
    assert stored == [*range(300)]
    task.discard()  # the way to the server is gone: no error, since staged rows expire


def test_a_row_of_a_later_batch_is_named_by_its_place_in_the_partition(
    begin: Begin, url: str, token: str
) -> None:
    task = begin(queue=token, url=url, valueColumn="n")
    schema = T.StructType([T.StructField("n", T.StringType())])
    encoder = RowEncoder(schema, task._writing)
    texts = [
        pa.RecordBatch.from_pydict({"n": pa.array(each, pa.string())})
        for each in (["{}"] * 3, ["{}", None])
    ]
    task.add(texts[0], encoder)
    with pytest.raises(InvalidMessage, match="row 4 of partition 3"):
        task.add(texts[1], encoder)
    task.discard()


@pytest.mark.parametrize("limit", ["COLLECTED_ROWS", "COLLECTED_BYTES"])
def test_a_write_that_fails_leaves_nothing_behind_and_no_connection(
    url: str, token: str, plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    closed: list[Task] = []
    close = Task.close

    def note(task: Task) -> None:
        close(task)
        closed.append(task)

    monkeypatch.setattr(Task, "close", note)
    monkeypatch.setattr(sink, limit, 2)
    writer = BatchSink({"queue": token, "url": url}, SCHEMA, False)

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(1, 2)
        assert plain_client.keys(f"{token}STAGED:*")
        raise RuntimeError("the rows end here")

    with pytest.raises(RuntimeError):
        writer._write(failing(), "writer", 7, 3)
    assert plain_client.keys(f"{token}*") == []
    assert len(closed) == 1


def test_delayed_rows_of_a_direct_task_are_stored_when_it_ends(
    begin: Begin, url: str, token: str, plain_client: redis.Redis
) -> None:
    task = begin(queue=token, url=url, writeMode="direct", delayColumn="n")
    add(task, rows(600, None), rows(600))
    with Queue(plain_client, token) as queue:
        assert (queue.stats().ready, queue.stats().delayed) == (1, 0)
        task.finish()
        assert (queue.stats().ready, queue.stats().delayed) == (1, 2)
        queue.purge()
    assert plain_client.keys(f"{token}*") == []


def test_a_body_may_have_a_mebibyte_and_a_timeout_is_in_milliseconds() -> None:
    writing = Writing.of({"queue": "jobs", "retryTimeoutMs": "1500"}, stream=False)
    assert writing.max_body_bytes == 1024 * 1024
    assert writing.retry_timeout == 1.5


def test_retention_is_in_milliseconds(
    begin: Begin, url: str, token: str, plain_client: redis.Redis
) -> None:
    task = begin(topic=token, url=url, retentionMs="90000")
    add(task, rows(1))
    commit(task)
    assert 60_000 < plain_client.pttl(f"{token}:messages:1") <= 90_000
    with Topic(plain_client, token) as topic:
        topic.trim(0)
    plain_client.delete(*plain_client.keys(f"{token}*"))


NAMED = T.StructType([T.StructField("n", T.LongType()), T.StructField("goes", T.StringType())])


def test_a_row_names_its_queue(
    begin: Begin, url: str, token: str, plain_client: redis.Redis
) -> None:
    names: list[str | None] = [f"{token}-{end}" for end in "abab"]
    task = begin(queueColumn="goes", url=url)
    encoder = RowEncoder(NAMED, task._writing)
    for first in (0, 2):
        task.add(named_rows(range(first, first + 2), names[first : first + 2]), encoder)
    commit(task)
    for at in (0, 1):
        with Queue(plain_client, str(names[at])) as queue:
            # The ids count the rows of the task, whatever their queue.
            assert [each.body for each in queue.peek(9)] == [
                b'{"id":"writer:7:3:%d","n":%d}' % (n, n) for n in (at, at + 2)
            ]


def named_rows(numbers: Iterable[int], names: list[str | None]) -> pa.RecordBatch:
    columns = {"n": pa.array(numbers, pa.int64()), "goes": pa.array(names, pa.string())}
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("wrong", [None, "", "a*b", "jobsBACKUP"])
def test_a_row_that_names_no_queue_is_refused(
    begin: Begin, url: str, token: str, wrong: str | None
) -> None:
    task = begin(queueColumn="goes", url=url)
    encoder = RowEncoder(NAMED, task._writing)
    rows = named_rows(range(2), [token, wrong])
    with pytest.raises(InvalidMessage, match=r"row 1 of partition 3.*'goes' names no queue"):
        task.add(rows, encoder)


def test_a_column_that_names_too_many_queues_is_the_wrong_one(
    begin: Begin, url: str, token: str
) -> None:
    task = begin(topicColumn="goes", url=url)
    encoder = RowEncoder(NAMED, task._writing)
    names: list[str | None] = [f"{token}-{n}" for n in range(MAX_TARGETS + 1)]
    with pytest.raises(InvalidMessage, match="over 1000 queues or topics: column 'goes'"):
        task.add(named_rows(range(len(names)), names), encoder)


def test_a_sharded_queue_is_written_and_read_by_its_name(
    begin: Begin, url: str, token: str, plain_client: redis.Redis
) -> None:
    with ShardedQueue(plain_client, token, 3) as queue:
        names = tuple(shard.name for shard in queue.shards())
        add(task := begin(queue=token, url=url), rows(*range(30)))
        commit(task)
        assert task._writing.target.lists == names
        assert all(shard.stats().ready for shard in queue.shards())
        assert _numbers(queue) == Counter(range(30))
        queue.resize(5)
        reading = located(Reading.of({"queue": token, "url": url, "groupId": "g"}))
        assert reading.target.lists == tuple(shard.name for shard in queue.shards())
        assert {*names} < {*reading.target.lists}
        assert len(begin(queue=token, url=url)._writing.target.lists) == 5
        queue.purge()
        plain_client.lpush(token, "x")
        with pytest.raises(ConfigurationError, match="is a list and a sharded queue"):
            begin(queue=token, url=url)
        assert len(begin(queue=token, url=url, shards="5")._writing.target.lists) == 5
        plain_client.delete(token, *(f"{shard.name}COMMITS" for shard in queue.shards()))


def test_shards_make_no_sharded_queue_of_a_list_with_messages(
    begin: Begin, url: str, token: str, plain_client: redis.Redis
) -> None:
    plain_client.lpush(token, "x")
    attempts: list[Callable[[], object]] = [
        lambda: begin(queue=token, url=url, shards="4"),
        lambda: located(Reading.of({"queue": token, "url": url, "shards": "4"})),
        lambda: located(Reading.of({"queues": f"{token},b", "url": url, "shards": "4"})),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigurationError, match=f"'{token}' is a list with messages, and not"):
            attempt()
    assert plain_client.keys(f"*{token}*") == [token.encode()]
    plain_client.delete(token)


def test_no_row_is_lost_if_a_batch_is_replayed_after_a_resize(
    begin: Begin, url: str, token: str, plain_client: redis.Redis
) -> None:
    """The first shard keeps its name, and gets rows that were on another one."""
    name = next(
        name
        for name in (f"{token}{number}" for number in itertools.count())
        if shard_names(name, 4)[0] == shard_names(name, 2)[0]
    )
    with ShardedQueue(plain_client, name, 4) as queue:
        queue.stats()  # creates it
        first = begin(queue=name, url=url)
        add(first, rows(*range(40)))
        first.finish()
        shard = first._writing.target.lists[0]
        with staging_of(first._writing, shard, "writer") as staging:
            assert staging.commit(7, [first.staged[shard]])  # then the driver dies
        before = _numbers(queue)
        first.discard()
        queue.resize(2)
        for _ in range(2):  # the second replay adds nothing
            add(again := begin(queue=name, url=url), rows(*range(40)))
            commit(again)
            assert _numbers(queue) == Counter(range(40)) + before
        queue.purge()
        shards = {*shard_names(name, 4), *shard_names(name, 2)}
        plain_client.delete(*(f"{each}COMMITS" for each in shards))


def _numbers(queue: ShardedQueue) -> Counter[int]:
    return Counter(
        orjson.loads(each.body)["n"] for shard in queue.shards() for each in shard.peek(100)
    )
