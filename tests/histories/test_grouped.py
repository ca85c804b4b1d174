"""The rules of groups find each kind of violation, and nothing in a sound history."""

from pathlib import Path
from typing import Any

import pytest

from .log import Event
from .test_rules import LEASE, chosen, ended, fault, judged, left, settle

ONE: dict[str, Any] = {"group_in_flight": 1}
TWO: dict[str, Any] = {"group_in_flight": 2}


def pushed(names: str, at: float, state: str = "ok", by: str = "p", **about: Any) -> list[Event]:
    """A push of messages; those whose names begin with the same letter are of one group."""
    ids = names.split()
    call = round(at * 1000)
    begun = {"do": "push", "call": call, "by": by, "begin": at, "ids": ids, "sums": [1] * len(ids)}
    begun["groups"] = [name[0] for name in ids]
    return [begun | about, {"do": "end", "call": call, "end": at + 0.01, "state": state}]


def took(first: int, at: float, names: str, count: int = 1) -> list[Event]:
    got = [[name, 1, count, None] for name in names.split()]
    return [
        {"do": "take", "by": f"c{first}", "begin": at, "end": at + 0.01, "first": first, "got": got}
    ]


def acks(*tokens: int, at: float) -> list[Event]:
    begun, end = settle("ack", tokens[0], at)
    return [begun | {"of": list(tokens)}, end]


DEAD = [["a1", 1]]
AGAIN = [took(2, 1.6, "a1"), acks(2, at=1.7)]
#: Rule that is broken, if any; settings; events.
CASES: dict[str, tuple[str, dict[str, Any], list[list[Event]]]] = {
    "one after another": (
        "",
        ONE,
        [pushed("a1 a2 b1", 0), took(0, 1, "a1 b1"), acks(0, 1, at=1.1), took(2, 1.2, "a2")],
    ),
    "a run": ("", ONE, [pushed("a1 a2", 0), took(0, 1, "a1 a2"), acks(0, 1, at=1.1)]),
    "a run that is delivered again": (
        "",
        ONE,
        [pushed("a1 a2", 0), took(0, 1, "a1 a2"), took(2, 2, "a1 a2", 2), acks(2, 3, at=2.1)],
    ),
    "a group that keeps to its rate": (
        "",
        ONE | {"group_rate": [2, 1.0, 2]},
        [pushed("a1 a2 a3", 0), took(0, 1, "a1 a2"), acks(0, 1, at=1.1), took(2, 1.5, "a3")],
    ),
    "a group that is too fast": (
        "group rate",
        ONE | {"group_rate": [2, 1.0, 2]},
        [pushed("a1 a2 a3", 0), took(0, 1, "a1 a2"), acks(0, 1, at=1.1), took(2, 1.4, "a3")],
    ),
    "a run in the wrong order": (
        "group order",
        ONE,
        [pushed("a1 a2", 0), took(0, 1, "a2 a1"), acks(0, 1, at=1.1)],
    ),
    "the second before the first": (
        "group order",
        ONE,
        [pushed("a1", 0), pushed("a2", 0.1), took(0, 1, "a2"), acks(0, at=1.1), took(1, 1.2, "a1")],
    ),
    "the second of one push before the first": (
        "group order",
        ONE,
        [pushed("a1 a2", 0), took(0, 1, "a2"), acks(0, at=1.1), took(1, 1.2, "a1")],
    ),
    "the second while the first, which failed, waits": (
        "group order",
        ONE,
        [
            pushed("a1 a2", 0),
            took(0, 1, "a1"),
            settle("nack", 0, 1.1, delay=0.2),
            took(1, 1.15, "a2"),
            acks(1, at=1.2),
            took(2, 1.4, "a1", 2),
        ],
    ),
    "the second after the death of the first": (
        "",
        ONE,
        [
            pushed("a1 a2", 0),
            took(0, 1, "a1"),
            took(1, 1.6, "a1", 2),
            settle("nack", 1, 1.7),
            took(2, 1.8, "a2"),
            left(dead=[["a1", 2]]),
        ],
    ),
    "the second although the death of the first stops the group": (
        "group order",
        ONE | {"group_stops": True},
        [
            pushed("a1 a2", 0),
            took(0, 1, "a1"),
            took(1, 1.6, "a1", 2),
            settle("nack", 1, 1.7),
            took(2, 1.8, "a2"),
            left(dead=[["a1", 2]]),
        ],
    ),
    **{
        f"the second, after the first died and {name}": (
            "group order" if is_early else "",
            ONE | {"group_stops": True},
            [
                pushed("a1 a2", 0),
                took(0, 1, "a1"),
                settle("reject", 0, 1.1),
                chosen(verb, at, state, ids=ids),
                took(1, 1.3, "a2"),
                acks(1, at=1.4),
                *more,
                left(dead=dead),
            ],
        )
        for name, is_early, verb, at, state, ids, dead, more in (
            ("its group went on", False, "resume", 1.2, "ok", ["a"], DEAD, []),
            ("another group went on", True, "resume", 1.2, "ok", ["b"], DEAD, []),
            ("its group may go on", False, "resume", 1.2, "unknown", ["a"], DEAD, []),
            ("its group did not go on", True, "resume", 1.2, "fail", ["a"], DEAD, []),
            ("its group went on too late", True, "resume", 1.5, "ok", ["a"], DEAD, []),
            ("was dropped", False, "drop", 1.2, "ok", ["a1"], [], []),
            ("was redriven", True, "redrive", 1.2, "ok", ["a1"], [], AGAIN),
        )
    },
    "the second, whose push may have come first": (
        "",
        ONE,
        [
            pushed("a1", 0.0, by="p"),
            pushed("a2", 0.005, by="q"),
            took(0, 1, "a2"),
            acks(0, at=1.1),
            took(1, 1.2, "a1"),
        ],
    ),
    "the second, since a fault undid the first push": (
        "",
        ONE,
        [pushed("a1", 0), pushed("a2", 0.1), fault(0.2, since=0.0), took(0, 1, "a2")],
    ),
    "the second, since the first was delayed": (
        "",
        ONE,
        [pushed("a1", 0, delay=2.0), pushed("a2", 0.1), took(0, 1, "a2")],
    ),
    "the second, since an operator canceled the first": (
        "",
        ONE,
        [
            pushed("m", 0),
            pushed("m2", 0.1),
            chosen("cancel", 0.5),
            took(0, 1, "m2"),
            left(dead=[["m", 0]]),
        ],
    ),
    "another group meanwhile": (
        "",
        ONE,
        [pushed("a1 b1", 0), took(0, 1, "a1"), took(1, 1.1, "b1")],
    ),
    "two consumers of a group": (
        "group limit",
        ONE,
        [pushed("a1", 0), pushed("a2", 0.001), took(0, 1, "a1"), took(1, 1.1, "a2")],
    ),
    "the next consumer after the end of the lease": (
        "",
        ONE,
        [pushed("a1", 0), pushed("a2", 0.001), took(0, 1, "a1"), took(1, 1 + LEASE, "a2")],
    ),
    "two consumers, since the lease was extended": (
        "group limit",
        ONE,
        [
            pushed("a1", 0),
            pushed("a2", 0.001),
            took(0, 1, "a1"),
            settle("extend", 0, 1.4),
            took(1, 1.6, "a2"),
        ],
    ),
    "two consumers, since the clock was set": (
        "",
        ONE,
        [
            pushed("a1", 0),
            pushed("a2", 0.001),
            took(0, 1, "a1"),
            fault(1.05, clock=True),
            took(1, 1.1, "a2"),
        ],
    ),
    "as many as permitted": (
        "",
        TWO,
        [
            pushed("a1 a2 a3", 0),
            took(0, 1, "a1 a2"),
            acks(0, at=1.1),
            took(2, 1.2, "a3"),
        ],
    ),
    "more than permitted": (
        "group limit",
        TWO,
        [pushed("a1 a2 a3", 0), took(0, 1, "a1 a2"), took(2, 1.2, "a3")],
    ),
    "as many of the queue as permitted": (
        "",
        {"max_in_flight": 2},
        [pushed("a1 b1 c1", 0), took(0, 1, "a1 b1"), acks(1, at=1.1), took(2, 1.2, "c1")],
    ),
    "more of the queue than permitted": (
        "limit",
        {"max_in_flight": 2},
        [pushed("a1 b1 c1", 0), took(0, 1, "a1 b1"), took(2, 1.2, "c1")],
    ),
    "served in turn": (
        "",
        ONE | {"group_turns": True},
        [
            pushed("a1 b1 a2 a3", 0),
            *([took(0, 1, "a1"), acks(0, at=1.1), took(1, 1.2, "b1"), acks(1, at=1.3)]),
            *([took(2, 1.4, "a2"), acks(2, at=1.5), took(3, 1.6, "a3"), acks(3, at=1.7)]),
        ],
    ),
    "passed over": (
        "group passed over",
        ONE | {"group_turns": True},
        [
            pushed("b1", 0),
            pushed("a1 a2 a3 a4", 0.1),
            *([took(0, 1, "a1"), acks(0, at=1.1), took(1, 1.2, "a2"), acks(1, at=1.3)]),
            *([took(2, 1.4, "a3"), acks(2, at=1.5), took(3, 1.6, "a4"), acks(3, at=1.7)]),
            *([took(4, 1.8, "b1"), acks(4, at=1.9)]),
        ],
    ),
    "passed over, after a message of it that a consumer forgot": (
        "group passed over",
        ONE | {"group_turns": True},
        [
            pushed("b1 b2", -LEASE),
            pushed("a1 a2 a3 a4", 0.1),
            *([took(8, 0.2 - LEASE, "b1"), took(9, 0.5, "b1", 2), acks(9, at=0.9)]),
            *([took(0, 1, "a1"), acks(0, at=1.1), took(1, 1.2, "a2"), acks(1, at=1.3)]),
            *([took(2, 1.4, "a3"), acks(2, at=1.5), took(3, 1.6, "a4"), acks(3, at=1.7)]),
            *([took(4, 1.8, "b2"), acks(4, at=1.9)]),
        ],
    ),
    "not passed over, since a consumer may hold a message of it": (
        "",
        ONE | {"group_turns": True},
        [
            pushed("b1 b2", 0),
            pushed("a1 a2 a3 a4", 0.1),
            *([took(0, 1, "a1"), acks(0, at=1.1), took(1, 1.2, "a2"), acks(1, at=1.3)]),
            *([took(2, 1.4, "a3"), acks(2, at=1.5), took(3, 1.6, "a4"), acks(3, at=1.7)]),
            *([took(4, 1.8, "b1", 2), acks(4, at=1.9), took(5, 2, "b2"), acks(5, at=2.1)]),
        ],
    ),
    "not passed over, since its message waits for its delay": (
        "",
        ONE | {"group_turns": True},
        [
            pushed("b1", 0),
            pushed("a1 a2 a3 a4", 0.1),
            *([took(9, 0.5, "b1"), settle("nack", 9, 0.6, delay=1.2)]),
            *([took(0, 1, "a1"), acks(0, at=1.1), took(1, 1.2, "a2"), acks(1, at=1.3)]),
            *([took(2, 1.4, "a3"), acks(2, at=1.5), took(3, 1.6, "a4"), acks(3, at=1.7)]),
            *([took(4, 1.85, "b1", 2), acks(4, at=1.9)]),
        ],
    ),
    "not passed over, since the others were pushed before": (
        "",
        ONE | {"group_turns": True},
        [
            pushed("a1 a2 a3 a4", 0),
            pushed("b1", 0.1),
            *([took(0, 1, "a1"), acks(0, at=1.1), took(1, 1.2, "a2"), acks(1, at=1.3)]),
            *([took(2, 1.4, "a3"), acks(2, at=1.5), took(3, 1.6, "a4"), acks(3, at=1.7)]),
            *([took(4, 1.8, "b1"), acks(4, at=1.9)]),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rules_of_groups(case: str, tmp_path: Path) -> None:
    rule, settings, events = CASES[case]
    verdict = judged(tmp_path, *ended(events), order=False, **settings)
    broken = set(verdict.violations) - {"lost"}
    assert broken == ({rule} if rule else set()), verdict.examples
