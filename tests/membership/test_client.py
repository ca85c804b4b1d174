"""When a member joins, sends heartbeats and leaves, in both flavours, with no server."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis
import redis.asyncio

from ackq.membership.client import ConsumerGroup
from ackq.membership.client_async import AsyncConsumerGroup
from ackq.membership.operations import Assignment

ASSIGNED = Assignment("me:1", 5, (1, 2), 3)
AWAY = redis.ConnectionError("gone")


class Ran:
    """Notes the operations of a member, and answers them."""

    def __init__(self, member: Any) -> None:
        self.names: list[str] = []
        self.errors: list[Exception] = []
        #: Seconds until the next heartbeat, as the server says.
        self.next = 3600.0
        self.left = True
        self._member = member

    def __call__(self, steps: Any) -> Any:
        name = steps.gi_code.co_name
        given = steps.gi_frame.f_locals
        assert given["spec"] is self._member._spec
        session = given["session"]
        steps.close()
        self.names.append(name)
        if self.errors:
            raise self.errors.pop(0)
        if name == "leave":
            session.assignment = None
            return self.left
        session.assignment, session.next_heartbeat = ASSIGNED, self.next
        return ASSIGNED

    async def awaited(self, steps: Any) -> Any:
        return self(steps)


Play = Callable[[Any, Any, Ran], Coroutine[Any, Any, None]]


def _blocking(play: Play) -> None:
    member: Any = ConsumerGroup(redis.Redis(), "g", 8, session_timeout=6.0)
    member._run = ran = Ran(member)

    async def call(name: str) -> Any:
        # The member's thread goes on meanwhile.
        return await asyncio.to_thread(getattr(member, "close" if name == "aclose" else name))

    asyncio.run(play(member, call, ran))
    member.close()


def _asynchronous(play: Play) -> None:
    async def main() -> None:
        member: Any = AsyncConsumerGroup(redis.asyncio.Redis(), "g", 8, session_timeout=6.0)
        ran = Ran(member)
        member._run = ran.awaited

        async def call(name: str) -> Any:
            return await getattr(member, name)()

        await play(member, call, ran)
        await member.aclose()

    asyncio.run(main())


@pytest.fixture(params=[_blocking, _asynchronous], ids=["threads", "tasks"])
def runtime(request: pytest.FixtureRequest) -> Callable[[Play], None]:
    """Play a test on a member of one flavour."""
    chosen: Callable[[Play], None] = request.param
    return chosen


def _beats(member: Any) -> Any:
    beats = member._heartbeats
    return beats._thread if isinstance(member, ConsumerGroup) else beats._task


def _ended(beats: Any) -> bool:
    return not beats.is_alive() if isinstance(beats, threading.Thread) else beats.done()


async def _soon(condition: Callable[[], Any], description: str) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"waited for {description}")


def test_a_member_joins_once_and_then_knows_its_assignment(runtime: Any) -> None:
    async def play(member: Any, call: Any, ran: Ran) -> None:
        assert member.partitions == ()
        assert await call("join") == ASSIGNED
        beats = _beats(member)
        assert beats is not None
        assert (beats.name if isinstance(beats, threading.Thread) else beats.get_name()) == "ackq-g"
        assert not isinstance(beats, threading.Thread) or beats.daemon
        assert await call("join") is ASSIGNED
        assert ran.names == ["heartbeat"]
        assert member.partitions == (1, 2)
        assert await call("heartbeat") == ASSIGNED
        assert _beats(member) is beats
        member.session.assignment = None  # it was fenced off
        assert await call("join") == ASSIGNED
        assert ran.names == ["heartbeat"] * 3

    runtime(play)


def test_a_member_that_left_sends_no_heartbeats_and_may_join_again(runtime: Any) -> None:
    async def play(member: Any, call: Any, ran: Ran) -> None:
        await call("join")
        beats = _beats(member)
        assert await call("leave") is True
        assert _ended(beats)
        assert _beats(member) is None
        assert ran.names == ["heartbeat", "leave"]
        ran.left = False
        assert await call("leave") is False
        member.session.assignment = ASSIGNED  # of another thread, which does not join it
        assert await call("join") == ASSIGNED
        assert ran.names == ["heartbeat", "leave", "leave", "heartbeat"]
        assert not _ended(_beats(member))

    runtime(play)


def test_heartbeats_follow_at_the_times_that_the_server_names(
    runtime: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(member: Any, call: Any, ran: Ran) -> None:
        ran.next = 0.005
        await call("join")
        await _soon(lambda: len(ran.names) >= 4, "some heartbeats")
        assert set(ran.names) == {"heartbeat"}
        ran.errors = [AWAY]
        await _soon(lambda: caplog.messages, "an error")
        # The next heartbeat is the usual time away.
        await _soon(lambda: member.session.next_heartbeat == 1.0, "the interval")
        assert caplog.messages == ["group 'g': a heartbeat failed: gone"]
        assert not _ended(_beats(member))

    with caplog.at_level(logging.WARNING, "ackq.members"):
        runtime(play)


def test_a_member_that_cannot_leave_is_closed_all_the_same(
    runtime: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(member: Any, call: Any, ran: Ran) -> None:
        await call("join")
        beats = _beats(member)
        ran.errors = [AWAY]
        await call("aclose")
        assert _ended(beats)
        assert caplog.messages == ["group 'g': could not leave, the session runs out: gone"]

    runtime(play)
