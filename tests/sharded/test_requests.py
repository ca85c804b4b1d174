"""What a sharded queue sends besides the requests of its shards, and what it makes of each reply.

The requests and replies are in `requests.txt`, as `tests.traces` explains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redis.exceptions import ResponseError

from ackq.config import Groups, QueueConfig
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from ackq.sharded import operations, resize
from tests.outside import FIXED
from tests.traces import Traces, compare

FILE = Path(__file__).with_name("requests.txt")
WRONG_TYPE = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")


def spec(name: str = "{q:0.1}", **settings: Any) -> QueueSpec:
    config = QueueConfig(**settings)
    keys = QueueKeys.of(name, grouped=config.grouped)
    return QueueSpec(name, keys, config, outside=FIXED)


def records() -> Traces:
    whole = spec("{q}:all")
    yield "read the record", operations.read(whole, "q")
    yield "read what is not recorded", operations.read(whole, "q")
    yield "create", operations.read(whole, "q", 3)
    grouped = spec("{q}:all", groups=Groups("customer"))
    yield "create with groups", operations.read(grouped, "q", 3)
    yield "change the record", resize.change(whole, "q", 4, 3, {8, 2})
    yield "change an old record", resize.change(whole, "q", 4, 3, ())
    yield "change a key of another type", resize.change(whole, "q", 4, 3, ())


def shards() -> Traces:
    yield "retire", resize.retire(spec(), 4)
    yield "retire one with messages", resize.retire(spec(), 4)
    yield "revive", resize.revive(spec(), 5)
    yield "revive one that was retired later", resize.revive(spec(), 5)
    yield "is it retired", resize.is_retired(spec())
    yield "is a list retired", resize.is_retired(spec())
    yield "look", operations.shard_counts(spec())
    yield "look at a paused one", operations.shard_counts(spec())
    yield "look at one with groups", operations.shard_counts(spec(groups=Groups("customer")))
    yield "close", resize.close(spec(groups=Groups("customer")), 5)
    yield "seal", resize.seal(spec(groups=Groups("customer")))
    yield "release", resize.release(spec(groups=Groups("customer")), 5)


PARTS = (records, shards)


def test_the_requests_of_a_sharded_queue() -> None:
    compare(FILE, PARTS)
