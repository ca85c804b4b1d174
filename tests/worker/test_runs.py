"""Messages of a group are handled one by one, in order, and given back if one of them fails."""

from typing import Any

import pytest
import redis

from ackq import Groups, Message, Queue
from ackq.worker import Again, Batch, Reject, Release
from ackq.worker.batch import Collector
from ackq.worker.lane import Lane
from ackq.worker.policy import Settlement, Terms
from ackq.worker.state import State
from ackq.worker.upkeep import STALE, _release_stale
from tests.worker.by_hand import AHEAD, Bell, Time, state_of

RELEASED = Settlement("release")


def grouped(slots: int = 4, in_flight: int = 1) -> tuple[State, Time]:
    """Return the state of a worker whose queue has groups."""
    state, time = state_of(slots=slots)
    groups = Groups("of", in_flight)
    queue = Queue(redis.Redis(), "q0", visibility_timeout=30.0, groups=groups)
    state.lanes = [Lane(0, queue, None, Bell())]
    state.by_name = {"q0": state.lanes[0]}
    return state, time


def messages_of(time: Time, *ids: str, count: int = 1) -> list[Message]:
    """Return messages of one take. The first letter of an id is its group, unless it is a dash."""
    deadline = round((time.now + AHEAD + 30.0) * 1_000_000)
    bodies = [b"{}" if id[0] == "-" else b'{"of":"%b"}' % id[:1].encode() for id in ids]
    return [
        Message("q0", id.encode(), body, deadline, count, (0.0, None, "of"))
        for id, body in zip(ids, bodies, strict=True)
    ]


def handle(state: State, slot: int = 0) -> str:
    """Let a slot take the next message; return its id."""
    taken: Message = state.feed.buffer.popleft()
    state.slots[slot].message = taken
    return taken.id


def given_back(state: State) -> list[str]:
    """Return the messages that are released at once, and forget them."""
    returned = state.lanes[0].upkeep.returned
    found = [message.id for message, settlement in returned if settlement == RELEASED]
    returned.clear()
    return found


def buffered(state: State) -> list[str]:
    return [message.id for message in state.feed.buffer]


def test_only_the_first_message_of_each_group_can_be_handled() -> None:
    state, time = grouped()
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2", "b1", "-1", "-2", "a3"))
    assert buffered(state) == ["a1", "b1", "-1", "-2"]
    assert handle(state) == "a1"
    state.succeeded(state.slots[0])
    assert buffered(state) == ["a2", "b1", "-1", "-2"]
    assert handle(state) == "a2"
    assert handle(state, 1) == "b1"
    assert not state.settled()
    state.succeeded(state.slots[1])
    state.succeeded(state.slots[0])
    assert buffered(state) == ["a3", "-1", "-2"]
    assert given_back(state) == []


def test_several_of_a_group_are_handled_at_once_if_that_is_permitted() -> None:
    state, time = grouped(in_flight=2)
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2"))
    assert buffered(state) == ["a1", "a2"]


@pytest.mark.parametrize("error", [ValueError(), Again(5), Reject("bad"), Release()], ids=repr)
def test_after_a_failure_the_later_ones_are_given_back_uncounted(error: Exception) -> None:
    state, time = grouped()
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2", "a3", "b1"))
    handle(state)
    state.succeeded(state.slots[0])
    assert handle(state) == "a2"
    state.failed(state.slots[0], error)
    returned = state.lanes[0].upkeep.returned
    assert [message.id for message, _ in returned] == ["a2", "a3"]
    assert returned[1][1] == RELEASED
    assert buffered(state) == ["b1"]
    assert not state.feed.runs


def test_after_a_lost_lease_the_later_ones_are_given_back() -> None:
    state, time = grouped()
    messages = messages_of(time, "a1", "a2")
    state.arrived(state.lanes[0], messages)
    handle(state)
    state.lost(messages[:1])
    state.succeeded(state.slots[0])
    assert given_back(state) == ["a2"]


def test_the_leases_of_waiting_messages_are_renewed_and_all_are_released_when_they_are_stale() -> (
    None
):
    state, time = grouped()
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2", "b1", "b2"))
    handle(state)
    time.now += STALE - 0.1
    _release_stale(state)
    assert given_back(state) == []
    time.now += 15
    due = state.due(state.lanes[0], time.now)
    assert sorted(each.id for each in due) == ["a1", "a2", "b1", "b2"]
    _release_stale(state)
    assert given_back(state) == ["b1", "b2", "a2"]
    state.succeeded(state.slots[0])
    assert buffered(state) == []


def test_waiting_messages_leave_room_for_other_groups_in_idle_slots_only() -> None:
    state, time = grouped(slots=4)
    state.feed.pace._prefetch, state.feed.pace.seconds = 10, 0.0001
    state.arrived(state.lanes[0], messages_of(time, *(f"a{n}" for n in range(9))))
    handle(state)
    assert state.feed.pace.spare == 10
    assert state.room(state.lanes[0]) == 4 + 10 - 1 - 8
    state.arrived(state.lanes[0], messages_of(time, *(f"b{n}" for n in range(9))))
    handle(state, 1)
    assert state.room(state.lanes[0]) == 2
    state.arrived(state.lanes[0], messages_of(time, "c0", "d0", "e0"))
    handle(state, 2)
    handle(state, 3)
    assert len(state.feed.buffer) == 1
    assert state.room(state.lanes[0]) == 0, "all slots are busy, and another message waits"
    state.feed.buffer.clear()
    state.slots[2].message = state.slots[3].message = None
    state.lanes[0].collector = Collector("q0", Batch(20), Bell(), state.pass_on)
    assert state.room(state.lanes[0]) == 2 * 20 - 16
    other = Lane(1, Queue(redis.Redis(), "q1"), None, Bell())
    other.collector = Collector("q1", Batch(5), Bell(), state.pass_on)
    assert state.room(other) == 2 * 5


def test_a_message_that_still_runs_here_is_given_back_with_the_later_ones() -> None:
    state, time = grouped()
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2"))
    handle(state)
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2", "b1", count=2))
    returned = state.lanes[0].upkeep.returned
    assert [message.id for message, _ in returned] == ["a1", "a2", "a2"]
    assert buffered(state) == ["b1"]
    assert not state.feed.runs


def test_a_later_run_of_a_group_replaces_what_is_left_of_one_whose_leases_have_ended() -> None:
    state, time = grouped()
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2"))
    state.feed.buffer.clear()
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2", count=2))
    assert [(each.id, each.receive_count) for each in state.feed.runs.copy()] == [("a2", 2)]


def test_a_later_run_does_not_follow_a_message_whose_lease_has_ended() -> None:
    state, time = grouped()
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2"))
    time.now += 31
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2", count=2))
    handle(state)
    state.succeeded(state.slots[0])
    assert (buffered(state), given_back(state)) == (["a1"], ["a2"])


@pytest.mark.parametrize(
    ("suspect", "others", "returned"),
    [("a1", ["b1"], ["a2", "a3"]), ("a2", ["a1", "b1"], ["a3"]), ("b1", ["a1"], [])],
)
def test_a_suspect_waits_apart_and_its_group_does_not_wait_here(
    suspect: str, others: list[str], returned: list[str]
) -> None:
    state, time = grouped()
    state.handling.terms = lambda message: Terms(max_receives=1) if message.id == suspect else None
    state.arrived(state.lanes[0], messages_of(time, "a1", "a2", "a3", "b1", count=2))
    assert buffered(state) == others
    if suspect == "a2":
        handle(state)
        state.succeeded(state.slots[0])
    assert [message.id for message in state.suspects] == [suspect]
    bell: Any = state.suspects_bell
    assert bell.rings == 1
    assert given_back(state) == returned
    assert not state.settled()
