"""The drop-in on an old Redis and on a cluster, blocking and on asyncio."""

import asyncio
import re
from typing import Any

import pytest
import redis

from ackq import dropin
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.servers.target import Target

ENDS = [("lpush", "rpop", "brpop"), ("rpush", "lpop", "blpop")]


@pytest.mark.parametrize(("push", "pop", "wait"), ENDS, ids=["right", "left"])
def test_blocking(target: Target, name: str, push: str, pop: str, wait: str) -> None:
    client: Any = target.make_client()
    with dropin.Redis(client, hold=0) as r:
        assert isinstance(r, type(client))
        assert isinstance(r, dropin.Redis)
        getattr(r, push)(name, "a", "b", "c", "d")
        assert getattr(r, pop)(name) == b"a"
        assert getattr(r, wait)(name) == (name.encode(), b"b")
        with r.batch(name):
            assert getattr(r, pop)(name, 1) == [b"c"]
        assert r.llen(name) == 1
        other = re.sub("[{}]", "", name) + "-other"  # of another slot
        for delete in (r.delete, r.unlink):
            r[other] = "text"
            assert delete(name, other) == (2 if delete == r.delete else 1)
        getattr(r, push)(name, "e")
        getattr(r, pop)(name)
        r.unlink(name)
        with r.pipeline() as pipeline:
            pipeline.lpush(name, 1)
            pipeline.delete(name)
            assert pipeline.execute() == [1, 1]
        assert (
            target.control.exists(*[f"{name}{end}" for end in ("", "BACKUP", "CONTEXT", "RECORD")])
            == 0
        )


@pytest.mark.parametrize(("push", "pop", "wait"), ENDS, ids=["right", "left"])
def test_on_asyncio(target: Target, name: str, push: str, pop: str, wait: str) -> None:
    async def main() -> None:
        client: Any = target.make_async_client()
        async with AsyncRedis(client, hold=0) as r:
            assert isinstance(r, type(client))
            await getattr(r, push)(name, "a", "b", "c", "d")
            assert await getattr(r, pop)(name) == b"a"
            assert await getattr(r, wait)(name) == (name.encode(), b"b")
            async with r.batch(name):
                assert await getattr(r, pop)(name, 1) == [b"c"]
            assert await r.llen(name) == 1
            other = re.sub("[{}]", "", name) + "-other"  # of another slot
            for delete in (r.delete, r.unlink):
                await r.set(other, "text")
                assert await delete(name, other) == (2 if delete == r.delete else 1)
            await getattr(r, push)(name, "e")
            await getattr(r, pop)(name)
            assert await r.unlink(name) == 0
        await client.aclose()

    asyncio.run(main())
    assert (
        target.control.exists(*[f"{name}{end}" for end in ("", "BACKUP", "CONTEXT", "RECORD")]) == 0
    )


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
