"""How many connections a queue opens, and that it leaves none behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import ackq
from tests.facade import AsSync, Portal
from tests.servers import Target
from tests.waiting import wait_until


def counted(target: Target, section: str, field: str) -> int:
    """Return a number that the server tells, of all primaries together."""
    nodes = {"target_nodes": "primaries"} if target.cluster else {}
    info: Any = target.control.info(section, **nodes)
    return sum(int(part[field]) for part in (info.values() if target.cluster else [info]))


def opened(target: Target) -> int:
    return counted(target, "stats", "total_connections_received")


def test_operations_one_after_the_other_share_a_connection(
    make_queue: Callable[..., Any], target: Target, name: str
) -> None:
    queue = make_queue()
    queue.push({"id": "a"})
    before = opened(target)
    for _ in range(5):
        queue.release(queue.pop())
    message = queue.pop()
    target.control.sadd(f"{name}DEAD", "x")
    for _ in range(5):
        with pytest.raises(ackq.KeyTypeError):
            queue.reject(message)
    assert opened(target) == before


def test_close_leaves_no_connection(make_queue: Callable[..., Any], target: Target) -> None:
    before = counted(target, "clients", "connected_clients")
    queue = make_queue()
    queue.push({"id": "a"})
    assert counted(target, "clients", "connected_clients") > before
    queue.close()
    wait_until(
        lambda: counted(target, "clients", "connected_clients") <= before, "it to disconnect"
    )


def test_a_wait_is_cut_in_parts_that_the_read_timeout_allows(
    embedded_client: Any, flavour: str, portal: Portal, name: str
) -> None:
    settings = embedded_client.connection_pool.connection_kwargs
    url = f"redis://{settings['host']}:{settings['port']}?socket_timeout=1"
    if flavour == "sync":
        made: Any = ackq.Queue.from_url(url, name)
    else:
        made = AsSync(portal, portal.call(ackq.AsyncQueue.from_url, url, name))
    with closing(made) as queue:
        queue.push({"id": "a"})
        queue.ack(queue.pop())
        before = embedded_client.info("stats")["total_connections_received"]
        assert queue.pop(timeout=1.3) is None
        # A wait that the client gave up would have cost a connection.
        assert embedded_client.info("stats")["total_connections_received"] == before
