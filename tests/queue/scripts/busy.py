"""A busy queue, and a call on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.queue.scripts.grouped import STOPPING, fields
from tests.queue.scripts.headers import is_of_the_list_queue, parse, read
from tests.queue.scripts.space import CLAIM, FUTURE, PAST, Space, Value, body

#: A lease that the caller holds.
MINE = (FUTURE, 1, "mine")


@dataclass(frozen=True)
class Call:
    """Arguments for one script, all in range."""

    script: str
    args: tuple[Value, ...] = ()
    more_keys: tuple[str, ...] = ()

    def on(self, space: Space) -> Any:
        if self.script == "held/give_back":
            space = space.frozen(FUTURE)  # when the time of the list has come
        return space.call(self.script, *self.args, lists=self.more_keys)

    def but(self, place: int, value: Value) -> Call:
        """Return the same call with another argument, counted from 0."""
        return replace(self, args=(*self.args[:place], value, *self.args[place + 1 :]))

    def __str__(self) -> str:
        words = [str(arg) for arg in self.args if isinstance(arg, str) and arg.isidentifier()]
        return "-".join([self.script, *words])


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


def fill_groups(space: Space) -> None:
    """Give a filled queue groups, with something in every key of them."""
    with space.batched() as keys:
        client = keys.client
        for suffix in ("HELD", "HELDROWS", CLAIM):  # one by one, as a pipeline to a cluster must
            client.delete(keys.key(suffix))
        client.hset(keys.key("RECORD"), mapping=fields(STOPPING) | {"place": "7"})
        client.hset(keys.key("GROUPS:BUSY"), mapping={"a": 1, "b": 2})
        members = {f"001{name}{at:016}{{}}": 0 for at, name in enumerate("abc")}
        client.zadd(keys.key("GROUPS:PARKED"), members)
        client.zadd(keys.key("GROUPS:TURNS"), {"c": PAST})
        slots = {"mine": "=0000000000000000a", "later": ">0000000000000002b"}
        client.hset(keys.key("GROUPS:FLIGHT"), mapping=slots | {"gone": "=0000000000000001b"})
        runs = {"001b0000000000000001gone": 0, "001b0000000000000002later": 0}
        client.zadd(keys.key("GROUPS:RUNS"), runs)
        client.hset(keys.key("GROUPS:STOPPED"), "e", "5-1 5-2")
        letters = {"5-1": "0000000000000005e", "5-2": "0000000000000006e"}
        client.hset(keys.key("GROUPS:LETTERS"), mapping=letters)
        client.set(keys.key("GROUPS:WOKEN"), f"9:0 {PAST} 001d0000000000000003")
        client.zadd(keys.key("GROUPS:RATES"), {"b": FUTURE})
        client.rpush(keys.key("GROUPS:ROOM"), "1")
        client.set(keys.key("WAITERS:LOOKS"), f"{PAST}:1.000", px=100_000)


def prepare(space: Space, script: str) -> None:
    """Put something into every key of a script."""
    if is_of_the_list_queue(script):
        fill(space)
        if script.startswith("groups/") or space.grouped:
            fill_groups(space)
        return
    client = space.client
    put: dict[str, Callable[[bytes], object]] = {
        "list": lambda key: client.lpush(key, "1"),
        "zset": lambda key: client.zadd(key, {"k": FUTURE, "ready": 1}),
        "hash": lambda key: client.hset(key, mapping={"k": "1", "ready": "1"}),
        "set": lambda key: client.sadd(key, "k"),
        "stream": lambda key: client.xadd(key, {"k": "1"}),
        "string": lambda key: client.set(key, "1"),
    }
    for slot in parse(read(space.directory, script)).keys:
        put[slot.type](space.key(slot.suffix))


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
