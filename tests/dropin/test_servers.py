"""The drop-in on an old Redis and on a cluster, blocking and on asyncio."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.test_each_client import COMMANDS, Each
from tests.servers.target import Target


@pytest.fixture(params=itertools.product(["blocking", "asyncio"], COMMANDS), ids="-".join)
def each(request: pytest.FixtureRequest, target: Target, name: str) -> Iterator[Each]:
    kind, end = request.param
    client: Any = target.make_async_client() if kind == "asyncio" else target.make_client()
    r = AsyncRedis(client, hold=0) if kind == "asyncio" else dropin.Redis(client, hold=0)
    assert isinstance(r, type(client))
    with ackq.Queue(target.make_client(), name, pop_from=end) as queue:
        yield Each(r, end, target.control, queue)


async def test_a_list(each: Each) -> None:
    r, name = each.r, each.name
    await each.push("a", "b", "c", "d")
    assert await each.pop() == b"a"
    assert await each.wait() == (name.encode(), b"b")
    async with each.block(r.batch(name)):
        assert await each.pop(1) == [b"c"]
    assert await each.ready(r.llen(name)) == 1
    other = re.sub("[{}]", "", name) + "-other"  # of another slot
    for delete in (r.delete, r.unlink):
        await each.ready(r.set(other, "text"))
        assert await each.ready(delete(name, other)) == (2 if delete == r.delete else 1)
    await each.push("e")
    await each.pop()
    assert await each.ready(r.unlink(name)) == 0
    pipeline = r.pipeline()
    pipeline.lpush(name, 1)
    pipeline.delete(name)
    assert await each.ready(pipeline.execute()) == [1, 1]
    assert not each.keys()
    if each.on_asyncio:
        await r._ackq.client.aclose()


def test_a_list_without_a_hash_tag_in_a_cluster(target: Target, token: str) -> None:
    if not target.cluster:
        pytest.skip("only a cluster needs one")
    with dropin.Redis(target.make_client(), hold=0) as r:
        r.lpush(token, "a", "b")
        for call in (r.rpop, r.lpop, r.brpop):
            with pytest.raises(redis.ResponseError, match="must share a slot") as found:
                call(token)
            assert isinstance(found.value, dropin.Refused)
        assert r.llen(token) == 2
        assert r.delete(token) == 1
