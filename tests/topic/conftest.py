"""Fixtures of the topic's tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import redis

from ackq.embedded import Server
from ackq.topic import AsyncTopic, Topic
from tests.servers import Target, private_server


class MakeTopic(Protocol):
    """The type of `make_topic`. An asynchronous topic is called like its blocking twin."""

    def __call__(self, name: str = ..., **settings: Any) -> Topic: ...


@pytest.fixture
def make_topic(make_flavoured: Callable[..., Any], name: str) -> MakeTopic:
    """``make_topic(**settings)``: this test's topic, with connections of its own."""
    return lambda name=name, **settings: make_flavoured(Topic, AsyncTopic, name, **settings)


@pytest.fixture
def topic(make_topic: MakeTopic) -> Topic:
    """A topic with default settings."""
    return make_topic()


@pytest.fixture
def keys(target: Target, name: str) -> Keys:
    """The topic's keys, to look at and to change by hand."""
    return Keys(target.control, name)


@pytest.fixture
def plain(plain_client: redis.Redis, name: str) -> Iterator[Callable[..., Topic]]:
    """``plain(**settings)``: a blocking topic on one plain server."""
    with contextlib.ExitStack() as stack:

        def make(**settings: Any) -> Topic:
            return stack.enter_context(Topic(plain_client, name, **settings))

        yield make


@pytest.fixture
def plain_keys(plain_client: redis.Redis, name: str) -> Keys:
    """The keys of the topic on the plain server."""
    return Keys(plain_client, name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of this module's own, which tests may fill, freeze or put behind a proxy."""
    with private_server(tmp_path_factory.mktemp("topic"), appendfsync="no") as server:
        yield server


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where child processes write their events."""
    return tmp_path / "events.jsonl"


class Keys:
    """The keys of a topic as another language sees them."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name

    def key(self, suffix: str) -> str:
        return f"{self.name}:{suffix}"

    def message(self, index: int) -> Any:
        return self.client.get(self.key(f"messages:{index}"))

    def newest(self) -> int:
        return int(self.client.get(self.key("nextIndex")) or 0)

    def place(self, consumer: str) -> int | None:
        found = self.client.get(self.key(f"consumers:{consumer}"))
        return None if found is None else int(found)

    def leases(self, consumer: str) -> dict[bytes, float]:
        return dict(self.client.zrange(self.key(f"leases:{consumer}"), 0, -1, withscores=True))

    def ranges(self, consumer: str) -> dict[bytes, float]:
        return dict(self.client.zrange(self.key(f"ranges:{consumer}"), 0, -1, withscores=True))

    def end_leases(self, consumer: str) -> None:
        """Let the time of every lease be over."""
        for member in self.leases(consumer):
            self.client.zadd(self.key(f"leases:{consumer}"), {member: 1}, xx=True)

    def expire(self, *indexes: int) -> None:
        """Let messages be gone as if their time was over."""
        self.client.delete(*(self.key(f"messages:{index}") for index in indexes))


def bodies(batch: Any) -> list[bytes]:
    """Return the bodies of a batch."""
    return [message.body for message in batch]


def indexes(batch: Any) -> list[int]:
    """Return the indexes of a batch."""
    return [message.index for message in batch]
