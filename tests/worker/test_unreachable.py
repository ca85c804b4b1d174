"""No routine of a worker ends because Redis does not answer one of its calls, whichever it is."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from ackq.core import observation
from ackq.worker import RateLimit
from ackq.worker.effects import Routine, Wait
from ackq.worker.feeder import feed, wait_for_messages
from ackq.worker.health import Health
from ackq.worker.minutes import Minutes
from ackq.worker.policy import Settlement
from ackq.worker.presence import stay_listed
from ackq.worker.state import State
from ackq.worker.suspects import Suspect, run_alone
from ackq.worker.upkeep import upkeep
from tests.worker.by_hand import AHEAD, Bell, Time, message_of, present, ready, state_of


def _taking(state: State) -> Routine[None]:
    state.draining = state.lanes[0].sharded = True
    return feed(state)


def _limited(state: State) -> Routine[None]:
    state.lanes[0].limit = RateLimit(1)
    return feed(state)


def _waiting(state: State) -> Routine[None]:
    state.lanes[0].take.empty = True
    return wait_for_messages(state, state.lanes[0])


def _upkeep(state: State) -> Routine[None]:
    lane = state.lanes[0]
    running, done, failed = (message_of(Time(), id=id, taken=25.0) for id in "abc")
    state.slots[0].message = running
    lane.clocks["q0"] = AHEAD
    lane.upkeep.done.append(done)
    lane.upkeep.returned.append((failed, Settlement("nack", 1.0)))
    for _ in range(9):
        yield from upkeep(state)
        yield Wait(Bell(), 2.0)


def _listed(state: State) -> Routine[None]:
    presence = present(state)
    state.bells.append(bell := Bell())
    routine = stay_listed(state, state.lanes[0], presence, bell)
    yield from _stopped(routine, presence.end)


def _recorded(state: State) -> Routine[None]:
    minutes = Minutes(True)
    (routine,) = minutes.start(state, Bell)
    yield from _stopped(routine, minutes.end)


def _healthy(state: State) -> Routine[None]:
    health = Health(file="/tmp/none", stalled_after=1.0)
    for _ in range(9):
        yield Wait(Bell(), 2.0)
        yield from health.watch(state)


def _alone(state: State) -> Routine[None]:
    message = message_of(Time())
    fields = (message.queue, message.key, message.receipt, 9, 8)
    return run_alone(state, Given([Suspect(0, *fields, None)]))


class Given(list[Suspect]):
    """An inbox with these suspects."""

    def read(self) -> list[Suspect]:
        suspects = self.copy()
        self.clear()
        return suspects

    def is_over(self, idle: bool) -> bool:
        return False

    def close(self) -> None: ...


def _stopped(routine: Routine[None], end: Callable[[], None]) -> Routine[None]:
    """Run a routine, and end it after some of its waits."""
    left, step = 30, next(routine)
    with suppress(StopIteration):
        while True:
            left -= isinstance(step, Wait)
            if left == 0:
                end()
            try:
                answer = yield step
            except redis.RedisError as error:
                step = routine.throw(error)
            else:
                step = routine.send(answer)


#: What calls of queues return, by the name of the method or of the operation.
ANSWERS: dict[str, Any] = {
    "pop_many": [],
    "stats": ready(3),
    "heartbeat": b"",
    "leave": True,
    "permit": (1, 0),
    "run_alone": True,
}


@pytest.mark.parametrize(
    ("begin", "failing", "then"),
    [
        (_taking, "pop_many", "pop_many"),
        (_taking, "stats", "pop_many"),
        (_limited, "permit", "permit"),
        (_limited, "pop_many", "permit"),
        (_waiting, "pop_many", "pop_many"),
        (_upkeep, "extend", "extend"),
        (_upkeep, "counters", "ack"),
        (_upkeep, "ack", "ack"),
        (_upkeep, "nack", "nack"),
        (_listed, "heartbeat", "heartbeat"),
        (_listed, "leave", ""),
        (_recorded, "counters", ""),
        (_healthy, "stats", "stats"),
        (_alone, "extend", "run_alone"),
        (_alone, "run_alone", "run_alone"),
    ],
)
def test_no_routine_ends_because_redis_does_not_answer(begin: Any, failing: str, then: str) -> None:
    state, time = state_of()
    routine = begin(state)
    called: list[str] = []
    with suppress(StopIteration), observation.prefetching():
        step = next(routine)
        for _ in range(100):
            if isinstance(step, Wait):
                time.now += step.seconds
                step = routine.send(None)
                continue
            name = step.method.__name__
            called.append(step.args[0].__name__ if name == "execute" else name)
            if called[-1] == failing:
                step = routine.throw(redis.ConnectionError("gone"))
            else:
                step = routine.send(ANSWERS.get(called[-1]))
    assert then in ["", *called[called.index(failing) + 1 :]]
