"""Run operations over blocking connections."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import redis
from redis.connection import AbstractConnection
from redis.exceptions import NoScriptError, ResponseError

from ackq.core.effects import Clock, Operation, Pipeline, Request, Sleep, pack, wait_command
from ackq.core.io.routes import ClusterRoute, SingleRoute
from ackq.core.retries import TEMPORARY, pause_before_resend, unwrapped
from ackq.core.together import TOGETHER, Run

T = TypeVar("T")

#: Groups of operations whose requests are sent before the first replies are read: the
#: server works on one while this process works on the other.
GROUPS = 2
#: Error replies after which `Driver.run_all` sends a request again.
_AGAIN = (NoScriptError, *TEMPORARY)


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
                    elif isinstance(step, Pipeline):
                        answer = self._pipeline(step)
                    else:
                        answer = _pass_time(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def run_all(
        self, operations: Iterable[Operation[T]], together: int = TOGETHER
    ) -> list[T | Exception]:
        """Run operations that read, some at a time, and return their results in order.

        The requests of operations that run together are sent in one pipeline. While this process
        works on their replies, the server works on the next group's requests. If an operation
        raises an error, that error is its result.

        Args:
            operations: what to run.
            together: how many at a time, at most `TOGETHER`. Defaults to `TOGETHER`.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the connection failed; no result is returned.
        """
        remaining = iter(operations)
        groups: list[_Group[T]] = []
        sent: deque[_Group[T]] = deque()
        connections = self.route.connections(None)
        connection = connections.acquire()
        try:
            while True:
                while len(sent) < GROUPS and (members := list(islice(remaining, together))):
                    groups.append(_Group(members))
                    sent.append(groups[-1])
                    _send(connection, groups[-1].requests)
                if not sent:
                    break
                group = sent.popleft()
                replies = [read_reply(connection) for _ in group.requests]
                group.answer([*map(self._settled, group.requests, replies)])
                if group.requests:
                    sent.append(group)
                    _send(connection, group.requests)
        except BaseException:
            # Part of the requests may be sent, or part of the replies unread.
            connection.disconnect()
            raise
        connections.release(connection)
        return [result for group in groups for result in group.results]

    def _settled(self, request: Request, reply: Any) -> Any:
        """Return the reply; if it is an error that may pass, that of another attempt."""
        if not isinstance(reply, _AGAIN):
            return reply
        try:
            return self._request(request)
        except ResponseError as error:
            return error

    def _request(self, request: Request) -> Any:
        error: Exception | None = None
        attempt = 0
        while True:
            sent = False
            try:
                at = self.route.at if error is None else None
                connections = at or self.route.connections(error)
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

    def _pipeline(self, step: Pipeline) -> list[Any]:
        """Send requests at once, and return the reply to each, or the error that it met."""
        answers: list[Any] = []
        try:
            connections = self.route.at or self.route.connections(None)
            connection = connections.acquire()
        except Exception as error:
            self.route.note(error)
            raise
        try:
            _send(connection, step.requests)
            for request in step.requests:
                self._await_reply(connection, request)
                answers.append(read_reply(connection))
        except Exception as error:
            connection.disconnect()
            answers += [error] * (len(step.requests) - len(answers))
        except BaseException:
            # Part of the requests may be sent, or part of the replies unread.
            connection.disconnect()
            raise
        connections.release(connection)
        for answer in answers:
            if isinstance(answer, Exception):
                self.route.note(answer)
        return answers

    def _await_reply(self, connection: AbstractConnection, request: Request) -> None:
        """Wait for a reply that may come later than the connection's limit allows."""
        limit = self.route.socket_timeout
        if request.blocks > limit / 2 and not connection.can_read(limit + request.blocks):
            raise redis.TimeoutError(f"no reply within {limit + request.blocks:g} s")


class _Group(Generic[T]):
    """Operations that run together."""

    def __init__(self, operations: Sequence[Operation[T]]) -> None:
        self._runs = [Run(operation) for operation in operations]
        self._find_requests()

    @property
    def results(self) -> list[T | Exception]:
        """What the operations returned or raised, in order, once all have ended."""
        return [run.result for run in self._runs]  # type: ignore[misc]

    def answer(self, answers: Sequence[Any]) -> None:
        """Answer the requests; an answer that is an exception is raised in its operation."""
        for run, answer in zip(self._running, answers, strict=True):
            run.answer(answer)
        self._find_requests()

    def _find_requests(self) -> None:
        """Find what the operations that have not ended ask of the server."""
        self._running, self.requests = list[Run[T]](), list[Request]()
        for run in self._runs:
            while isinstance(run.step, Sleep | Clock):
                run.answer(_pass_time(run.step))
            if run.step is not None:
                assert isinstance(run.step, Request), "only reads run together"
                self._running.append(run)
                self.requests.append(run.step)


def _pass_time(step: Sleep | Clock) -> float | None:
    """Answer an effect that needs no server."""
    if isinstance(step, Clock):
        return time.monotonic()
    time.sleep(step.seconds)
    return None


def _exchange(connection: AbstractConnection, request: Request) -> Any:
    if request.confirm is None:
        connection.send_packed_command([request.packed()], check_health=False)
        return connection.read_response(disable_decoding=True, disconnect_on_error=True)
    packed = [request.packed(), pack(wait_command(request.confirm))]
    connection.send_packed_command(packed, check_health=False)
    # Read both replies in any case, or the next request would get the second one.
    replies = [read_reply(connection) for _ in packed]
    if isinstance(replies[0], ResponseError):
        raise replies[0]
    return tuple(replies)


def _send(connection: AbstractConnection, requests: Iterable[Request]) -> None:
    packed = b"".join(request.packed() for request in requests)
    connection.send_packed_command([packed], check_health=False)


def read_reply(connection: AbstractConnection) -> Any:
    """Return the next reply, or the error that it is."""
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=True)
    except ResponseError as error:
        return unwrapped(error)
