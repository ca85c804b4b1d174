"""Fixtures of the coordinator's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackq import scripts
from ackq.membership.client import ConsumerGroup
from ackq.membership.client_async import AsyncConsumerGroup
from tests.membership.scripted import Group

MakeMember = Callable[..., Any]


@pytest.fixture
def make_member(make_flavoured: Callable[..., Any], name: str) -> MakeMember:
    """``make_member(shares=16, **settings)``: a member of this test's group, closed after it."""
    kinds = (ConsumerGroup, AsyncConsumerGroup)
    return lambda partitions=16, **settings: make_flavoured(*kinds, name, partitions, **settings)


@pytest.fixture
def group(plain_client: Any, token: str) -> Iterator[Group]:
    """The scripts of a group that does not exist."""
    group = Group(plain_client, token, scripts.directory())
    yield group
    plain_client.unlink(*group.keys)
