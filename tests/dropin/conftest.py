"""A drop-in client, its queue from outside, and consumers in processes of their own."""

import asyncio
import contextlib
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq import dropin
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.seen import LEASE


@pytest.fixture
def r(plain_client: redis.Redis) -> Iterator[dropin.Redis]:
    with dropin.Redis(plain_client, visibility_timeout=LEASE, hold=0) as r:
        yield r


@pytest.fixture
def queue(plain_client: redis.Redis, name: str) -> Iterator[ackq.Queue]:
    """The same queue, seen from outside."""
    with ackq.Queue(plain_client, name, visibility_timeout=LEASE) as queue:
        yield queue


@pytest.fixture
def start(plain_client: redis.Redis) -> Callable[..., AsyncRedis]:
    """``start(**settings)``: a drop-in for asyncio."""
    given = plain_client.connection_pool.connection_kwargs
    place: dict[str, Any] = {each: given[each] for each in ("host", "port") if each in given}
    if "path" in given:
        place = {"unix_socket_path": given["path"]}

    def start(**settings: Any) -> AsyncRedis:
        return AsyncRedis(
            redis.asyncio.Redis(**place, **settings), visibility_timeout=LEASE, hold=0
        )

    return start


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop; close its drop-in at the end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given: dict[str, Any] = {
        argname: pyfuncitem.funcargs[argname] for argname in pyfuncitem._fixtureinfo.argnames
    }

    async def main() -> None:
        async with given["each"].r if "each" in given else given.get("r", contextlib.nullcontext()):
            await pyfuncitem.obj(**given)

    if "each" in given and not given["each"].on_asyncio:
        with given["each"].r, contextlib.suppress(StopIteration):
            pyfuncitem.obj(**given).send(None)  # in a plain thread, where nothing has to wait
            pytest.fail("it waits for a task")
    else:
        asyncio.run(main())
    return True


PRELUDE = """
import os, signal, sys, threading, time
import redis
from ackq import dropin

r = dropin.Redis(redis.Redis.from_url(sys.argv[1]), visibility_timeout=0.6, hold=0)
name = sys.argv[2]
"""


@pytest.fixture
def script(
    tmp_path: Path, plain_client: redis.Redis, url: str, name: str
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``script(text)``: a Python process that has ``r`` and ``name``, and 'a' on the list.

    ``first`` runs before anything is imported.
    """
    started = []

    def start(text: str, first: str = "") -> subprocess.Popen[str]:
        path = tmp_path / "consumer.py"
        path.write_text(first + PRELUDE + textwrap.dedent(text))
        plain_client.lpush(name, "a")
        command = [sys.executable, str(path), url, name]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
