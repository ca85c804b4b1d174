"""Run operations of several queues together, over asyncio connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import redis
from redis.exceptions import ResponseError

from ackq.core.effects import Clock, Operation
from ackq.core.io.connections_async import Connections
from ackq.core.io.driver_async import Driver
from ackq.core.retries import unwrapped
from ackq.core.together import TOGETHER, Run

T = TypeVar("T")
#: An operation, and the driver that runs it.
Prepared = tuple[Driver, Operation[T]]


async def run_all(prepared: Sequence[Prepared[T]]) -> list[T | Exception]:
    """Run operations, and return in order what each returned or raised.

    Guarantee: each ends as if it had run alone. The first requests for one node are sent together
    on one connection, and the nodes work at the same time. So operations of one request cost one
    round trip. What an operation needs beyond that, such as a redirection, it does alone.

    The connections are shared by queues made with `AsyncQueue.beside`.
    """
    runs = [Run(steps) for _, steps in prepared]
    groups: dict[tuple[Connections, int], list[tuple[Driver, Run[T]]]] = {}
    alone: list[tuple[Driver, Run[T]]] = []
    for (driver, _), run in zip(prepared, runs, strict=True):
        while isinstance(run.step, Clock):
            run.answer(time.monotonic())
        node = await _node_of(driver) if run.packable else None
        if node is None:
            alone.append((driver, run))
            continue
        part = 0
        while len(group := groups.setdefault((node, part), [])) == TOGETHER:
            part += 1
        group.append((driver, run))
    work = [_run_group(node, group) for (node, _), group in groups.items()]
    work += [_finish(single) for single in alone]
    if len(work) == 1:
        await work[0]
    else:
        async with asyncio.TaskGroup() as tasks:
            for exchange in work:
                tasks.create_task(exchange)
    return [run.result for run in runs]  # type: ignore[misc]


async def _node_of(driver: Driver) -> Connections | None:
    """Return the connections to the node of an operation; None if that takes its driver."""
    try:
        return await driver.route.connections(None)
    except (redis.RedisError, OSError):
        return None


async def _run_group(node: Connections, group: list[tuple[Driver, Run[T]]]) -> None:
    if len(group) == 1:
        await _finish(group[0])
        return
    replies = await _exchange(node, [run.step.packed() for _, run in group])  # type: ignore[union-attr]
    for (driver, run), (reply, sent) in zip(group, replies, strict=True):
        if isinstance(reply, Exception):
            driver.route.note(reply)
            run.failed(reply, sent)
        else:
            run.answer(reply)
    rest = [pair for pair in group if pair[1].step is not None]
    if rest:
        async with asyncio.TaskGroup() as tasks:
            for pair in rest:
                tasks.create_task(_finish(pair))


async def _finish(work: tuple[Driver, Run[T]]) -> None:
    driver, run = work
    await driver.run(run.rest())


async def _exchange(node: Connections, requests: Sequence[bytes]) -> list[tuple[Any, bool]]:
    """Send requests at once; return each reply or error, and whether the request was sent."""
    replies: list[tuple[Any, bool]] = []
    sent = False
    try:
        connection = await node.acquire()
        try:
            async with asyncio.timeout(node.socket_timeout):
                sent = True
                await connection.send_packed_command([b"".join(requests)], check_health=False)
                for _ in requests:
                    try:
                        reply = await connection.read_response(
                            disable_decoding=True, disconnect_on_error=True
                        )
                    except ResponseError as error:
                        reply = unwrapped(error)
                    replies.append((reply, True))
        except BaseException:
            # Part of the requests may be sent, or part of the replies unread.
            await connection.disconnect(nowait=True)
            raise
        node.release(connection)
    except TimeoutError:
        late = redis.TimeoutError(f"no reply within {node.socket_timeout:g} s")
        replies += [(late, sent)] * (len(requests) - len(replies))
    except Exception as error:
        replies += [(error, sent)] * (len(requests) - len(replies))
    return replies
