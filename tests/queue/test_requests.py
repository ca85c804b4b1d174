"""Every request that the list queue sends, word by word, and what it makes of each reply.

`requests.txt` has the traces. If one changes on purpose, write them again with
``python -m tests.queue.test_requests``, and look at the difference: it is a change of what
releases that share a queue send to one another.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError, NoPermissionError, RedisError, ResponseError

from ackq.config import Confirm, QueueConfig
from ackq.core.effects import Request
from ackq.errors import AckqError, UnknownOutcome
from ackq.queue import (
    claims,
    delayed_messages,
    held_lists,
    inspection,
    pop_from,
    push,
    row_dead_letters,
    settle,
    take,
)
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from tests.outside import FIXED
from tests.traces import Lost, compare, trace, write

FILE = Path(__file__).with_name("requests.txt")
WRONG_TYPE = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
NO_RECORD = ResponseError("ACKQ_POP_FROM no record")
AWAY = ConnectionError("gone")


def spec(end: Any = "right", **settings: Any) -> QueueSpec:
    return QueueSpec(
        "q", QueueKeys.of("q", end), QueueConfig(pop_from=end, **settings), outside=FIXED
    )


def held(*keys: str, receipt: int = 50_000_000, count: int = 1) -> list[Message]:
    return [Message("q", key.encode(), b"{}", receipt, count) for key in keys]


def pushes() -> Iterator[str]:
    order = {"id": "a", "n": 1}
    usual: tuple[Any, ...] = (None, None, None, 60.0, None)
    yield trace("push", push.push(spec(), order, *usual), 1.0, b"none", 1)
    checked = spec()
    checked.push_check.due = 5.0
    yield trace("push soon after", push.push(checked, order, *usual), 4.9, 1)
    yield trace("push when a check is due", push.push(checked, order, *usual), 5.0, b"list", 1)
    yield f"  the next check is due at {checked.push_check.due}"
    yield trace(
        "push without leave to look",
        push.push(checked, order, *usual),
        15.0,
        NoPermissionError("TYPE"),
        1,
    )
    yield f"  the next check is due at {checked.push_check.due}"
    yield trace("push to the left end", push.push(spec("left"), order, *usual), 1.0, b"left", 1)
    yield trace(
        "push to the left end of a queue of the right",
        push.push(spec("left"), order, *usual),
        1.0,
        b"right",
    )
    yield trace(
        "push to the right end of a queue of the left",
        push.push(spec(), order, *usual),
        1.0,
        b"string",
        b"left",
    )
    yield trace(
        "push where a string is no record",
        push.push(spec(), order, *usual),
        1.0,
        b"string",
        b"x",
        WRONG_TYPE,
        b"string",
        b"x",
        b"string",
        *[b"none"] * 10,
    )
    yield trace("push with a delay", push.push(checked, order, 1.5, None, None, 60.0, None), 1.0, 1)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    yield trace("push at a time", push.push(checked, order, None, at, None, 60.0, None), 1.0, 1)
    confirm = Confirm(2, timeout=0.5)
    yield trace(
        "push, confirmed", push.push(checked, order, None, None, None, 60.0, confirm), 1.0, (1, 2)
    )
    yield trace(
        "push, not confirmed",
        push.push(checked, order, None, None, None, 60.0, confirm),
        1.0,
        (1, 1),
    )
    disk = Confirm(1, fsync=True)
    yield trace(
        "push to disk",
        push.push(checked, order, None, None, None, 60.0, disk),
        1.0,
        [[b"waitaof"]],
        (1, (1, 1)),
    )
    yield trace(
        "push to disk of an old server",
        push.push(checked, order, None, None, None, 60.0, disk),
        1.0,
        [None],
    )
    yield trace(
        "push once", push.push(checked, order, None, None, "m", 0.0015, None), 1.0, [1, b"first"]
    )
    yield trace(
        "push once, later",
        push.push(checked, {"n": 1, "id": 7}, 2.0, None, "m", 60.0, confirm),
        1.0,
        ([0, b"first"], 2),
    )
    yield trace(
        "push once, unknown",
        push.push(checked, order, None, None, "m", 60.0, None),
        1.0,
        Lost(AWAY),
    )
    many: list[Any] = [order, b"bytes", {"id": 7}]
    yield trace("push many", push.push_many(spec(), many, None, None, None), 1.0, b"none", 3)
    yield trace("push many later", push.push_many(checked, many, 2.0, None, None), 1.0, 3)
    large = [bytes(2_000_000)] * 5
    big = spec(max_body_bytes=3_000_000)
    yield trace(
        "push many, cut short",
        push.push_many(big, large, 1.0, None, None),
        1.0,
        b"none",
        2,
        UnknownOutcome("lost"),
    )
    yield trace(
        "push many, partly",
        push.push_many(big, large, 1.0, None, None),
        1.0,
        2,
        ResponseError("OOM"),
    )
    yield trace("push many, none", push.push_many(big, large, 1.0, None, None), 1.0, AWAY)
    yield trace(
        "push many, partly confirmed",
        push.push_many(big, large, 1.0, None, confirm),
        1.0,
        (2, 2),
        (2, 0),
    )


def settles() -> Iterator[str]:
    two = held("a", "b")
    yield trace("ack", settle.ack(spec(), two), [2], watched=two)
    yield trace("ack again", settle.ack(spec(), two), watched=two)
    yield trace("nack what was acked", settle.nack(spec(), two, None), watched=two)
    mixed = [*held("a"), *held("b", receipt=60_000_000), *held("c")]
    yield trace("ack of three pops", settle.ack(spec(), mixed), [1, 1, -3], watched=mixed)
    lost = held("a", "b")
    yield trace("ack, unknown", settle.ack(spec(), lost), Lost(AWAY), watched=lost)
    lost = held("a", "b")
    yield trace("ack, not sent", settle.ack(spec(), lost), AWAY, watched=lost)
    yield trace("ack, confirmed", settle.ack(spec(), held("a"), Confirm(1)), ([1], 1))
    yield trace("ack by id", settle.ack_id(spec(), ["a", 7]), [1, 2])
    yield trace("ack by id in parts", settle.ack_id(spec(), ["a", "b", "c"]), [2, 2], [1, 1])
    for requeue in ("front", "back"):
        for end in ("right", "left"):
            some = [*held("a", "b", count=3), *held("c")]
            yield trace(
                f"nack, {requeue} {end}",
                settle.nack(spec(end, requeue=requeue, max_receives=3), some, None),
                [3, [1, 2]],
                watched=some,
            )
    some = held("a")
    yield trace("nack with a delay", settle.nack(spec(), some, 1.5), [1, []], watched=some)
    yield trace("nack what was nacked", settle.nack(spec(), some, 1.5), watched=some)
    yield trace("ack what was nacked", settle.ack(spec(), some), watched=some)
    yield trace("nack without a delay", settle.nack(spec(), held("a"), 0), [1, []])
    failed = held("a", "b", "c")
    failed[1].failure = b"why"
    yield trace("nack with errors", settle.nack(spec(), failed, 0), [3, []])
    yield trace(
        "nack with an error",
        settle.nack(spec(record_errors="type"), held("a", "b"), 0, error=ValueError("x")),
        [2, []],
    )
    some = held("a", "b", "c")
    yield trace(
        "release in parts",
        settle.nack(spec(), some, 2.0, charge=False),
        [1, 0, 2, []],
        [1, -1, []],
        watched=some,
    )
    some = held("a", "b")
    yield trace("reject", settle.reject(spec(), some, "why"), [1, 2], watched=some)
    some = held("a", "b")
    yield trace("extend", settle.extend(spec(), some, None), [9_000_000, 2], watched=some)
    yield trace("extend by", settle.extend(spec(), held("a"), 2.5), [9_000_000, 0, 1])
    yield trace("settle another queue's", settle.ack(spec(), [Message("r", b"a", b"", 1, 1)]))
    yield trace("settle no message", settle.ack(spec(), ["a"]))  # type: ignore[list-item]
    many = [str(number) for number in range(101)]
    yield trace("nack more than one call takes", settle.nack(spec(), held(*many), 1.0), [100], [1])
    yield trace(
        "reject more than one call takes", settle.reject(spec(), held(*many), "r"), [100], [1]
    )
    yield trace("release many", settle.nack(spec(), held(*many), 0, charge=False), [101])


def takes() -> Iterator[str]:
    ok = [b"ok", [0, -1], 90_000_007, [3], b"a", b"{}", b"b", b"{}"]
    yield trace(
        "pop",
        take.pop_many(spec(), 2, None, None, ()),
        [b"ok", [], 90_000_007, [], b"a", b'{"id":"a"}'],
    )
    left = spec("left", max_receives=4, max_body_bytes=99, requeue="back")
    yield trace(
        "pop from the left",
        take.pop_many(left, 5000, None, 2.0, ()),
        NO_RECORD,
        b"left",
        [b"empty", [], -1],
    )
    before = held("x", "y")
    yield trace(
        "pop and ack",
        take.pop_many(spec(), 2, None, None, before),
        [b"empty", [2], -1],
        watched=before,
    )
    before = held("x")
    yield trace(
        "pop and ack, unknown",
        take.pop_many(spec(), 2, None, None, before[0]),
        UnknownOutcome("lost"),
        [1],
        watched=before,
    )
    yield trace(
        "pop again",
        take.pop_many(spec(), 2, None, None, ()),
        [b"again", []],
        [b"held", [], b"qCLAIM:g:1"],
        [5, 0],
        ok,
    )
    random.seed(1)
    yield trace(
        "pop and wait",
        take.pop_many(spec(), 2, 5.0, None, ()),
        [b"empty", [], -1],
        1.0,
        None,
        [b"empty", [], 250_000],
        3.0,
        b"x",
        [b"paused", [], -1],
        4.0,
        None,
        [b"empty", [], -1],
        5.5,
        None,
        [b"empty", [], -1],
        6.0,
    )
    yield trace(
        "pop, paused, for a short time",
        take.pop_many(spec(), 2, 0.01, None, ()),
        [b"paused", [], -1],
        1.0,
        None,
        [b"empty", [], -1],
        9.0,
    )
    crowded = spec()
    crowded.waiting.extend([None] * take.ENOUGH_WAITING)
    yield trace(
        "pop with many others",
        take.pop_many(crowded, 2, 5.0, None, ()),
        [b"empty", [], -1],
        2.0,
        None,
        None,
        [b"empty", [], -1],
        9.0,
    )
    crowded.waiting.pop()
    yield trace(
        "pop with others",
        take.pop_many(crowded, 2, 5.0, None, ()),
        [b"empty", [], -1],
        2.0,
        None,
        [b"empty", [], -1],
        9.0,
    )


def ends() -> Iterator[str]:
    left, right = QueueKeys.of("q", "left"), QueueKeys.of("q")
    yield trace("forget", pop_from.forget(left), b"left")
    yield trace("forget the right end", pop_from.forget(right))
    yield trace("forget if unused", pop_from.forget_if_unused(spec("left")), 0, b"left")
    yield trace("forget if unused, but it is", pop_from.forget_if_unused(spec("left")), 1)
    yield trace("compare from the left", pop_from.compare(left), b"zset")
    yield trace("compare with a record", pop_from.compare(left), b"string")
    yield trace(
        "compare without leave", pop_from.compare(right), b"string", NoPermissionError("GET")
    )
    yield trace("recorded, left", pop_from.recorded(right), b"string", b"left")
    yield trace("recorded, right", pop_from.recorded(left), b"zset")
    yield trace(
        "record on a wrong type", pop_from.record(left), WRONG_TYPE, b"list", *[b"none"] * 11
    )


def inspections() -> Iterator[str]:
    counts = [1, 2, 40, 3, 50, 4, 6, 1, 7_000_001, 9_000_001, 8, 16, 32, 5_000_001]
    yield trace("stats", inspection.stats(spec()), counts)
    yield trace("stats of an empty queue", inspection.stats(spec("left")), b"none", [0] * 14)
    yield trace(
        "stats with an ended lease",
        inspection.stats(spec()),
        [0, 0, 2, 2, 0, 0, 0, 0, -3_000_001, 0, 0, 0, 0, 0],
    )
    yield trace(
        "oldest",
        inspection.oldest_ready(spec(time_field="t")),
        [9_000_003, 4_000_001, 1, b'{"t":3.5}'],
    )
    yield trace(
        "oldest by its lease",
        inspection.oldest_ready(spec("left")),
        b"string",
        [9_000_003, 4_000_001, 0, b""],
    )
    yield trace("oldest, unknown", inspection.oldest_ready(spec()), [9_000_003, 4_000_001, 1, b""])
    yield trace("oldest of an empty queue", inspection.oldest_ready(spec()), [9, 0, 0, b""])
    yield trace("oldest from the future", inspection.oldest_ready(spec()), [9, 99, 0, b""])
    counted = [
        b"since",
        b"1000003",
        b"live",
        b"2",
        b"taken",
        b"9",
        b"timeout:30",
        b"4",
        b"lease:30",
        b"1",
        b"lease:5",
        b"2",
        b"rows:bad",
        b"3",
        b"rows:\xff",
        b"1",
        b"dead:bad",
        b"2",
        b"other:1",
        b"8",
    ]
    yield trace("counters", inspection.counters(spec(), 0.0015), [2_000_003, 5, 1, *counted])
    yield trace(
        "counters of the former release",
        inspection.counters(spec(), 60.0),
        [2_000_003, 5, 1, b"since", b"1", b"taken", b"9"],
    )
    names = [
        b"0",
        5_000_000,
        b"qCLAIM:g:2",
        b"7000000",
        b"2",
        b"qCLAIM:g:1",
        b"6000000",
        b"1",
        b"qSTAGED:w:1:0",
        b"0",
        b"3",
        b"qSTAGED:w:1:0:delayed",
        b"0",
        b"4",
    ]
    yield trace(
        "peek",
        inspection.peek(spec(time_field="t"), 3, "ready", 2),
        names,
        [b"list", b"a", b'{"id":"a","t":5}', 0, b"0", b"zset", b"b", b"{}", 2, b"2500001"],
        [],
        [b'2:bf21a9e8fbc5a3846fb05b4fa0859e0917b2202f\n1:2000000:{"type":"E"}'],
    )
    yield trace(
        "peek at delayed messages",
        inspection.peek(spec("left"), 1, "delayed"),
        b"string",
        [b"0", 1],
        [b"zset", b"a b", b"{}", 0, b"2500001"],
    )
    yield trace("peek at nothing", inspection.peek(spec(), 0, "in_flight"), [b"0", 1])
    yield trace("peek at another state", inspection.peek(spec(), 1, "dead"))  # type: ignore[arg-type]
    yield trace("purge", inspection.purge(spec(), True), names, 2, 1, 3, 4, 9)
    yield trace(
        "purge from the left",
        inspection.purge(spec("left"), False),
        b"string",
        [b"0", 1],
        9,
        b"left",
    )
    yield trace("pause", inspection.pause(spec()), b"OK")
    yield trace("resume", inspection.resume(spec()), 1)
    yield trace("drain", inspection.drain(spec("left")), b"left", [b"0", 1], 1000, 5, 0, b"left")
    fields = [
        b"key",
        b"\0k",
        b"body",
        b'{"id":"a"}',
        b"reason",
        b"rejected \xff",
        b"count",
        b"3",
        b"time",
        b"2500001",
        b"errors",
        b'3:2000001:{"type":"E","place":"f:1 in g"}',
    ]
    yield trace(
        "dead letters",
        inspection.dead_letters(spec(), 3, ()),
        [[b"1-0", fields]],
        [[b"2-0", []], [b"3-0", fields]],
    )
    yield trace("dead letters after one", inspection.dead_letters(spec(), 3, (), "5-1"), [])
    yield trace(
        "chosen dead letters",
        inspection.dead_letters(spec(), 3, ["1-0", "2-0"]),
        [[b"1-0", fields]],
        [],
    )
    yield trace("dead letters after none", inspection.dead_letters(spec(), 3, (), "x"))
    yield trace(
        "redrive",
        inspection.redrive(spec(), 1200, ()),
        [900, 1000, b"8-0"],
        [190, 199, b"9-0"],
        [0, 0, b"9-0"],
    )
    yield trace("redrive all", inspection.redrive(spec(), None, ()), counts, [6, 6, b"8-0"])
    yield trace(
        "redrive some",
        inspection.redrive(spec(), None, ["1-0", "2-0", "3-0"]),
        [1, 2, b""],
        [1, 1, b""],
    )
    yield trace("redrive no entry", inspection.redrive(spec(), None, ["1-0", "x"]))
    yield trace(
        "drop dead letters",
        inspection.drop_dead_letters(spec(), [f"{each}-0" for each in range(51)]),
        50,
        1,
    )
    rows = [[b"list", 0], [b"zset", 1], [b"string", 0], *[[b"none", 0]] * 8, [1, 3, 1, 0]]
    yield trace(
        "audit",
        inspection.audit(spec(), False),
        b"none",
        b"none",
        rows,
        [b"5", 2, b"body missing", b"\xff"],
        [b"0", 2, b"body missing", b"\xff"],
        *[[b"0", 1]] * 5,
        [b"0", 1, b"qCLAIM:g:1", b"7000000", b"2"],
        [b"rows"],
        [b"0", 7, b"orphan", b"z"],
    )
    yield trace(
        "audit of a sound queue, repaired",
        inspection.audit(spec("left"), True),
        b"none",
        b"string",
        [*[[b"none", 0]] * 12, [1, 2, 1, 5]],
        *[[b"0", 0]] * 6,
        [b"0", 1],
    )
    yield trace(
        "audit of keys of other types",
        inspection.audit(spec(), True),
        b"none",
        b"none",
        [[b"string", 1], *[[b"none", 0]] * 10],
    )
    yield trace("audit without a record", inspection.audit(spec(), True), b"zset", b"none", b"left")
    yield trace(
        "audit without a record, not repaired", inspection.audit(spec(), False), b"zset", b"none"
    )
    yield trace(
        "audit without a record, popped from the right",
        inspection.audit(spec(), True),
        b"zset",
        b"none",
        b"right",
    )
    yield trace(
        "audit without leave",
        inspection.audit(spec(), True),
        NoPermissionError("TYPE"),
        b"none",
        [[b"none", 0]] * 11,
    )


def lists() -> Iterator[str]:
    page = [
        b"qCLAIM:g:2",
        b"0",
        b"2",
        b"qCLAIM:g:x",
        b"6000000",
        b"1",
        b"qCLAIM:h:3",
        b"8000001",
        b"1",
        b"qSTAGED:w:1:0",
        b"0",
        b"3",
    ]
    yield trace("lists", held_lists.lists(spec()), [b"7", 1, *page], [b"0", 5_000_000, *page[:3]])
    yield trace("claims", held_lists.claims(spec()), [b"0", 5_000_000, *page])
    yield trace("give back", held_lists.return_to_queue(spec(), b"qCLAIM:g:1"), [9, 1], [3, 0])
    yield trace(
        "give back to the left",
        held_lists.return_some(spec("left"), b"qSTAGED:w:1:0:delayed"),
        [9, 1],
    )
    yield trace("into the queue", held_lists.into_queue(spec(), b"qSTAGED:w:1:0"), 1)
    yield trace(
        "into the queue from the left",
        held_lists.into_queue(spec("left"), b"qSTAGED:w:1:0"),
        [5, 0],
    )
    entries = ["1795252215312092-order-7", "5-a%20b"]
    yield trace("run now", delayed_messages.run_now(spec(), entries, ["x", 7]), 3)
    yield trace("run many now", delayed_messages.run_now(spec(), (), range(501)), 500, 1)
    yield trace("cancel", delayed_messages.cancel(spec(), entries, ["x"]), [1, 2], [1, 1])
    yield trace("cancel no entry", delayed_messages.cancel(spec(), ["x"], ()))
    yield trace("cancel no id", delayed_messages.cancel(spec(), (), [""]))


def group(end: Any = "right", epoch: int = 4) -> claims.Group:
    return claims.Group(spec(end), "g", 60.0, epoch)


def batches() -> Iterator[str]:
    listed = [
        b"0",
        5_000_000,
        b"qCLAIM:g:2",
        b"7000000",
        b"2",
        b"qCLAIM:g:1",
        b"6000000",
        b"1",
        b"qCLAIM:h:1",
        b"6000000",
        b"1",
        b"qCLAIM:g:3",
        b"0",
        b"1",
    ]
    yield trace("begin", claims.begin(group()), [5, 0, 0])
    yield trace("open", claims.open_claims(group()), listed, [b"4"])
    yield trace("open, without an epoch", claims.open_claims(group(epoch=0)), listed)
    yield trace("open, fenced", claims.open_claims(group()), listed, [b"5"])
    yield trace("last", claims.last(group()), [None, b"7"])
    ok = [b"ok", 5, 0]
    yield trace("claim", claims.claim(group(), 1, 10, None, None), [b"2", None], ok)
    left = group("left")
    yield trace(
        "claim from the left",
        claims.claim(left, 1, 10, 99, 8),
        NO_RECORD,
        b"left",
        [b"held", b"qCLAIM:h:1"],
        [1, 0],
        [b"more", 3, 1],
        ok,
    )
    yield f"  claiming {left.claiming}"
    taken = group()
    yield trace(
        "claim a later one",
        claims.claim(taken, 1, 10, None, None),
        [b"2", b"5"],
        [b"taken", 9],
        [b"more", 1, 1],
        AWAY,
    )
    yield f"  claiming {taken.claiming}"
    yield trace("claim again", claims.claim(taken, 1, 10, None, None), ok)
    yield trace("claim a used one", claims.claim(group(), 1, 10, None, 5), [b"taken", 9])
    none = group()
    yield trace("claim nothing", claims.claim(none, 1, 10, None, None), [None, None], [b"empty"])
    yield f"  claiming {none.claiming}"
    yield trace("claim nothing as a batch", claims.claim(group(), 1, 10, None, 3), [b"empty"])
    yield trace("claim, fenced", claims.claim(group(), 1, 10, None, 3), [b"fenced", 6])
    yield trace("claim before begin", claims.claim(group(epoch=0), 1, 10, None, 3))
    yield trace("ack claims", claims.ack(group(), 1, 0.0015), listed, [b"ok", 2])
    yield trace("ack no claims", claims.ack(group(), 9, 0), [b"0", 1], [b"ok", 0])
    yield trace("ack all claims", claims.ack(group(), 2, 600.0), listed, [b"ok", 1], [b"ok", 2])
    yield trace("forget claims", claims.forget(group(), 4), [b"3", b"1"], [b"ok"], [b"ok"])
    yield trace("beat", claims.beat(group()), listed, [b"ok"])
    yield trace("beat without claims", claims.beat(group()), [b"0", 1], [b"ok"])
    yield trace("look", claims.look(group(), 0, 4), listed, 6)
    yield trace("read", claims.read(group(), 2, 3, 2), [b"b", b"a"])
    yield trace("read from the left", claims.read(group("left"), 2, 3, 2), [b"a", b"b"])
    yield trace("read what is gone", claims.read(group(), 2, 3, 2), [b"a"])
    yield trace("read nothing", claims.read(group(), 2, 3, 0))
    given = group()
    yield trace(
        "release claims", claims.release(given), [b"ok"], listed, [b"ok"], [1, 0], [2, 0], [1, 0]
    )
    yield f"  epoch {given.epoch}, claiming {given.claiming}"
    yield trace(
        "end holds",
        claims.end_holds(spec()),
        [*listed, b"qSTAGED:w:1:0", b"0", b"3"],
        [b"ok"],
        [*listed],
        [b"ok"],
        [1, 0],
        [2, 0],
        [1, 0],
        [b"ok"],
        [*listed],
        [b"ok"],
        [5, 0],
        [7, 0],
    )


def rejected() -> Iterator[str]:
    writer = row_dead_letters.RowWriter(spec(), "w", 60_000)
    row = row_dead_letters.RejectedRow
    yield trace("begin a batch", row_dead_letters.begin_batch(writer, "7"), [b"ok", 0])
    rows = [row("0", b'{"id":"a"}', "why"), row("1", b"x", "no")]
    yield trace("reject rows", row_dead_letters.reject_rows(writer, "7", rows), [b"ok", b"2"])
    many = [row("0", bytes(600_000), "why")] * 2
    yield trace(
        "reject large rows",
        row_dead_letters.reject_rows(writer, "7", many),
        [b"ok", 1],
        [b"superseded", b""],
    )
    for number, key in enumerate(("DEAD", "REJECTED:w", "COUNTERS")):
        kinds = [[b"stream", b"hash", b"hash"][at] if at != number else b"set" for at in range(3)]
        yield trace(
            f"reject rows, another type at {key}",
            row_dead_letters.reject_rows(writer, "7", rows),
            WRONG_TYPE,
            *kinds,
        )


PARTS = (pushes, settles, takes, ends, inspections, lists, batches, rejected)


def traces() -> list[str]:
    """Return all traces; what a line of its own shows belongs to the one before."""
    found: list[str] = []
    for part in PARTS:
        for each in part():
            if each.startswith("# "):
                found.append(each)
            else:
                found[-1] += f"\n{each}"
    return found


def test_the_requests_of_the_list_queue() -> None:
    compare(FILE, traces())


def test_a_key_of_another_type_is_named_whichever_request_meets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each operation is stopped at each of its requests in turn."""
    ended: list[str] = []

    def stop_at(number: int, steps: Any, answers: Iterator[Any]) -> None:
        """Let a request meet a key of another type, and note what is raised."""
        effect = next(steps)
        while number or not isinstance(effect, Request):
            number -= isinstance(effect, Request)
            answer = next(answers)
            failed = isinstance(answer, Exception)
            effect = steps.throw(answer) if failed else steps.send(answer)
        is_checked = effect.script or effect.args[0] in (b"LPUSH", b"RPUSH", b"XRANGE", b"HMGET")
        try:
            steps.throw(WRONG_TYPE)
            while True:
                steps.send(b"stranger")
        except Exception as error:
            if is_checked:
                ended.append(f"{type(error).__name__}: {error}")

    def stopped(title: str, steps: Any, *answers: Any, **_: Any) -> str:
        with contextlib.suppress(StopIteration, AckqError, RedisError, TypeError):
            stop_at(number, steps, iter(answers))
        return f"# {title}"

    monkeypatch.setattr(sys.modules[__name__], "trace", stopped)
    for number in range(10):  # noqa: B007
        traces()
    assert len(ended) > 150
    others = [each for each in ended if not re.search("queue 'q': .* is a stranger", each)]
    # A pop whose reply was lost tries its acks alone, and reports itself.
    assert others == ["UnknownOutcome: lost"]


def test_a_changed_trace_is_noticed(tmp_path: Path) -> None:
    other = tmp_path / "requests.txt"
    other.write_text(FILE.read_text().replace("qBACKUP", "qBACKDOWN", 1))
    with pytest.raises(AssertionError):
        compare(other, traces())


if __name__ == "__main__":
    write(FILE, traces())
