"""Groups of claims, and the queues that they take from."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackq import Queue
from ackq.queue.claims_client import Claims
from ackq.queue.keys import QueueKeys
from tests.servers import Target

#: ``make_claims("group")``: a group of the test's queue, with connections of its own.
MakeClaims = Callable[..., Claims]


@pytest.fixture
def client(target: Target) -> Iterator[Any]:
    """A plain client of the server."""
    with contextlib.closing(target.make_client()) as client:
        yield client


@pytest.fixture
def queue(client: Any, name: str) -> Iterator[Queue]:
    """The queue, as an ordinary consumer has it."""
    with Queue(client, name) as queue:
        yield queue


@pytest.fixture
def make_claims(client: Any, name: str) -> Iterator[MakeClaims]:
    """Make groups; they are closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(group: str = "group", **settings: Any) -> Claims:
            return stack.enter_context(Claims(client, name, group, **settings))

        yield make


@pytest.fixture
def claims(make_claims: MakeClaims) -> Claims:
    """The group, after its driver began."""
    made = make_claims()
    made.begin()
    return made


@pytest.fixture
def expire(client: Any, name: str) -> Callable[..., None]:
    """``expire(batch, ...)``: let the leases of these claims end now."""

    def expire(*batches: int, group: str = "group") -> None:
        keys = QueueKeys.of(name)
        for batch in batches:
            assert client.zadd(keys.held, {keys.claim(group, batch): batch}, xx=True, ch=True)

    return expire


def push(queue: Queue, count: int, first: int = 0) -> list[bytes]:
    """Push messages and return their bodies, in the order of their delivery."""
    bodies = [b'{"id":"%d"}' % number for number in range(first, first + count)]
    queue.push_many(bodies)
    return bodies
