"""A worker's state without a server: bells that count, and time that a test sets."""

from collections.abc import Callable
from dataclasses import dataclass

import redis

import ackq
from ackq.queue.messages import Message, QueueStats
from ackq.worker import Backoff, RateLimit
from ackq.worker.failures import Failures
from ackq.worker.feed import Feed, Pace, QueueOrder
from ackq.worker.lane import Lane
from ackq.worker.presence import Presence
from ackq.worker.slot import Slot
from ackq.worker.state import Handling, State

#: Seconds by which the server's clock is ahead of the worker's.
AHEAD = 1_000_000.0


class Bell:
    """Counts its rings."""

    def __init__(self) -> None:
        self.rings = 0

    def ring(self) -> None:
        self.rings += 1

    def wait(self, seconds: float) -> None:
        raise NotImplementedError


@dataclass
class Time:
    """A clock that stands still until a test moves it."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def note_interrupt(slot: Slot, message: Message, reason: str) -> None:
    """Interrupt no handler, but note why."""
    slot.interrupted = slot.interrupted or reason


def state_of(queues: int = 1, limit: RateLimit | None = None, slots: int = 4) -> tuple[State, Time]:
    time = Time()
    names = [f"q{number}" for number in range(queues)]
    lanes = [
        Lane(number, ackq.Queue(redis.Redis(), name, visibility_timeout=30.0), limit, Bell())
        for number, name in enumerate(names)
    ]
    state = State(
        lanes=lanes,
        slots=[Slot() for _ in range(slots)],
        feed=Feed(names, QueueOrder([1.0] * queues, queues), Pace(slots, 0), Bell()),
        handling=Handling(Failures(print, "text"), Backoff()),
        clock=time,
        upkeep_bell=Bell(),
        suspects_bell=Bell(),
        interrupt=note_interrupt,
        wake=lambda: None,
    )
    return state, time


def message_of(time: Time, queue: str = "q0", id: str = "a", taken: float = 0.0) -> Message:
    """Return a message taken that many seconds ago, for 30 seconds."""
    deadline = round((time.now + AHEAD - taken + 30.0) * 1_000_000)
    return Message(queue, id.encode(), b"{}", deadline, 1)


def present(
    state: State, name: str | None = None, stop: Callable[[], None] | None = None
) -> Presence:
    """Return the presence of a worker that has begun to run."""
    presence = Presence(name, 5.0, stop or state.stop)
    presence.start(state, Bell)
    return presence


def ready(number: int, paused: bool = False) -> QueueStats:
    """Return the statistics of a queue with only ready messages."""
    return QueueStats(number, 0, 0, 0, 0, 0, paused, None)
