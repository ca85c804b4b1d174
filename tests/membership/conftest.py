"""Fixtures of the coordinator's tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackq import scripts
from ackq.membership.client import ConsumerGroup
from ackq.membership.client_async import AsyncConsumerGroup
from tests.facade import AsSync, Portal
from tests.membership.scripted import Group

MakeMember = Callable[..., Any]


@pytest.fixture
def make_member(
    make_client: Callable[[], Any], flavour: str, portal: Portal, name: str
) -> Iterator[MakeMember]:
    """``make_member(shares=16, **settings)``: a member of this test's group, closed after it."""
    with contextlib.ExitStack() as stack:

        def make(partitions: int = 16, **settings: Any) -> Any:
            client = make_client()
            if flavour == "sync":
                member: Any = ConsumerGroup(client, name, partitions, **settings)
            else:
                created = portal.call(
                    lambda: AsyncConsumerGroup(client, name, partitions, **settings)
                )
                member = AsSync(portal, created)
            stack.callback(member.close)
            return member

        yield make


@pytest.fixture
def group(plain_client: Any, token: str) -> Iterator[Group]:
    """The scripts of a group that does not exist."""
    group = Group(plain_client, token, scripts.directory())
    yield group
    plain_client.unlink(*group.keys)
