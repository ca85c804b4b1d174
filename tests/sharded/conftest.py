"""Fixtures of the sharded queue's tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from ackq import scripts
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from tests.facade import AsSync, Portal
from tests.sharded.scripted import Scripted

MakeSharded = Callable[..., Any]


@pytest.fixture
def make_sharded(
    make_client: Callable[[], Any], flavour: str, portal: Portal, token: str
) -> Iterator[MakeSharded]:
    """``make_sharded(shards=4, **settings)``: this test's queue, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(shards: int | None = 4, **settings: Any) -> Any:
            client = make_client()
            if flavour == "sync":
                queue: Any = ShardedQueue(client, token, shards, **settings)
            else:
                created = portal.call(lambda: AsyncShardedQueue(client, token, shards, **settings))
                queue = AsSync(portal, created)
            stack.callback(queue.close)
            return queue

        yield make


@pytest.fixture
def scripted(plain_client: redis.Redis, token: str) -> Scripted:
    """The scripts, and the keys of a queue that does not exist."""
    return Scripted(plain_client, token, scripts.directory())
