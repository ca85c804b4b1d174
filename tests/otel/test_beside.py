"""The drop-in is traced as the queue below it; Spark's calls are not traced."""

import orjson
import redis

import ackq.dropin.asyncio
from ackq import Queue, dropin
from ackq.queue import Claims
from ackq.queue.staging_client import Staging
from ackq.staging.keys import Staged
from tests.facade import Portal
from tests.otel.conftest import Recorded, attributes, id_of, linked


def test_the_drop_in_has_the_spans_of_the_queue(
    recorded: Recorded, plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue, dropin.Redis(plain_client, hold=0) as r:
        queue.push_many([{"id": "a"}, {"id": "b"}])
        for id in "ab":
            assert orjson.loads(r.rpop(name) or b"")["id"] == id
        assert r.rpop(name) is None
    pushed, *rest = recorded.spans()
    assert [span.name.split()[0] for span in rest] == ["pop", "ack", "pop", "ack"]
    for span, id in zip(rest, "aabb", strict=True):
        assert attributes(span)["message.id"] == id
        assert attributes(span)["destination.name"] == name
    assert linked(rest[0]) == [id_of(pushed)]


def test_the_asyncio_drop_in_has_the_spans_of_the_queue(
    recorded: Recorded, plain_client: redis.Redis, name: str, portal: Portal
) -> None:
    async def consume() -> bytes | None:
        settings = plain_client.connection_pool.connection_kwargs
        client = redis.asyncio.Redis(host=settings["host"], port=settings["port"])
        async with client, ackq.dropin.asyncio.Redis(client, hold=0) as r:
            await r.lpush(name, b'{"id":"a"}')
            found: bytes | None = await r.rpop(name)
            await r.rpop(name)
            return found

    assert portal.call(consume) == b'{"id":"a"}'
    assert [span.name for span in recorded.spans()] == [f"pop {name}", f"ack {name}"]


def test_claims_and_staged_rows_are_not_traced_and_not_changed(
    recorded: Recorded, plain_client: redis.Redis, name: str
) -> None:
    row = b'{"id":"a"}'
    with (
        Staging(plain_client, name, "sink") as writer,
        Claims(plain_client, name, "source") as group,
    ):
        staged = Staged("0-a")
        writer.stage(0, staged, [row])
        writer.commit(0, [staged])
        plain_client.lpush(name, row)
        group.begin()
        claim = group.claim(0, messages=2)
        assert claim is not None
        assert group.read(claim.batch, 0, 2) == [row] * claim.rows
        group.ack(claim.batch)
    assert recorded.spans() == []
    for key in plain_client.scan_iter(f"{name}*"):
        plain_client.unlink(key)
