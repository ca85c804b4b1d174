"""Clients of each implementation, closed after the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from ackq.rsmq import RSMQ, AsyncRSMQ, RSMQMessage
from tests.facade import AsSync, Portal
from tests.rsmq.node import Missing, installed
from tests.rsmq.peers import JavaScript, Node, Ours, Peer, Python

MakePeer = Callable[[str], Peer]


if TYPE_CHECKING:

    class RSMQUnderTest(RSMQ):
        """A client that finds a message: where it does not, the test fails anyway."""

        def receive_message(self, *args: Any, **settings: Any) -> RSMQMessage: ...
        def pop_message(self, *args: Any, **settings: Any) -> RSMQMessage: ...


class MakeRSMQ(Protocol):
    """The type of `make_rsmq`. An asynchronous client is called like its blocking twin."""

    def __call__(self, ns: str = ..., **settings: Any) -> RSMQUnderTest: ...


@pytest.fixture
def make_rsmq(make_flavoured: Callable[..., Any], name: str) -> MakeRSMQ:
    """``make_rsmq(ns=..., **settings)``: ackq's client in the test's flavour, on every server."""
    return lambda ns=name, **settings: make_flavoured(RSMQ, AsyncRSMQ, ns, **settings)


@pytest.fixture(scope="session")
def original() -> Iterator[Node]:
    """A process that has the original; skips the test, saying why, where it cannot be had."""
    try:
        package = installed()
    except Missing as reason:
        pytest.skip(f"the original rsmq cannot run here: {reason}")
    with contextlib.closing(Node(package)) as node:
        yield node


@pytest.fixture
def make_peer(
    request: pytest.FixtureRequest, url: str, token: str, portal: Portal
) -> Iterator[MakePeer]:
    """``make_peer("ackq" | "ackq-async" | "PyRSMQ" | "rsmq")``, all on one namespace."""
    with contextlib.ExitStack() as stack:

        def make(kind: str) -> Peer:
            peer: Peer
            if kind == "ackq":
                peer = Ours(RSMQ.from_url(url, token))
            elif kind == "ackq-async":
                peer = Ours(AsSync(portal, portal.call(AsyncRSMQ.from_url, url, token)))
            elif kind == "PyRSMQ":
                peer = Python(url, token)
            else:
                peer = JavaScript(request.getfixturevalue("original"), url, token)
            stack.callback(peer.close)
            return peer

        yield make
