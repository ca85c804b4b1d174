"""Run operations over asyncio connections."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

import redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from ackq.core.effects import Operation, Pipeline, Request, Sleep, pack, wait_command
from ackq.core.io.routes_async import ClusterRoute, SingleRoute
from ackq.core.io.silence import Silence
from ackq.core.retries import pause_before_resend, unwrapped

T = TypeVar("T")


class Driver:
    """Answers the effects of an operation. Safe to share between the tasks of one event loop."""

    def __init__(self, route: SingleRoute | ClusterRoute) -> None:
        self.route = route
        self._silence = Silence(route.socket_timeout)

    async def run(self, steps: Operation[T]) -> T:
        """Run an operation to its end and return its result."""
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, Request):
                        answer = await self._request(step)
                    elif isinstance(step, Sleep):
                        answer = await asyncio.sleep(step.seconds, None)
                    elif isinstance(step, Pipeline):
                        answer = await self._pipeline(step)
                    else:
                        answer = time.monotonic()
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _request(self, request: Request) -> Any:
        error: Exception | None = None
        attempt = 0
        while True:
            sent = False
            try:
                at = self.route.at if error is None else None
                connections = at or await self.route.connections(error)
                connection = await connections.acquire()
                try:
                    if error is not None:
                        await self._prepare(connection, error)
                    sent = True
                    reply = await self._exchange(connection, request)
                except ResponseError:
                    connections.release(connection)
                    raise
                except BaseException:
                    # Part of a request may be sent, or part of a reply unread.
                    await connection.disconnect(nowait=True)
                    raise
                connections.release(connection)
                return reply
            except Exception as failure:
                error = unwrapped(failure)
                self.route.note(error)
                pause = pause_before_resend(error, request, sent, attempt)
            attempt += 1
            if pause:
                await asyncio.sleep(pause)

    async def _pipeline(self, step: Pipeline) -> list[Any]:
        """Send requests at once, and return the reply to each, or the error that it met."""
        answers: list[Any] = []
        try:
            connections = self.route.at or await self.route.connections(None)
            connection = await connections.acquire()
        except Exception as error:
            self.route.note(error)
            raise
        try:
            limit = self.route.socket_timeout
            if step.blocks > limit / 2:
                async with asyncio.timeout(limit + step.blocks):
                    await _exchange_all(connection, step, answers)
            else:
                with self._silence.limit():
                    await _exchange_all(connection, step, answers)
        except Exception as failure:
            await connection.disconnect(nowait=True)
            silent = isinstance(failure, TimeoutError)
            lost = redis.TimeoutError(f"no reply within {limit:g} s") if silent else failure
            answers += [lost] * (len(step.requests) - len(answers))
        except BaseException:
            # Part of the requests may be sent, or part of the replies unread.
            await connection.disconnect(nowait=True)
            raise
        connections.release(connection)
        for answer in answers:
            if isinstance(answer, Exception):
                self.route.note(answer)
        return answers

    async def _prepare(self, connection: AbstractConnection, error: Exception) -> None:
        async with asyncio.timeout(self.route.socket_timeout):
            await self.route.prepare(connection, error)

    async def _exchange(self, connection: AbstractConnection, request: Request) -> Any:
        """Send a request; return its reply, or the pair of it and the reply to its confirmation.

        Raises:
            redis.TimeoutError: both took longer than the connection's limit.
        """
        try:
            with self._silence.limit():
                packed = [request.packed()]
                if request.confirm is None:
                    await connection.send_packed_command(packed, check_health=False)
                    return await connection.read_response(
                        disable_decoding=True, disconnect_on_error=True
                    )
                packed.append(pack(wait_command(request.confirm)))
                await connection.send_packed_command(packed, check_health=False)
                # Read both replies in any case, or the next request would get the second one.
                replies = [await _read(connection) for _ in packed]
        except TimeoutError as error:
            raise redis.TimeoutError(f"no reply within {self.route.socket_timeout:g} s") from error
        if isinstance(replies[0], ResponseError):
            raise replies[0]
        return tuple(replies)


async def _exchange_all(connection: AbstractConnection, step: Pipeline, answers: list[Any]) -> None:
    """Send requests, and add the answers as they come."""
    packed = b"".join(each.packed() for each in step.requests)
    await connection.send_packed_command([packed], check_health=False)
    for _ in step.requests:
        answer = await _read(connection)
        answers.append(unwrapped(answer) if isinstance(answer, ResponseError) else answer)


async def _read(connection: AbstractConnection) -> Any:
    """Return the next reply, or the error that it is."""
    try:
        return await connection.read_response(disable_decoding=True, disconnect_on_error=True)
    except ResponseError as error:
        return error
