"""Runs suspects alone: messages that may have ended the processes that had them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ackq.errors import EXPECTED, LeaseLost
from ackq.queue import settle
from ackq.queue.messages import Message
from ackq.worker.batch import Pile
from ackq.worker.effects import Bell, Call, Routine, Wait
from ackq.worker.feeder import IDLE
from ackq.worker.lane import Lane
from ackq.worker.policy import NO_MORE_RECEIVES, Settlement, Terms
from ackq.worker.state import State

#: Seconds until the next look whether everything else is finished.
LOOK = 0.02
#: Seconds until the next try while Redis does not answer.
PAUSE = 0.5


class Suspect(NamedTuple):
    """A leased message that another process took."""

    number: int  #: of its queue among those of the worker
    queue: str
    key: bytes
    receipt: int
    receive_count: int
    limit: int | None  #: how often it may be received
    #: Why its last delivery failed, as a nack stores it; None: it did not, or that is recorded.
    failure: str | None


class Inbox(Protocol):
    """Where the supervisor of a process puts the suspects that are to run there."""

    def read(self) -> Iterable[Suspect]:
        """Return those that are new."""

    def is_over(self, idle: bool) -> bool:
        """Return whether none have come for a while; ``idle``: and none are left."""

    def close(self) -> None:
        """Take no more."""


class Suspects:
    """The service that runs suspects, one at a time, while nothing else runs in this worker."""

    def __init__(self, inbox: Inbox | None = None) -> None:
        """Prepare.

        Args:
            inbox: brings the suspects. Defaults to None: they are among the messages taken.
        """
        self._inbox = inbox

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Return the routine that runs them."""
        state.quiet = self._inbox is not None
        state.bells.append(state.suspects_bell)
        return [run_alone(state, self._inbox)]

    def end(self) -> None:
        """Let the routine end with the worker."""


def run_alone(state: State, inbox: Inbox | None) -> Routine[None]:
    """Run suspects, one at a time. Everything else is finished or given back before."""
    while not state.stopping:
        if inbox is not None:
            yield from _receive(state, inbox)
        if not state.suspects:
            if state.clearing:
                state.clearing = False
                state.feed.bell.ring()
                for lane in state.lanes:
                    lane.take.bell.ring()
            yield Wait(state.suspects_bell, IDLE if inbox is None else LOOK)
            continue
        state.clearing = True
        under_way = any(lane.take.under_way for lane in state.lanes)
        if under_way or not state.settled_but_suspects():
            state.upkeep_bell.ring()
            yield Wait(state.suspects_bell, LOOK)
            continue
        message = state.suspects[0]
        lane = state.by_name[message.queue]
        state.alone = True
        try:
            if (yield from _begins(state, lane, message)):
                state.charged.discard(message)  # this delivery is recorded now
                message.failure = b""
                if inbox is not None:
                    state.complete(lane, message)
                _run(state, lane, message)
                while (state.feed.buffer or state.busy() or state.unsettled()) and (
                    not state.stopping
                ):
                    yield Wait(state.suspects_bell, LOOK)
                    if inbox is not None:
                        yield from _receive(state, inbox)  # and renew those leases, too
        except EXPECTED as error:
            lane.failed(error, state.clock(), "begin")
            yield Wait(state.suspects_bell, PAUSE)
        finally:
            state.alone = False
    if inbox is not None:
        yield from _receive(state, inbox)  # to give them back
        inbox.close()


def _begins(state: State, lane: Lane, message: Message) -> Routine[bool]:
    """Note that a suspect begins. Return whether it does."""
    limit = state.limit_of(message) or 0
    begin = (settle.run_alone, message, message.receive_count, limit, unseen())
    try:
        may_run: bool = yield Call(lane.queue_of(message).execute, begin)
    except LeaseLost as error:
        state.suspects.popleft()
        state.lost(error.messages)
        return False
    if not may_run:
        lane.upkeep.returned.append((message, Settlement("reject", NO_MORE_RECEIVES)))
        state.upkeep_bell.ring()
        state.suspects.popleft()
    return may_run


def _run(state: State, lane: Lane, message: Message) -> None:
    """Let a suspect be handled."""
    item = message if lane.collector is None else Pile(lane.queue.name, [message])
    state.feed.buffer.append(item)
    state.suspects.popleft()
    state.wake()


def _receive(state: State, inbox: Inbox) -> Routine[None]:
    """Take what the supervisor sent, and renew these leases, which tells the server's time."""
    for suspect in inbox.read():
        lane = state.lanes[suspect.number]
        message = lane.message_of(*suspect[1:5])
        message.terms = Terms(max_receives=suspect.limit)
        if suspect.failure is not None:
            message.failure = suspect.failure.encode()
            state.charged.add(message)
        try:
            yield Call(lane.queue.extend, (message,))
        except LeaseLost:
            continue
        except EXPECTED as error:
            lane.failed(error, state.clock(), "renewal of leases")
        state.adopt(lane, message)
    if inbox.is_over(state.settled()):
        state.stop()


def unseen() -> ChildProcessError:
    """Return the error of a delivery whose end nobody saw, although it ran alone."""
    return ChildProcessError("ran alone and ended its process, or its machine went down")
