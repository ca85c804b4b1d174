"""Fixtures of the sharded queue's tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackq.sharded import AsyncShardedQueue, ShardedQueue
from tests.facade import AsSync, Portal

MakeSharded = Callable[..., Any]


@pytest.fixture
def make_sharded(
    make_client: Callable[[], Any], flavour: str, portal: Portal, token: str
) -> Iterator[MakeSharded]:
    """``make_sharded(shards=4, **settings)``: this test's queue, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(shards: int = 4, **settings: Any) -> Any:
            client = make_client()
            if flavour == "sync":
                queue: Any = ShardedQueue(client, token, shards, **settings)
            else:
                created = portal.call(lambda: AsyncShardedQueue(client, token, shards, **settings))
                queue = AsSync(portal, created)
            stack.callback(queue.close)
            return queue

        yield make
