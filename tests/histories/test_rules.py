"""The checker finds each kind of violation, and nothing in a sound history."""

import ast
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import histories

from .log import Event

LEASE = 0.5
SUM = 7


def push(state: str = "ok", **about: Any) -> list[Event]:
    begun: Event = {
        "do": "push",
        "call": 1,
        "by": "p",
        "begin": 0.0,
        "ids": ["m"],
        "sums": [SUM],
    } | about
    end = begun["begin"] + 0.01
    return [begun, {"do": "end", "call": begun["call"], "end": end, "state": state}]


def take(token: int, at: float, count: int = 1, body: int = SUM, until: float = 0) -> list[Event]:
    got = [["m", body, count, 1000 + (until or at + LEASE)]]
    return [{"do": "take", "by": "c", "begin": at, "end": at + 0.01, "first": token, "got": got}]


def settle(do: str, token: int, at: float, state: str = "ok", **about: Any) -> list[Event]:
    call = round(at * 1000)
    return [
        {"do": do, "call": call, "begin": at, "of": [token]} | about,
        {"do": "end", "call": call, "end": at + 0.01, "state": state},
    ]


def chosen(do: str, at: float, state: str = "ok", **about: Any) -> list[Event]:
    call = round(at * 1000)
    return [
        {"do": do, "call": call, "begin": at, "ids": ["m"]} | about,
        {"do": "end", "call": call, "end": at + 0.01, "state": state},
    ]


def fault(at: float, since: float | None = None, clock: bool = False) -> list[Event]:
    return [{"do": "fault", "kind": "f", "begin": at, "end": at, "since": since, "clock": clock}]


def left(messages: int = 0, **about: Any) -> list[Event]:
    empty: dict[str, Any] = {"dead": [], "findings": [], "keys": []}
    return [{"do": "left", "messages": messages} | empty | about]


def asked(*times: float) -> list[Event]:
    return [
        {"do": "take", "by": "drain", "begin": at, "end": at + 0.01, "first": 9, "got": []}
        for at in times
    ]


def judged(folder: Path, *events: list[Event], **settings: Any) -> histories.Verdict:
    """Write a history and check it."""
    (folder / "history").mkdir(exist_ok=True)
    given = {"lease": LEASE, "drain_within": 5, "order": True, "max_receives": 2, "rows": True}
    given |= settings
    (folder / "settings.json").write_text(json.dumps(given))
    lines = [json.dumps(each) + "\n" for part in events for each in part]
    (folder / "history" / "p.jsonl").write_text("".join(lines) + '{"do": "cut of')
    return histories.check(folder)


SOUND: dict[str, list[list[Event]]] = {
    "acked": [push(), take(0, 1), settle("ack", 0, 1.1)],
    "in a row of Spark": [push(), left(rows=["m"])],
    "acked after a redelivery": [
        push(),
        take(0, 1),
        take(1, 1.6, 2),
        settle("ack", 0, 1.7, "refused"),
        settle("ack", 1, 1.8),
        settle("ack", 1, 1.9, "gone"),
    ],
    "acked without an answer, and again": [
        push(),
        take(0, 1),
        settle("ack", 0, 1.1, "unknown"),
        settle("ack", 0, 1.3, "gone"),
    ],
    "acked without an answer, dead, and redriven": [
        push(),
        take(0, 1),
        settle("reject", 0, 1.1, "unknown"),
        settle("reject", 0, 1.2, "gone"),
        chosen("redrive", 2),
        take(1, 2.1),
        settle("ack", 1, 2.2),
    ],
    "returned and taken at once": [
        push(),
        take(0, 1),
        settle("nack", 0, 1.1),
        take(1, 1.2, 2),
        settle("release", 1, 1.25),
        take(2, 1.3, 2),
        settle("ack", 2, 1.4),
    ],
    "pushed without an answer, and stored": [
        push("unknown"),
        take(0, 1),
        settle("ack", 0, 1.1, "unknown"),
    ],
    "pushed without an answer, and not stored": [push("unknown")],
    "undone by a fault": [push(), fault(2.0, since=0.0)],
    "delivered again after a fault that undid the ack": [
        push(),
        take(0, 1),
        settle("ack", 0, 1.1),
        fault(1.2, since=0.5),
        take(1, 1.3, 1),
        settle("ack", 1, 1.4),
    ],
    "delivered early, since the clock was set": [
        push(),
        take(0, 1),
        fault(1.1, clock=True),
        take(1, 1.2, 2),
        settle("ack", 1, 1.3),
    ],
    "extended to an end before the first": [
        push(),
        take(0, 1, until=1.56),
        settle("extend", 0, 1.01),
        take(1, 1.53, 2),
        settle("ack", 1, 1.6),
    ],
    "returned, and refused when asked again since the reply was lost": [
        push(),
        take(0, 1),
        settle("nack", 0, 1.1, "refused"),
        take(1, 1.2, 2),
        settle("ack", 1, 1.3),
    ],
    "delivered again, with the old count, after a fault": [
        push(),
        take(0, 1),
        take(1, 1.6, 2),
        fault(1.7, since=1.2),
        take(2, 1.8, 2),
        settle("ack", 2, 1.9),
    ],
    "returned after a delivery that a fault undid": [
        push(),
        take(0, 1),
        fault(1.5, since=0.9),
        take(1, 1.6, 1),
        fault(1.65, since=1.6),
        settle("nack", 0, 1.7, delay=1.0),
        take(2, 2.8, 2),
        settle("ack", 2, 2.9),
    ],
    "acked by the first holder, after a fault that undid the second delivery": [
        push(),
        take(0, 1),
        take(1, 1.6, 2),
        fault(1.8, since=1.55),
        settle("ack", 0, 1.9),
        settle("ack", 1, 2.0, "refused"),
    ],
    "delivered before a failover, and answered after one by the old primary": [
        push(),
        take(0, 1),
        [*fault(1.2, since=1.1)],
        take(1, 1.19, 1),
        settle("ack", 1, 1.7),
    ],
    "delayed, and run now": [
        push(delay=2.0),
        chosen("run now", 0.5),
        take(0, 1),
        settle("nack", 0, 1.1, delay=2.0),
        chosen("run now", 1.3),
        take(1, 1.5, 2),
        settle("ack", 1, 1.6),
    ],
    "canceled": [push(delay=2.0), chosen("cancel", 1), left(dead=[["m", 0]])],
    "canceled while it ran": [
        push(),
        take(0, 0.1),
        chosen("cancel", 0.5),
        settle("ack", 0, 0.6, "refused"),
        left(dead=[["m", 1]]),
    ],
    "canceled, redriven and run at once": [
        push(delay=9.0),
        chosen("cancel", 1),
        chosen("redrive", 2),
        take(0, 2.1),
        settle("ack", 0, 2.2),
    ],
    "dead, redriven, and dead again": [
        push(),
        take(0, 1),
        settle("nack", 0, 1.1, delay=5.0),
        take(1, 7, 2),
        settle("nack", 1, 7.1, delay=5.0),
        chosen("redrive", 8),
        take(2, 8.1, 1),
        take(3, 9, 2),
        left(dead=[["m", 2]]),
    ],
    "redriven while it is received": [
        push(),
        take(0, 1),
        take(1, 1.6, 2),
        chosen("redrive", 3),
        [
            {
                "do": "take",
                "by": "w",
                "begin": 2.5,
                "end": 4,
                "first": 2,
                "got": [["m", SUM, 1, 1003.6]],
            }
        ],
        settle("ack", 2, 4.1),
    ],
    "deleted": [push(delay=2.0), chosen("delete", 1)],
    "deleted while it is in flight": [
        push(),
        take(0, 1),
        chosen("delete", 1.1),
        settle("ack", 0, 1.2, "refused"),
    ],
    "rescheduled to now": [
        push(delay=9.0),
        chosen("reschedule", 1, delay=0.0),
        take(0, 1.1),
        settle("ack", 0, 1.2),
    ],
    "rescheduled to later, and to now": [
        push(delay=2.0),
        chosen("reschedule", 1, delay=9.0),
        chosen("reschedule", 1.5, "unknown"),
        take(0, 1.6),
        settle("ack", 0, 1.7),
    ],
    "pushed again with a delay, since the first push had no answer": [
        push("unknown", delay=0.5),
        push(delay=2.0, call=2, begin=0.4),
        take(0, 1),
        settle("ack", 0, 1.1),
    ],
    "dead at its last delivery": [push(), take(0, 1), take(1, 1.6, 2), left(dead=[["m", 2]])],
}

UNSOUND: dict[str, tuple[str, list[list[Event]]]] = {
    "never delivered": ("lost", [push()]),
    "never acked": ("lost", [push(), take(0, 1)]),
    "acked by another alone": ("lost", [push(), take(0, 1), settle("ack", 0, 1.7, "refused")]),
    "lost outside the window of a fault": ("lost", [push(), fault(2.0, since=1.0)]),
    "confirmed, and lost": ("lost", [push(kept=True), fault(2.0, since=0.0)]),
    "never pushed": ("phantom", [take(0, 1), settle("ack", 0, 1.1)]),
    "its push was refused": ("phantom", [push("fail"), take(0, 1), settle("ack", 0, 1.1)]),
    "another body": ("changed", [push(), take(0, 1, body=8), settle("ack", 0, 1.1)]),
    "delivered after the ack": (
        "after ack",
        [push(), take(0, 1), settle("ack", 0, 1.1), take(1, 2, 2), settle("ack", 1, 2.1, "gone")],
    ),
    "delivered while held": ("lease", [push(), take(0, 1), take(1, 1.3, 2), settle("ack", 1, 1.4)]),
    "delivered although extended": (
        "lease",
        [push(), take(0, 1), settle("extend", 0, 1.4), take(1, 1.6, 2), settle("ack", 1, 1.7)],
    ),
    "acked twice": (
        "acked twice",
        [push(), take(0, 1), take(1, 1.6, 2), settle("ack", 1, 1.7), settle("ack", 1, 1.8)],
    ),
    "a stale extend": (
        "fencing",
        [push(), take(0, 1), take(1, 1.6, 2), settle("extend", 0, 1.7), settle("ack", 1, 1.8)],
    ),
    "a late ack that was not refused, and a redelivery": (
        "silent refusal",
        [push(), take(0, 1), settle("ack", 0, 1.7, "gone"), take(1, 1.9, 2), settle("ack", 1, 2)],
    ),
    "a late ack that was not refused, while another consumer has the message": (
        "silent refusal",
        [push(), take(0, 1), take(1, 1.6, 2), settle("ack", 0, 1.7, "gone"), settle("ack", 1, 2)],
    ),
    "an extend that did nothing": (
        "silent refusal",
        [push(), take(0, 1), settle("extend", 0, 1.1, "gone"), settle("ack", 0, 1.2)],
    ),
    "the holder is refused": (
        "holder refused",
        [push(), take(0, 1), settle("extend", 0, 1.1, "refused"), settle("ack", 0, 1.2)],
    ),
    "the count stays": ("count", [push(), take(0, 1), take(1, 1.6, 1), settle("ack", 1, 1.7)]),
    "before its delay": ("early", [push(delay=2.0), take(0, 1), settle("ack", 0, 1.1)]),
    "before the delay of a nack": (
        "early",
        [
            push(),
            take(0, 1),
            settle("nack", 0, 1.1, delay=0.5),
            take(1, 1.2, 2),
            settle("ack", 1, 1.3),
        ],
    ),
    "dead too soon": ("dead", [push(), take(0, 1), left(dead=[["m", 1]])]),
    "dead, and acked": ("dead", [push(), take(0, 1), settle("ack", 0, 1.1), left(dead=[["m", 2]])]),
    "before its delay, although running it now was refused": (
        "early",
        [push(delay=2.0), chosen("run now", 0.5, "fail"), take(0, 1), settle("ack", 0, 1.1)],
    ),
    "before its delay, and run only then": (
        "early",
        [push(delay=2.0), take(0, 1), chosen("run now", 1.5), settle("ack", 0, 1.6)],
    ),
    "canceled, and delivered": (
        "after ack",
        [push(delay=2.0), chosen("cancel", 1), take(0, 2.5), settle("ack", 0, 2.6)],
    ),
    "canceled while it ran, and then acked": (
        "after ack",
        [push(), take(0, 0.1), chosen("cancel", 0.5), settle("ack", 0, 0.6)],
    ),
    "deleted, and delivered": (
        "after ack",
        [push(delay=2.0), chosen("delete", 1), take(0, 2.5), settle("ack", 0, 2.6)],
    ),
    "dropped and delivered": (
        "after ack",
        [push(), take(0, 1), settle("reject", 0, 1.1), chosen("drop", 1.2), take(1, 2, 2)],
    ),
    "not deleted, and never delivered": ("lost", [push(), chosen("delete", 1, "fail")]),
    "redriven before it was canceled": (
        "after ack",
        [
            push(delay=2.0),
            chosen("redrive", 0.5),
            chosen("cancel", 1),
            take(0, 2.5),
            settle("ack", 0, 2.6),
        ],
    ),
    "canceled, and in a row": (
        "after ack",
        [push(delay=2.0), chosen("cancel", 1), left(rows=["m"])],
    ),
    "acked, and in a row": (
        "acked twice",
        [push(), take(0, 1), settle("ack", 0, 1.1), left(rows=["m"])],
    ),
    "refused within a lease that was extended": (
        "holder refused",
        [
            push(),
            take(0, 1),
            settle("extend", 0, 1.4),
            settle("extend", 0, 1.7, "refused"),
            settle("ack", 0, 1.8),
        ],
    ),
    "redriven, and its count goes on falling": (
        "count",
        [
            push(),
            take(0, 1),
            take(1, 1.6, 2),
            chosen("redrive", 3),
            take(2, 3.1, 2),
            take(3, 3.7, 2),
            settle("ack", 3, 3.8),
        ],
    ),
    "refused, although another message was deleted": (
        "holder refused",
        [
            push(),
            take(0, 1),
            settle("ack", 0, 1.1, "refused"),
            chosen("delete", 1.15, "fail"),
            settle("ack", 0, 1.2),
        ],
    ),
    "rescheduled, and delivered before": (
        "early",
        [push(), chosen("reschedule", 1, delay=3.0), take(0, 2), settle("ack", 0, 2.1)],
    ),
    "rescheduled only after it was delivered": (
        "early",
        [push(delay=2.0), take(0, 1), settle("ack", 0, 1.1), chosen("reschedule", 1.2, delay=0.0)],
    ),
    "canceled, and neither delivered nor dead": ("lost", [push(delay=2.0), chosen("cancel", 1)]),
    "canceled, acked, and dead": (
        "dead",
        [
            push(),
            take(0, 1),
            settle("ack", 0, 1.1),
            chosen("cancel", 2, "unknown"),
            left(dead=[["m", 0]]),
        ],
    ),
    "not drained": ("stuck", [push(), take(0, 1), settle("ack", 0, 1.1), left(1)]),
    "drained late": ("stuck", [push(), asked(*range(10, 20)), take(0, 21), settle("ack", 0, 22)]),
    "in two rows": ("rows", [push(), left(rows=["m", "m"])]),
    "in a row, and never pushed": ("phantom", [push(), left(rows=["m", "n"])]),
    "in no row": ("lost", [push(), left(rows=[])]),
    "a finding": ("audit", [push(), take(0, 1), settle("ack", 0, 1.1), left(findings=["f"])]),
    "a key": ("audit", [push(), take(0, 1), settle("ack", 0, 1.1), left(keys=["k"])]),
}


def ended(events: list[list[Event]]) -> list[list[Event]]:
    """Add the end of a drained queue, unless the history has one."""
    return (
        events
        if any(each["do"] == "left" for part in events for each in part)
        else [*events, left()]
    )


@pytest.mark.parametrize("history", SOUND)
def test_a_sound_history_passes(history: str, tmp_path: Path) -> None:
    verdict = judged(tmp_path, *ended(SOUND[history]))
    assert verdict.examples == []


def delayed(events: list[list[Event]], draw: random.Random) -> list[list[Event]]:
    """Return the history as a machine writes it that puts processes off at any moment."""
    found = [[dict(event) for event in part] for part in events]
    every = [event for part in found for event in part]
    # What settles a message comes after its take, in whichever process.
    settled = {event["of"][0]: event["begin"] for event in reversed(every) if "of" in event}
    for event in every:
        if "end" in event:
            latest = settled.get(event.get("first"), math.inf)
            event["end"] = min(event["end"] + draw.expovariate(2), latest)
        if "begin" in event and "of" not in event:
            event["begin"] -= draw.expovariate(2)
    return found


@pytest.mark.parametrize("history", SOUND)
def test_a_busy_machine_breaks_no_rule(history: str, tmp_path: Path) -> None:
    draw = random.Random(history)
    for number in range(20):
        (folder := tmp_path / str(number)).mkdir()
        verdict = judged(folder, *delayed(ended(SOUND[history]), draw))
        assert verdict.examples == []


@pytest.mark.parametrize("history", UNSOUND)
def test_a_violation_is_found(history: str, tmp_path: Path) -> None:
    rule, events = UNSOUND[history]
    verdict = judged(tmp_path, *ended(events))
    assert set(verdict.violations) == {rule}, verdict.examples


def test_every_rule_has_a_history_that_breaks_it() -> None:
    tested = {rule for rule, _ in UNSOUND.values()}
    assert tested | {"order", "place", "gap", "totals"} == set(histories.RULES) | {
        "stuck",
        "audit",
        "order",
        "place",
        "gap",
        "totals",
        "rows",
    }


#: What a queue counts of one message that is returned twice, redelivered, and acked.
COUNTED = {
    "pushed": 1,
    "taken": 4,
    "acked": 1,
    "nacked": 1,
    "released": 1,
    "returned": 1,
    "dead": {},
    "redriven": 0,
    "dropped": 0,
}


@pytest.mark.parametrize(
    ("spares", "counts", "broken"),
    [(0, "13", 1), (1, "13", 0), (1, "11", 1), (1, "12", 0), (1, "1235", 0), (1, "12345", 1)],
)
def test_only_a_worker_may_try_a_message_once_beyond_its_last_permitted_delivery(
    spares: int, counts: str, broken: int, tmp_path: Path
) -> None:
    *took, count = map(int, counts)
    takes = [take(at, 1 + 20 * at, each) for at, each in enumerate(took)]
    events = [push(), *takes, left(dead=[["m", count]])]
    assert judged(tmp_path, *events, spares=bool(spares)).violations["dead"] == broken


@pytest.mark.parametrize(
    "wrong",
    [{}, *({name: 2} for name in COUNTED if name != "dead"), {"dead": {"max receives": 1}}],
    ids=str,
)
def test_totals_must_be_what_the_history_says(wrong: dict[str, Any], tmp_path: Path) -> None:
    events = [
        push("unknown"),
        take(0, 1),
        settle("nack", 0, 1.1),
        take(1, 1.2, 2),
        settle("release", 1, 1.25),
        take(2, 1.3, 2),
        take(3, 2.0, 3),
        settle("ack", 3, 2.1, "unknown"),
    ]
    verdict = judged(tmp_path, *events, left(totals=COUNTED | wrong, reasons={}), max_receives=None)
    assert set(verdict.violations) == ({"totals"} if wrong else set())
    if wrong:
        (name,) = wrong
        assert any(example.startswith(f"totals: {name} is") for example in verdict.examples)


def test_totals_after_a_fault_that_undid_answers_are_not_checked(tmp_path: Path) -> None:
    events = [push(), fault(2.0, since=0.0), left(totals=COUNTED, reasons={})]
    assert judged(tmp_path, *events).violations == {}


@pytest.mark.parametrize("fenced", [True, False])
def test_an_extend_that_is_not_fenced_may_be_one_of_the_next_lease(
    fenced: bool, tmp_path: Path
) -> None:
    slow: Event = {
        "do": "take",
        "by": "w",
        "begin": 1.5,
        "end": 1.9,
        "first": 1,
        "got": [["m", SUM, 2, 1002.1]],
    }
    events = [push(), take(0, 1), [slow], settle("extend", 0, 1.7), settle("ack", 1, 1.95)]
    verdict = judged(tmp_path, *events, left(), fenced=fenced)
    assert set(verdict.violations) == ({"lease"} if fenced else set())


def test_of_messages_that_share_an_id_one_may_be_refused_for_the_next(tmp_path: Path) -> None:
    """Its ack was applied, and sent again; by then the next message had the key of its lease."""
    for state, broken in (("unknown", set()), ("refused", {"lost", "holder refused"})):
        call = settle("ack", 0, 1.1)
        call[-1][state] = [0]
        (folder := tmp_path / state).mkdir()
        found = judged(folder, push(), take(0, 1), call, left())
        assert set(found.violations) == broken


@pytest.mark.parametrize("gives_back", [False, True])
@pytest.mark.parametrize("goes_on", [False, True])
def test_what_a_dead_process_had_comes_back_uncounted_from_its_supervisor(
    tmp_path: Path, gives_back: bool, goes_on: bool
) -> None:
    (tmp_path / "history").mkdir()
    written = [*take(0, 1), *(settle("extend", 0, 1.4) if goes_on else [])]
    text = "".join(json.dumps(each) + "\n" for each in written)
    (tmp_path / "history" / "process.jsonl").write_text(text)
    later = [push(), take(0, 1.2), settle("ack", 0, 1.3), left()]
    found = judged(tmp_path, *later, gives_back=gives_back).violations
    assert (found.keys() >= {"count", "lease"}) == (goes_on or not gives_back)
    assert bool(found) == (goes_on or not gives_back)


def test_overlapping_takes_without_counts_have_no_order(tmp_path: Path) -> None:
    takes: list[Event] = [
        {
            "do": "take",
            "by": by,
            "begin": begin,
            "end": end,
            "first": token,
            "got": [["m", SUM, None, None]],
        }
        for token, (by, begin, end) in enumerate([("late", 1.0, 1.9), ("quick", 1.6, 1.61)])
    ]
    verdict = judged(tmp_path, push(), takes, settle("ack", 1, 1.7, "unknown"), left())
    assert verdict.examples == []


def two(first: str, second: str) -> list[list[Event]]:
    pushes = {"do": "push", "call": 1, "by": "p", "begin": 0.0, "ids": ["a", "b"], "sums": [1, 1]}
    order = [
        {
            "do": "take",
            "by": "c",
            "begin": at,
            "end": at,
            "first": token,
            "got": [[name, 1, 1, None]],
        }
        for token, (at, name) in enumerate([(1.0, first), (1.1, second)])
    ]
    return [
        [pushes, {"do": "end", "call": 1, "end": 0.1, "state": "ok"}],
        order,
        settle("ack", 0, 1.2),
        settle("ack", 1, 1.3),
        left(),
    ]


def test_the_order_of_pushes_is_checked(tmp_path: Path) -> None:
    for folder, order, broken in (("ab", "ab", {}), ("ba", "ba", {"order": 1})):
        (tmp_path / folder).mkdir()
        assert judged(tmp_path / folder, *two(*order)).violations == broken


@pytest.mark.parametrize(
    ("at", "second", "ended", "broken"),
    [
        (0.5, "b=u", [], {"unique": 1}),
        (0.5, "b=v", [], {}),
        (2.1, "b=u", [], {}),
        (0.5, "b=u", chosen("cancel", 0.4, "unknown", ids=["a=u"]), {}),
        (1.9, "b=u", chosen("cancel", 1.8, "fail", ids=["a=u"]), {"unique": 1}),
    ],
    ids=["stored", "another id", "acked", "perhaps canceled", "not canceled"],
)
def test_of_each_unique_id_one_message_is_stored_at_a_time(
    tmp_path: Path, at: float, second: str, ended: list[Event], broken: dict[str, int]
) -> None:
    events = [
        [*push(ids=["a=u"], call=1), *push(ids=[second], call=2, begin=at)],
        [
            {**event, "got": [[name, SUM, 1, None]]}
            for token, name in enumerate(("a=u", second))
            for event in take(token, 1.5 + token)
        ],
        *([ended] if ended else []),
        settle("ack", 0, 2.0),
        settle("ack", 1, 2.6),
        left(),
    ]
    assert judged(tmp_path, *events, unique=3).violations == broken


def topic(*reads: tuple[str, int, str]) -> list[list[Event]]:
    pushes = {"do": "push", "call": 1, "by": "p", "begin": 0.0, "ids": ["a", "b"], "sums": [1, 1]}
    takes: list[list[Event]] = []
    for token, (reader, index, name) in enumerate(reads):
        at = 1 + token / 10
        takes += [
            [
                {
                    "do": "take",
                    "by": "c",
                    "begin": at,
                    "end": at,
                    "first": token,
                    "reader": reader,
                    "index": index,
                    "got": [[name, 1, None, None]],
                }
            ],
            settle("ack", token, at + 0.01),
        ]
    return [
        [pushes, {"do": "end", "call": 1, "end": 0.1, "state": "ok", "index": 1}],
        *takes,
        left(),
    ]


TOPICS = {
    "whole": ({}, [("x", 1, "a"), ("x", 2, "b"), ("y", 1, "a"), ("y", 2, "b")]),
    "a gap": ({"gap", "lost"}, [("x", 1, "a"), ("x", 2, "b"), ("y", 2, "b")]),
    "another message there": (
        {"place"},
        [("x", 1, "a"), ("x", 2, "b"), ("y", 1, "b"), ("y", 2, "a")],
    ),
}


@pytest.mark.parametrize("name", TOPICS)
def test_each_reader_of_a_topic_must_read_it_whole(name: str, tmp_path: Path) -> None:
    broken, reads = TOPICS[name]
    verdict = judged(tmp_path, *topic(*reads), readers=["x", "y"], order=False)
    assert set(verdict.violations) == set(broken)


def test_the_checker_knows_nothing_of_ackq() -> None:
    folder = Path(__file__).parent
    for path in {*folder.glob("*.py")} - {*folder.glob("test_*.py")}:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                inside = isinstance(node, ast.ImportFrom) and node.level
                assert (
                    inside
                    or name in ("orjson", "tests.subjects")
                    or name.split(".")[0] in sys.stdlib_module_names
                )
