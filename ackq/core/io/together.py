"""Run operations of several queues together, over blocking connections."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import redis
from redis.connection import AbstractConnection

from ackq.core.effects import Clock, Operation
from ackq.core.io.connections import Connections
from ackq.core.io.driver import Driver, read_reply
from ackq.core.together import TOGETHER, Run

T = TypeVar("T")
#: An operation, and the driver that runs it.
Prepared = tuple[Driver, Operation[T]]


def run_all(prepared: Sequence[Prepared[T]]) -> list[T | Exception]:
    """Run operations, and return in order what each returned or raised.

    Guarantee: each ends as if it had run alone. The first requests for one node are sent together
    on one connection, and the nodes work at the same time. So operations of one request cost one
    round trip. What an operation needs beyond that, such as a redirection, it does alone.

    The connections are shared by queues made with `Queue.beside`.
    """
    runs = [Run(steps) for _, steps in prepared]
    groups: dict[tuple[Connections, int], list[tuple[Driver, Run[T]]]] = {}
    for (driver, _), run in zip(prepared, runs, strict=True):
        while isinstance(run.step, Clock):
            run.answer(time.monotonic())
        node = _node_of(driver) if run.packable else None
        if node is None:
            continue
        part = 0
        while len(group := groups.setdefault((node, part), [])) == TOGETHER:
            part += 1
        group.append((driver, run))
    _exchange_all([(node, group) for (node, _), group in groups.items() if len(group) > 1])
    for (driver, _), run in zip(prepared, runs, strict=True):
        if run.step is not None:
            driver.run(run.rest())
    return [run.result for run in runs]  # type: ignore[misc]


def _node_of(driver: Driver) -> Connections | None:
    """Return the connections to the node of an operation; None if that takes its driver."""
    try:
        return driver.route.connections(None)
    except (redis.RedisError, OSError):
        return None


def _exchange_all(groups: Sequence[tuple[Connections, list[tuple[Driver, Run[Any]]]]]) -> None:
    """Send the requests of all nodes, then read the replies, so that the nodes work meanwhile."""
    unread: list[AbstractConnection] = []
    sent: list[tuple[AbstractConnection, Connections, list[tuple[Driver, Run[Any]]]]] = []
    try:
        for node, group in groups:
            begun = False
            try:
                connection = node.acquire()
                unread.append(connection)
                begun = True
                packed = b"".join(run.step.packed() for _, run in group)  # type: ignore[union-attr]
                connection.send_packed_command([packed], check_health=False)
            except Exception as error:
                _fail(group, error, begun)
            else:
                sent.append((connection, node, group))
        for connection, node, group in sent:
            answered = 0
            try:
                for driver, run in group:
                    reply = read_reply(connection)
                    answered += 1
                    if isinstance(reply, Exception):
                        _fail([(driver, run)], reply, True)
                    else:
                        run.answer(reply)
            except Exception as error:
                _fail(group[answered:], error, True)
            else:
                unread.remove(connection)
                node.release(connection)
    finally:
        # Part of the requests may be sent, or part of the replies unread.
        for connection in unread:
            connection.disconnect()


def _fail(group: Sequence[tuple[Driver, Run[Any]]], error: Exception, sent: bool) -> None:
    for driver, run in group:
        driver.route.note(error)
        run.failed(error, sent)
