"""Run operations over blocking connections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from redis.connection import AbstractConnection
from redis.exceptions import NoScriptError, ResponseError

from ackq.core.effects import Clock, Effect, Operation, Request, Sleep, wait_command
from ackq.core.io.connections import ClusterRoute, SingleRoute
from ackq.core.io.wire import pack
from ackq.core.retries import TEMPORARY, pause_before_resend, unwrapped

T = TypeVar("T")

#: Operations that `Driver.run_all` runs at a time: one round trip serves them all, and Redis still
#: answers other clients within a few milliseconds.
TOGETHER = 100


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
                    if isinstance(step, Request):
                        answer = self._request(step)
                    elif isinstance(step, Clock):
                        answer = time.monotonic()
                    else:
                        answer = _pass_time(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def run_all(self, operations: Iterable[Operation[T]]) -> list[T | Exception]:
        """Run operations that read, `TOGETHER` at a time, and return their results in order.

        The requests of operations that run together are sent in one pipeline. If an operation
        raises an error, that error is its result.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the connection failed; no result is returned.
        """
        remaining = iter(operations)
        results: list[T | Exception] = []
        while group := list(islice(remaining, TOGETHER)):
            results += self._run_group(group)
        return results

    def _run_group(self, group: Sequence[Operation[T]]) -> list[T | Exception]:
        results: dict[int, T | Exception] = {}
        answers: dict[int, Any] = dict.fromkeys(range(len(group)))
        while answers:
            steps: dict[int, Effect] = {}
            for number, answer in answers.items():
                operation = group[number]
                try:
                    failed = isinstance(answer, Exception)
                    steps[number] = operation.throw(answer) if failed else operation.send(answer)
                except StopIteration as stop:
                    results[number] = stop.value
                except Exception as error:
                    results[number] = error
            answers = self._answer_all(steps)
        return [results[number] for number in range(len(group))]

    def _answer_all(self, steps: dict[int, Effect]) -> dict[int, Any]:
        """Answer effects: the requests in one round trip, the others one by one."""
        requests = {number: each for number, each in steps.items() if isinstance(each, Request)}
        replies = self._pipeline(list(requests.values())) if requests else []
        answers: dict[int, Any] = dict(zip(requests, replies, strict=True))
        for number, step in steps.items():
            answer = answers.get(number)
            again = isinstance(answer, (NoScriptError, *TEMPORARY))
            if not isinstance(step, Request):
                answers[number] = _pass_time(step)
            elif again:
                try:
                    answers[number] = self._request(step)
                except ResponseError as error:
                    answers[number] = error
        return answers

    def _pipeline(self, requests: Sequence[Request]) -> list[Any]:
        """Send requests at once, and return the reply or error of each."""
        connections = self.route.connections(None)
        connection = connections.acquire()
        try:
            packed = b"".join(pack(request.command()) for request in requests)
            connection.send_packed_command([packed], check_health=False)
            replies = [_read(connection) for _ in requests]
        except BaseException:
            # Part of the requests may be sent, or part of the replies unread.
            connection.disconnect()
            raise
        connections.release(connection)
        return replies

    def _request(self, request: Request) -> Any:
        error: Exception | None = None
        attempt = 0
        while True:
            sent = False
            try:
                connections = self.route.connections(error)
                connection = connections.acquire()
                try:
                    if error is not None:
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


def _pass_time(step: Sleep | Clock) -> float | None:
    """Answer an effect that needs no server."""
    if isinstance(step, Clock):
        return time.monotonic()
    time.sleep(step.seconds)
    return None


def _exchange(connection: AbstractConnection, request: Request) -> Any:
    if request.confirm is None:
        connection.send_packed_command([pack(request.command())], check_health=False)
        return connection.read_response(disable_decoding=True, disconnect_on_error=True)
    packed = [pack(request.command()), pack(wait_command(request.confirm))]
    connection.send_packed_command(packed, check_health=False)
    # Read both replies in any case, or the next request would get the second one.
    replies = [_read(connection) for _ in packed]
    if isinstance(replies[0], ResponseError):
        raise replies[0]
    return tuple(replies)


def _read(connection: AbstractConnection) -> Any:
    """Return the next reply, or the error that it is."""
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=True)
    except ResponseError as error:
        return unwrapped(error)
