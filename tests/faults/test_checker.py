"""The checker finds each kind of violation, and nothing in a sound history."""

from __future__ import annotations

from typing import Any

import pytest

from .checker import Event, check
from .roles import body_of

LEASE = 0.5


def push(state: str = "ok") -> Event:
    return {"kind": "push", "id": "m", "state": state, "end": 0.0}


def deliver(token: str, at: float, count: int = 1, **changes: Any) -> Event:
    return {
        "kind": "deliver", "id": "m", "token": token, "count": count, "begin": at, "end": at + 0.01,
        "receipt": round((at + LEASE) * 1_000_000), "body": body_of("m").decode(), **changes,
    }  # fmt: skip


def settle(kind: str, token: str, at: float, state: str = "ok") -> Event:
    return {
        "kind": kind, "id": "m", "token": token, "state": state, "begin": at, "end": at + 0.01
    }  # fmt: skip


SOUND: dict[str, list[Event]] = {
    "acked": [push(), deliver("a", 1), settle("ack", "a", 1.1)],
    "acked after a redelivery": [
        push(), deliver("a", 1), deliver("b", 1.6, 2), settle("ack", "a", 1.7, "refused"),
        settle("ack", "b", 1.8), settle("ack", "b", 1.9, "gone"),
    ],
    "given back and taken at once": [
        push(), deliver("a", 1), settle("nack", "a", 1.1), deliver("b", 1.2, 2),
        settle("release", "b", 1.25), deliver("c", 1.3, 2), settle("ack", "c", 1.4),
    ],
    "pushed without an answer, and stored": [
        push("unknown"), deliver("a", 1), settle("ack", "a", 1.1, "unknown")
    ],
    "pushed without an answer, and not stored": [push("unknown")],
}  # fmt: skip

UNSOUND: dict[str, list[Event]] = {
    "never delivered": [push()],
    "never acked": [push(), deliver("a", 1)],
    "never pushed": [deliver("a", 1), settle("ack", "a", 1.1)],
    "another body": [push(), deliver("a", 1, body="{}"), settle("ack", "a", 1.1)],
    "after the ack": [push(), deliver("a", 1), settle("ack", "a", 1.1), deliver("b", 2, 2)],
    "while a held it": [
        push(), deliver("a", 1), deliver("b", 1.3, 2), settle("ack", "b", 1.4)
    ],
    "although extended": [
        push(), deliver("a", 1), settle("extend", "a", 1.4), deliver("b", 1.6, 2),
        settle("ack", "b", 1.7),
    ],
    "acked twice": [
        push(), deliver("a", 1), deliver("b", 1.6, 2), settle("ack", "b", 1.7),
        settle("ack", "b", 1.8),
    ],
    "stale": [
        push(), deliver("a", 1), deliver("b", 1.6, 2), settle("extend", "a", 1.7),
        settle("ack", "b", 1.8),
    ],
    "of the holder": [push(), deliver("a", 1), settle("ack", "a", 1.1, "refused"),
                      settle("ack", "a", 1.2)],
    "counted": [push(), deliver("a", 1), deliver("b", 1.6, 1), settle("ack", "b", 1.7)],
}  # fmt: skip


@pytest.mark.parametrize("history", SOUND)
def test_a_sound_history_passes(history: str) -> None:
    assert check(SOUND[history], LEASE).problems == []


@pytest.mark.parametrize("history", UNSOUND)
def test_a_violation_is_found(history: str) -> None:
    problems = check(UNSOUND[history], LEASE).problems
    words = {"never delivered": "lost", "never acked": "lost", "never pushed": "invented",
             "another body": "changed", "although extended": "had extended"}  # fmt: skip
    assert any(words.get(history, history) in problem for problem in problems), problems


def test_what_is_dead_is_not_lost() -> None:
    assert check([push()], LEASE, dead={"m"}).problems == []
