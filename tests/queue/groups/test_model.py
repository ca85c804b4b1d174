"""Every order of what may happen to a few messages of two groups keeps the promises of groups."""

from collections import Counter, deque
from typing import Any

import pytest

from tests.interleaving import SOAK
from tests.queue.groups.gate import Gate, steps


def check(before: Gate, gate: Gate) -> None:
    """Check what must be true after each step."""
    places = [*gate.listed, *gate.handoff, *gate.flight, *gate.due, *gate.letters]
    places += [message for row in gate.parked.values() for _, message in row]
    assert max(Counter(places).values(), default=1) == 1, "a message is in two places"
    slots = Counter(gate.groups[message] for message in gate.flight)
    slots.update(gate.stale.values())
    slots.pop("", None)
    assert gate.busy == slots, "the slots are not those of the messages in flight"
    woken = {gate.groups[message] for message in gate.woken}
    for group in {*gate.groups}:
        assert gate.limit >= slots[group] or gate.limit == 1
        is_due = bool(gate.parked.get(group)) and gate.is_free(group) and group not in woken
        assert is_due == (group in gate.turns) or gate.limit > 1, f"{group}: TURNS is wrong"
        owners = {
            held.owner
            for message, held in gate.flight.items()
            if gate.groups[message] == group and held.place == "leased"
        }
        assert not group or len(owners) <= gate.limit, f"{group}: more consumers than the limit"
    leased = [held for held in gate.flight.values() if held.place in ("leased", "ended")]
    assert len(leased) <= gate.most, "the queue has more leases than permitted"
    if gate.rated:
        taken = Counter(gate.groups[message] for message in delivered(before, gate))
        for group in {*taken} - {""}:
            assert taken[group] == 1, f"{group} has taken more than its burst"
            assert group not in before.spent, f"{group} did not wait for its rate"
    stopped = {gate.groups[message] for message in gate.letters}
    assert not stopped & {gate.groups[message] for message in delivered(before, gate)}
    if gate.limit == 1:
        check_order(before, gate)


def delivered(before: Gate, gate: Gate) -> list[int]:
    """Return the messages that were leased now."""
    return [
        message
        for message, held in gate.flight.items()
        if held.place == "leased"
        and (message not in before.flight or before.flight[message].place != "leased")
    ]


def check_order(before: Gate, gate: Gate) -> None:
    """Check that what was delivered now comes after all earlier messages of its group."""
    new = delivered(before, gate)
    open_ones = [*gate.listed, *gate.handoff, *gate.flight, *gate.letters]
    open_ones += [message for row in gate.parked.values() for _, message in row]
    # Those that were pushed for later are the last ones, and have no place in the order.
    last = len(gate.groups) - gate.late
    for message in new:
        for other in open_ones if message < last else ():
            same = gate.groups[other] == gate.groups[message] != ""
            assert not same or other >= message or other in new, (
                f"{message} is delivered before {other}"
            )


def drain(gate: Gate) -> None:
    """Check that a consumer that takes and acks receives everything: no group is stuck."""
    gate = gate.copy()
    for message in [*gate.letters]:
        gate.redrive(message)
    for _ in range(30):
        gate.spent.clear()
        for message, held in [*gate.flight.items()]:
            if held.place == "leased":
                gate.ack(message)
            elif held.place != "ended":
                gate.move(message, "due")
        if not gate.pop(1, 2) and not gate.flight:
            break
    left = (gate.listed, gate.handoff, gate.flight, gate.parked, gate.turns, gate.due)
    assert not any(left), left


@pytest.mark.parametrize(
    ("groups", "limit", "late", "limits"),
    [
        ("aab", 1, 0, {}),
        ("aaa", 1, 0, {}),
        (("a", "", "a"), 1, 0, {}),
        ("aaba", 2, 0, {}),
        ("aaba", 1, 1, {}),
        ("aaab", 1, 0, {}),
        ("aab", 1, 0, {"rated": True}),
        ("aab", 2, 1, {"rated": True}),
        ("aab", 1, 1, {"most": 1}),
        ("aab", 1, 0, {"most": 2, "rated": True}),
        ("aaa", 1, 0, {"stops": True}),
        ("aaba", 2, 0, {"stops": True}),
        ("aaba", 1, 1, {"stops": True}),
        ("aaa", 1, 0, {"stops": True, "rated": True, "most": 2}),
    ],
)
def test_no_order_of_steps_breaks_a_group(
    groups: str, limit: int, late: int, limits: dict[str, Any]
) -> None:
    start = Gate(tuple(groups), limit, late=late, **limits)
    seen = {start.state()}
    waiting: deque[tuple[Gate, tuple[str, ...]]] = deque([(start, ())])
    most = 15_000 * SOAK
    while waiting and len(seen) < most:
        gate, trace = waiting.popleft()
        for name, after in steps(gate):
            if (state := after.state()) in seen:
                continue
            seen.add(state)
            try:
                check(gate, after)
                drain(after)
            except BaseException as error:
                error.add_note(" → ".join((*trace, name)))
                raise
            waiting.append((after, (*trace, name)))
