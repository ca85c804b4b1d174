"""Fixtures of the sharded queue's tests."""

from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import scripts
from ackq.sharded import AsyncShardedQueue, ShardedQueue
from tests.sharded.scripted import Scripted

MakeSharded = Callable[..., Any]


@pytest.fixture
def make_sharded(make_flavoured: Callable[..., Any], token: str) -> MakeSharded:
    """``make_sharded(shards=4, **settings)``: this test's queue."""
    kinds = (ShardedQueue, AsyncShardedQueue)
    return lambda shards=4, **settings: make_flavoured(*kinds, token, shards, **settings)


@pytest.fixture
def scripted(plain_client: redis.Redis, token: str) -> Scripted:
    """The scripts, and the keys of a queue that does not exist."""
    return Scripted(plain_client, token, scripts.directory())


@pytest.fixture
def queue(make_sharded: MakeSharded) -> Any:
    """This test's queue, with four shards."""
    return make_sharded()
