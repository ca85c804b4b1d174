"""A busy queue, and calls that make every script do all that it can on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.queue.scripts.space import CLAIM, FUTURE, MIB, PAST, SECOND, Space, Value, body

#: A lease that the caller holds.
MINE = (FUTURE, 1, "mine")


@dataclass(frozen=True)
class Call:
    """Arguments for one script, all in range."""

    script: str
    args: tuple[Value, ...] = ()

    def on(self, space: Space) -> Any:
        if self.script == "held/give_back":
            space = space.frozen(FUTURE)  # when the time of the list has come
        return space.call(self.script, *self.args)

    def but(self, place: int, value: Value) -> Call:
        """Return the same call with another argument, counted from 0."""
        return Call(self.script, (*self.args[:place], value, *self.args[place + 1 :]))

    def __str__(self) -> str:
        words = [str(arg) for arg in self.args if isinstance(arg, str) and arg.isidentifier()]
        return "-".join([self.script, *words])


CALLS = (
    Call("pop", (10, 30 * SECOND, 0, 3, MIB, "front", *MINE)),
    Call("pop", (10, 30 * SECOND, 0, 3, 10, "back", *MINE)),
    Call("pop", (1, 30 * SECOND, 0, 0, MIB, "front")),
    Call("ack", MINE),
    Call("ack_id", ("mine",)),
    Call("nack", (1, 3, FUTURE, SECOND, 1, "mine", FUTURE, -1, 1, "mine_too", 7, 0, 1, "dying")),
    Call("nack", (0, 3, FUTURE, SECOND, 1, "mine", FUTURE, -1, 1, "mine_too", 7, 0, 1, "dying")),
    Call("nack", (1, 3, FUTURE, SECOND, 1, "mine", 7, 0, 1, "dying", "errors", 2, b"{}")),
    Call("reject", ("bad", *MINE)),
    Call("reject", ("bad", *MINE, "errors", 1, b"{}")),
    Call("extend", (30 * SECOND, 0, *MINE)),
    Call("schedule", ("delay", SECOND, "new", b"body", "mine", b"body", "", b"body")),
    Call("schedule", ("at", FUTURE, "new", b"body")),
    Call("push_once", (1000, "new", body("new"), "now", 0, "new")),
    Call("push_once", (1000, "new", body("new"), "delay", SECOND, "new")),
    Call("push_once", (1000, "mine", body("mine"), "at", FUTURE, "mine")),
    Call("push_once", (1000, "", b"body", "at", FUTURE, "")),
    Call("stats"),
    Call("oldest", ("right", "specversion", "created")),
    Call("peek", ("ready", 0, 100, 1)),
    Call("peek", ("in_flight", 0, 100, 1)),
    Call("peek", ("delayed", 0, 100, 0)),
    Call("purge", (0,)),
    Call("purge", (1,)),
    Call("redrive", (10, "")),
    Call("run_now", (FUTURE, "later")),
    Call("cancel", ("", "due", FUTURE, "later")),
    Call("drain", (1000,)),
    Call("drop", ("1-1",)),
    Call("audit", (0,)),
    Call("audit", (1,)),
    Call("audit_scan", ("backup", 0, 1)),
    Call("audit_scan", ("delayed", 0, 1)),
    Call("audit_scan", ("context", 0, 1)),
    Call("audit_scan", ("receives", 0, 1)),
    Call("audit_scan", ("extended", 0, 1)),
    Call("audit_scan", ("heldrows", 0, 1)),
    Call("audit_scan", ("errors", 0, 1)),
    Call("watch", (10_000,)),
    Call("pop_from", ("record",)),
    Call("pop_from", ("forget",)),
    Call("claims/begin"),
    Call("claims/claim", (3, 2, 1000, 0, 60 * SECOND)),
    Call("claims/claim", (3, 2, 1000, 50, 60 * SECOND)),
    Call("claims/ack", (3, 2, 600_000)),
    Call("claims/ack", (3, 2, 0)),
    Call("claims/forget", (3, 2)),
    Call("claims/beat", (3, 60 * SECOND)),
    Call("claims/release", (3,)),
    Call("held/scan", (0,)),
    Call("held/give_back", ("front",)),
    Call("held/give_back", ("back",)),
    Call("held/give_back", ("delayed",)),
    Call("held/drop"),
    Call("held/audit", (1,)),
)
#: What changes nothing in a queue that `fill` has filled.
READERS = {"pop_from", "stats", "oldest", "peek", "audit", "held/scan"}


def fill(space: Space) -> None:
    """Put something into every key of the queue but PAUSED and COUNTERS."""
    with space.batched() as keys:
        keys.push(body("listed"), b"no id")
        keys.hand_over(body("handed"))
        keys.lease("expired", deadline=PAST, extended=f"7:{PAST}")
        keys.lease("dead", deadline=PAST + 1, count=3)
        keys.lease("mine", count=2)
        keys.lease("mine_too")
        keys.lease("dying", count=3, extended=f"7:{FUTURE}")
        keys.delay("due", due=PAST, count=1)
        keys.delay("later")
        keys.hold(body("claimed"), b"%d:" % FUTURE + body("staged"))
        keys.know(epoch=3, last=2, claiming=2, bytes=50)
        keys.note("mine", body("mine"), b"1:7:{}")
        keys.note("dying", body("dying"), b"1:7:{}", b"2:8:{}")
        keys.note("expired", body("expired"), b"1:7:{}")
    space.die("letter", b"body")


def damage(space: Space) -> None:
    """Add one of everything that an audit repairs."""
    space.client.zadd(space.key("BACKUP"), {"gone": PAST, "never": 2**60})
    space.client.zadd(space.key("DELAYED"), {"lost": FUTURE, "mine": FUTURE, "ever": -1})
    for key in ("orphan", "never", "ever"):
        space.client.hset(space.key("CONTEXT"), key, "body")
    space.client.hset(space.key("HELDROWS"), mapping={space.key(CLAIM): 7, "nobody": 1})
    space.client.hset(space.key("RECEIVES"), "nobody", 3)
    space.client.hset(space.key("EXTENDED"), "nobody", "7:8")
    space.note("nobody", b"body", b"1:7:{}")
