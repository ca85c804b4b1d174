"""fakeredis with its lua extra, in users' own unit tests."""

import asyncio
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ackq
import ackq.dropin.asyncio
from ackq import dropin
from ackq.queue.keys import QueueKeys

fakeredis = pytest.importorskip("fakeredis", reason="lupa has no wheel for this platform")


def test_a_queue() -> None:
    with ackq.Queue(fakeredis.FakeRedis(), "jobs") as queue:
        queue.push({"id": "a"})
        queue.push({"id": "b"}, delay=60)
        message = queue.pop()
        assert message is not None
        assert queue.extend(message) == 1
        assert queue.pop(timeout=0.05) is None
        queue.nack(message, delay=0)
        message = queue.pop()
        assert message is not None
        assert message.receive_count == 2
        queue.ack(message)
        assert queue.stats().delayed == 1
        assert queue.purge() == 1


def test_the_drop_in() -> None:
    fake = fakeredis.FakeRedis(decode_responses=True)
    with dropin.Redis(fake, hold=0) as r:
        assert isinstance(r, fakeredis.FakeRedis)
        r.lpush("jobs", "a", "b", "c")
        assert r.rpop("jobs") == "a"
        assert r.brpop("jobs") == ("jobs", "b")
        assert r.rpop("jobs", 5) == ["c"]
        assert r.llen("jobs") == 0
        assert r.brpop("jobs", 0.05) is None
        r.lpush("jobs", "d")
        r.rpop("jobs")
        r.delete("jobs")
        assert set(fake.keys()) <= {QueueKeys.of("jobs").looks.decode()}  # that one expires


def test_the_drop_in_on_asyncio() -> None:
    async def consume() -> None:
        async with dropin.asyncio.Redis(fakeredis.FakeAsyncRedis(), hold=0) as r:
            await r.lpush("jobs", "a", "b")
            assert await r.brpop("jobs") == (b"jobs", b"a")
            assert await r.rpop("jobs") == b"b"
            assert await r.rpop("jobs") is None
            assert not await r.keys("jobs*")

    asyncio.run(consume())


def test_the_example_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dropin.md").read_text()
    (example,) = re.findall(r"^```python\n(import fakeredis.*?)^```", page, re.M | re.S)
    scope: dict[str, Any] = {}
    exec(compile(example, "the page", "exec"), scope)
    scope["r"].close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ackq.Queue(fakeredis.FakeRedis(), "jobs"),
        lambda: dropin.Redis(fakeredis.FakeRedis(), hold=0),
        lambda: dropin.asyncio.Redis(fakeredis.FakeAsyncRedis(), hold=0),
    ],
    ids=["Queue", "drop-in", "asyncio"],
)
def test_without_lua_it_says_at_once_what_to_install(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "lupa" else find(name, *more),
    )
    with pytest.raises(ackq.ConfigurationError, match=r"pip install 'fakeredis\[lua\]'"):
        make()
