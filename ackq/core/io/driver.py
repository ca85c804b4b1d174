"""Run operations over blocking connections."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from redis.connection import AbstractConnection
from redis.exceptions import ResponseError

from ackq.core.effects import Effect, Operation, Request, Sleep
from ackq.core.io.connections import ClusterRoute, SingleRoute
from ackq.core.io.wire import pack
from ackq.core.retries import pause_before_resend, unwrapped

T = TypeVar("T")


class Driver:
    """Answers the effects of an operation. Safe to share between threads."""

    def __init__(self, route: SingleRoute | ClusterRoute) -> None:
        self.route = route

    def run(self, steps: Operation[T]) -> T:
        """Run an operation to its end and return its result."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._answer(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _answer(self, step: Effect) -> Any:
        if isinstance(step, Request):
            return self._request(step)
        if isinstance(step, Sleep):
            time.sleep(step.seconds)
            return None
        return time.monotonic()

    def _request(self, request: Request) -> Any:
        error: Exception | None = None
        attempt = 0
        while True:
            sent = False
            try:
                connections = self.route.connections(error)
                connection = connections.acquire()
                try:
                    self.route.prepare(connection, error)
                    sent = True
                    reply = _exchange(connection, request)
                except ResponseError:
                    connections.release(connection)
                    raise
                except BaseException:
                    # Part of a request may be sent, or part of a reply unread.
                    connection.disconnect()
                    raise
                connections.release(connection)
                return reply
            except Exception as failure:
                error = unwrapped(failure)
                self.route.note(error)
                pause = pause_before_resend(error, request, sent, attempt)
            attempt += 1
            if pause:
                time.sleep(pause)


def _exchange(connection: AbstractConnection, request: Request) -> Any:
    packed = [pack(request.command())]
    confirmation = request.confirmation()
    if confirmation is None:
        connection.send_packed_command(packed, check_health=False)
        return connection.read_response(disable_decoding=True, disconnect_on_error=True)
    packed.append(pack(confirmation))
    connection.send_packed_command(packed, check_health=False)
    replies: list[Any] = []
    for _ in packed:
        try:
            replies.append(
                connection.read_response(disable_decoding=True, disconnect_on_error=True)
            )
        except ResponseError as error:
            # Read both replies in any case, or the next request would get the second one.
            replies.append(error)
    if isinstance(replies[0], ResponseError):
        raise replies[0]
    return tuple(replies)
