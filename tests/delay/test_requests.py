"""Every request that a delay queue sends, word by word, and what it makes of each reply.

`requests.txt` has the traces. If one changes on purpose, write them again with
``python -m tests.delay.test_requests``, and look at the difference: it is a change of what
releases that share a queue send to one another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from redis.exceptions import ConnectionError, ResponseError

from ackq.config import Confirm, QueueConfig
from ackq.delay import admin, peek, push, settle, staged_rows, take
from ackq.delay.messages import DelayedMessage, DelayEntry, DelaySpec, due
from ackq.errors import AckqError, UnknownOutcome
from ackq.membership.operations import Assignment, GroupSpec, Session
from ackq.staging.keys import StagingKeys
from ackq.staging.recovery import UnfinishedCommits
from tests.outside import FIXED
from tests.traces import Lost, compare, trace, write

FILE = Path(__file__).with_name("requests.txt")
WRONG_TYPE = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
AWAY = ConnectionError("gone")
KINDS = (b"zset", b"hash", b"zset", b"hash", b"hash", b"stream", b"list", b"hash", b"hash")


def spec(**settings: Any) -> DelaySpec:
    return DelaySpec.plain("d", QueueConfig(**settings), 1.0, FIXED)


def divided(partitions: int = 2, **settings: Any) -> DelaySpec:
    group = GroupSpec.of("d", partitions, 10.0)
    return DelaySpec.partitioned("d", QueueConfig(**settings), group, 1.0, FIXED)


def owner(*partitions: int) -> Session:
    return Session("me", joined=True, assignment=Assignment("me:1", 5, partitions, 2))


def held(*keys: str, receipt: int = 50_000_000, count: int = 1, **more: Any) -> list[Any]:
    return [
        DelayedMessage("d", key, b"{}", receipt=receipt, receive_count=count, **more)
        for key in keys
    ]


def pushes() -> Iterator[str]:
    entry = DelayEntry
    yield trace("push", push.push_many(spec(), [entry("a", {"n": 1})]), [])
    at = datetime(2026, 1, 1, tzinfo=UTC)
    times = [
        entry("a", b"x", delay=1.5),
        entry("b", "text", delay=timedelta(days=1, microseconds=1)),
        entry("c", b"x", delay_ms=7),
        entry("d", b"x", at=1e9),
        entry("e", b"x", at=at),
        entry("f", b"x", at_ms=8),
        entry("g", b"x", delay=0.0000001),
    ]
    yield trace("push with every kind of time", push.push_many(spec(), times), [])
    spread = [entry("a", b"1"), entry("b", b"2"), entry("c", b"3", partition=1)]
    yield trace("push to partitions", push.push_many(divided(), spread), [])
    yield trace("push to one of many partitions", push.push_many(divided(8), spread[2:]), [])
    many = [entry(f"k{number}", b"x") for number in range(501)]
    yield trace("push many", push.push_many(spec(), many), [2, 3], [1])
    yield trace("push six that are there", push.push_many(spec(), many[:7]), [1, 2, 3, 4, 5, 7])
    yield trace("push many, unknown", push.push_many(spec(), many), [1], UnknownOutcome("lost"))
    yield trace("push many, refused", push.push_many(spec(), many), [], ResponseError("OOM"))
    confirm = Confirm(1, timeout=0.5)
    yield trace("push, confirmed", push.push_many(spec(), many, confirm), ([1], 1), ([], 1))
    yield trace("push, not confirmed", push.push_many(spec(), many, confirm), ([1], 0))
    yield trace("push nothing", push.push_many(spec(), []))
    yield trace(
        "push where a key has another type",
        push.push_many(spec(), many[:1]),
        WRONG_TYPE,
        b"zset",
        b"hash",
        b"hash",
        *KINDS[:-1],
        b"set",
    )
    yield trace(
        "push to partitions where a key has another type",
        push.push_many(divided(), spread),
        WRONG_TYPE,
        b"string",
        b"hash",
        b"hash",
        *KINDS,
        *KINDS,
    )
    for wrong in (
        [entry("", b"")],
        [entry("a" * 513, b"")],
        [entry("a", b"x" * 9)],
        [entry("a", 5)],  # type: ignore[arg-type]
        [entry(5, b"")],  # type: ignore[arg-type]
        [entry("a", b"", delay=-1)],
        [entry("a", b"", delay=1, at=2)],
        [entry("a", b"", at=datetime(2026, 1, 1))],
        [entry("a", b"", partition=1)],
    ):
        yield trace(f"push {wrong}", push.push_many(spec(max_body_bytes=8), wrong))


def keyed() -> Iterator[str]:
    yield trace("cancel", push.cancel(spec(), ["a", "b"], None, False), [1, 2])
    yield trace(
        "cancel in parts", push.cancel(divided(), ["a", "b", "c"], None, True), [1, 2], [1, 1]
    )
    yield trace("cancel in a partition", push.cancel(divided(), ["a"], 1, False), [0, 1])
    yield trace(
        "cancel many",
        push.cancel(spec(), [str(n) for n in range(1001)], None, False),
        [1000, 1000],
        [0, 1],
    )
    yield trace("cancel nothing", push.cancel(spec(), [], None, False))
    times: dict[str, Any] = dict.fromkeys(("delay", "delay_ms", "at", "at_ms"))
    for given, moved in (({"delay": 2.5}, 1), ({"at_ms": 7}, 0), ({}, 1)):
        yield trace(
            f"reschedule {given}",
            push.reschedule(spec(), "a", **{**times, **given}, partition=None),
            moved,
        )
    yield trace(
        "reschedule in a partition", push.reschedule(divided(), "a", **times, partition=1), 1
    )


def times() -> Iterator[str]:
    """Ready times at their limits."""
    latest, longest = 8_589_934_591.0, 3_153_600_000.0
    names = ("delay", "delay_ms", "at", "at_ms")
    for given in (
        {"delay": longest},
        {"delay": longest + 1},
        {"delay": timedelta(seconds=longest)},
        {"delay": timedelta(seconds=longest, microseconds=1)},
        {"delay": True},
        {"delay": "1"},
        {"delay": 0},
        {"delay_ms": 3_153_600_000_000},
        {"delay_ms": 3_153_600_000_001},
        {"delay_ms": 1.5},
        {"at": latest},
        {"at": latest + 1},
        {"at": 0},
        {"at": datetime(1969, 1, 1, tzinfo=UTC)},
        {"at_ms": 8_589_934_591_000},
        {"at_ms": 8_589_934_591_001},
        {"at_ms": -1},
        {"at": 1.0000001},
        {"delay": 1, "delay_ms": 1},
        {"delay_ms": 1, "at": 1},
        {"at": 1, "at_ms": 1},
    ):
        try:
            found: Any = due(**(dict.fromkeys(names) | given))
        except AckqError as error:
            found = f"{type(error).__name__}: {error}"
        yield f"# ready {given}\n= {found}"


def settles() -> Iterator[str]:
    two = held("a", "b")
    yield trace("delete", settle.delete(spec(), two), [2], watched=two)
    yield trace("delete again", settle.delete(spec(), two), watched=two)
    mixed = [*held("a"), *held("b", receipt=60_000_000), *held("c")]
    yield trace("delete of two takes", settle.delete(spec(), mixed), [1, 1, -3], watched=mixed)
    lost = held("a")
    yield trace("delete, unknown", settle.delete(spec(), lost), Lost(AWAY), watched=lost)
    lost = held("a")
    yield trace("delete, not sent", settle.delete(spec(), lost), AWAY, watched=lost)
    parts = [
        *held("a", partition=1, session=b"me:1"),
        *held("b", partition=0, session=b"me:1"),
        *held("c", partition=1, session=b"me:2"),
    ]
    yield trace(
        "delete in partitions of two sessions",
        settle.delete(divided(), parts),
        [2],
        [0, -1],
        watched=parts,
    )
    yield trace(
        "delete in parts",
        settle.delete(spec(), some := held("a", "b", "c")),
        [1, 0, 2],
        [1, -1],
        watched=some,
    )
    some = [*held("a", "b", count=3), *held("c")]
    yield trace("nack", settle.nack(spec(max_receives=3), some, None), [3, [1, 2]], watched=some)
    some = held("a", "b")
    yield trace("nack with a delay", settle.nack(spec(), some, 1.5), [1, 2, []], watched=some)
    yield trace("nack without a delay", settle.nack(spec(), held("a"), 0), [1, []])
    yield trace(
        "nack with an error",
        settle.nack(spec(record_errors="type"), held("a", "b"), 0, error=ValueError("x")),
        [2, []],
    )
    some = held("a", "b")
    yield trace(
        "release", settle.nack(spec(max_receives=2), some, 0, charge=False), [2, []], watched=some
    )
    yield trace("delete what was released", settle.delete(spec(), some), watched=some)
    some = held("a", "b")
    yield trace("reject", settle.reject(spec(), some, "why"), [1, -2], watched=some)
    some = held("a")
    yield trace(
        "reject with an error", settle.reject(spec(), some, "", KeyError("k")), [1], watched=some
    )
    some = held("a", "b")
    yield trace("extend", settle.extend(spec(), some, None), [70_000_000, 1, 2], watched=some)
    yield trace("extend for a time", settle.extend(spec(), held("a"), 2.5), [70_000_000, 1])
    wrong: Any
    for wrong in ("x" * 1025, 5):
        yield trace(f"reject for {wrong!r}"[:20], settle.reject(spec(), held("a"), wrong))
    for name, message in (
        ("of another queue", DelayedMessage("e", "a", b"")),
        ("no message", "a"),
        ("of a partition", DelayedMessage("d", "a", b"", partition=0)),
    ):
        yield trace(f"delete what is {name}", settle.delete(spec(), [message]))  # type: ignore[list-item]
    yield trace("delete in partitions what has none", settle.delete(divided(), held("a")))
    yield trace("nack for too long", settle.nack(spec(), held("a"), 3_153_600_001))
    yield trace("extend for too long", settle.extend(spec(), held("a"), 43_201))
    yield trace("delete nothing", settle.delete(spec(), []))


def taken(
    at: DelaySpec,
    *answers: Any,
    n: int = 5,
    timeout: Any = None,
    lease: Any = None,
    session: Session | None = None,
    title: str = "take",
) -> str:
    """Take after a check for unfinished commits that found nothing."""
    unfinished = UnfinishedCommits("d")
    unfinished._next_check = 50.0
    return trace(title, shown(take.take(at, n, timeout, lease, session, unfinished)), *answers)


def shown(steps: Any) -> Any:
    """Take, and return all fields of the messages, bodies included."""
    found = yield from steps
    return [
        (
            each.queue,
            each.key,
            each.body,
            each.partition,
            each.ready_time,
            each.receipt,
            each.receive_count,
            each.session,
            each.lease_expires_at,
        )
        for each in found
    ]


def takes() -> Iterator[str]:
    random.seed(1)
    ok = [b"ok", 99, 1, b"a", b"{}", b"5.5", 1, 1, b"\xff", b"x", b"6", 3]
    yield taken(spec(), 1.0, ok, title="take")
    yield taken(spec(max_receives=4), 1.0, ok, n=5000, lease=2.5, title="take, with settings")
    yield taken(spec(), 1.0, [b"again"], 1.1, ok, title="take again")
    yield taken(spec(), 1.0, [b"empty", -1], title="take nothing")
    yield taken(
        spec(),
        1.0,
        [b"empty", -1],
        1.0,
        None,
        2.0,
        [b"empty", 700_000],
        2.0,
        None,
        3.0,
        [b"empty", 100_000],
        3.0,
        None,
        3.0,
        [b"empty", 0],
        3.1,
        None,
        4.0,
        [b"empty", -1],
        4.5,
        timeout=3.5,
        title="take, waiting",
    )
    yield taken(
        spec(), 1.0, [b"empty", 5_000_000], 1.0, b"key", 1.5, ok, timeout=0.25, title="take, woken"
    )
    two = [b"ok", 99, 2, b"a", b"{}", b"5.5", 1]
    yield taken(divided(4), 1.0, two, session=owner(1, 3), title="take of partitions")
    yield taken(
        divided(4), 1.0, [b"empty", -1], session=owner(0, 1, 2), title="take nothing of partitions"
    )
    yield taken(
        divided(4),
        1.0,
        1.0,
        None,
        2.0,
        2.0,
        session=owner(),
        timeout=0.05,
        title="take without partitions",
    )
    yield taken(divided(4), 1.0, session=Session("me"), title="take before joining")
    yield taken(
        divided(2),
        1.0,
        [b"stale"],
        [b"ok", 6, 6, -1, 1, [b"0"]],
        1.0,
        [b"ok", 99],
        session=owner(1),
        title="take with an old assignment",
    )
    yield taken(
        divided(2),
        1.0,
        [b"stale"],
        [b"ok", 6, 5, -1],
        1.0,
        None,
        1.0,
        [b"stale"],
        [b"ok", 6, 6, -1, 1, [b"0"]],
        1.0,
        [b"ok", 99],
        session=owner(1),
        timeout=3.0,
        title="take while another consumer assigns the partitions",
    )
    yield taken(
        divided(2),
        1.0,
        [b"empty", -1],
        1.0,
        None,
        2.0,
        [b"empty", -1],
        9.0,
        session=owner(0, 1),
        timeout=2.0,
        title="take, waiting on partitions",
    )
    for name, wrong in (
        ("n", 0),
        ("n", 2**53 + 1),
        ("timeout", -1),
        ("lease", 0),
        ("lease", 43_201),
    ):
        settings: dict[str, Any] = {name: wrong}
        yield taken(spec(), title=f"take {settings}", **settings)
    unfinished = UnfinishedCommits("d")
    yield trace(
        "take after a commit",
        take.take(divided(2), 1, None, None, owner(0), unfinished),
        1.0,
        [b"d:staged:w:1:t:partitions=2:", b"d:staged:w:1:t"],
        [1, 1, 0],
        1.5,
        [1, 0, 0],
        1.6,
        [b"empty", -1],
    )


def admins() -> Iterator[str]:
    yield trace("stats", admin.stats(spec()), [9, 2, 3, 4, 1_500_000])
    yield trace("stats of partitions", admin.stats(divided()), [1, 2, 3, 4, -1])
    counted = [b"since", b"5000000", b"pushed", b"7", b"taken", b"3"]
    yield trace("counters", admin.counters(spec(), 10.0), [9_000_000, [1, 2, *counted]])
    yield trace(
        "counters for a moment", admin.counters(spec(), 0.0001), [9_000_000, [0, 0, *counted[:2]]]
    )
    yield trace(
        "counters of many partitions",
        admin.counters(divided(129), 1.0),
        [9_000_000, [1, 0, *counted], [2, 3, *counted]],
        [9_000_000, [5, 1, *counted]],
    )
    for window in (0, 604_801):
        yield trace(f"counters for {window} s", admin.counters(spec(), window))
    yield trace("purge", admin.purge(spec(), False), 7)
    yield trace("purge of partitions, and the dead", admin.purge(divided(), True), 7)
    full = [
        b"key",
        b"a",
        b"body",
        b"{}",
        b"reason",
        b"why",
        b"count",
        b"3",
        b"time",
        b"5000000",
        b"errors",
        b'1:5000000:{"type":"E","text":"t","place":"p"}',
    ]
    odd = [b"key", b"\xff", b"reason", b"\xff", b"count", b"x", b"time", b"-1"]
    yield trace(
        "dead letters",
        admin.dead_letters(spec(), 100, None, None),
        [[b"1-0", full]],
        [[b"2-0", odd]],
    )
    yield trace(
        "dead letters of partitions",
        admin.dead_letters(divided(), 3, None, None),
        [[b"1-0", full]],
        [],
        [[b"1-0", full]],
        [[b"2-0", odd]],
    )
    yield trace(
        "dead letters after one", admin.dead_letters(divided(), 1, "1-0", 1), [[b"2-0", odd]]
    )
    yield trace("dead letters of one partition", admin.dead_letters(divided(), 1, None, 1), [])
    yield trace("no dead letters", admin.dead_letters(spec(), 0, None, None))
    yield trace("dead letters after no entry", admin.dead_letters(spec(), 1, "x", None))
    entries = [f"{number}-0" for number in range(51)]
    yield trace("drop", admin.drop_dead_letters(spec(), entries, None), 50, 1)
    yield trace("drop in a partition", admin.drop_dead_letters(divided(), ["1-0"], 1), 0)
    yield trace("drop no entry", admin.drop_dead_letters(spec(), ["x"], None))
    yield trace("drop in no partition", admin.drop_dead_letters(divided(), ["1-0"], None))
    yield trace("drop in a partition that is not", admin.drop_dead_letters(divided(), ["1-0"], 2))
    yield trace("redrive", admin.redrive(spec(), None, (), None), 3, [1, 2, b"2-0"], [1, 1, b"3-0"])
    yield trace(
        "redrive some", admin.redrive(spec(), 2, (), None), 5, [1, 2, b"2-0"], [1, 2, b"4-0"]
    )
    yield trace(
        "redrive many",
        admin.redrive(spec(), None, (), None),
        2000,
        [1000, 1000, b"1-0"],
        [5, 0, b""],
    )
    yield trace(
        "redrive of partitions",
        admin.redrive(divided(), 3, (), None),
        2,
        [2, 2, b"2-0"],
        4,
        [1, 1, b"3-0"],
    )
    yield trace("redrive of one partition", admin.redrive(divided(), None, (), 1), 0)
    entries = [f"{number}-0" for number in range(1001)]
    yield trace(
        "redrive entries", admin.redrive(spec(), None, entries, None), [900, 1000, b""], [1, 1, b""]
    )
    yield trace(
        "redrive entries in parts",
        admin.redrive(divided(), None, entries[:3], 1),
        [1, 2, b""],
        [1, 1, b""],
    )
    yield trace("redrive no entry", admin.redrive(spec(), None, ("x",), None))
    yield trace("redrive too many", admin.redrive(spec(), 2**53 + 1, (), None))
    yield trace("redrive none", admin.redrive(spec(), 0, (), None), 5)


def peeks() -> Iterator[str]:
    found = [b"", b"", b"a", b'{"n":1}', 2, b"5.5", b"\xff", b"x", 0, b"6"]
    for state in ("ready", "in_flight", "delayed"):
        yield trace(
            f"peek {state}",
            peek.page(spec(), 10, state, peek.FIRST),
            found,
            [b'1:5000000:{"type":"E"}'],
        )
    more = [b"6", b"\xff", *found[2:]]
    yield trace("peek a page", peek.page(divided(), 2, "ready", (1, 5.25, "k")), more, [None])
    yield trace("peek the last page", peek.page(divided(), 2, "ready", (1, None, "")), [b"", b""])
    yield trace(
        "peek several pages",
        peek.peek(divided(), 3, "ready"),
        more,
        [None],
        [b"", b"", b"c", b"x", 0, b"7"],
    )
    yield trace("peek all partitions", peek.peek(divided(), 3, "delayed"), [b"", b""], [b"", b""])
    yield trace("peek nothing", peek.peek(spec(), 0, "ready"))
    cursor: Any
    for cursor in (None, (0, 1), (1, None, ""), (0, 5, ""), (0, float("nan"), ""), (0, None, 5)):
        yield trace(f"peek from {cursor}", peek.page(spec(), 1, "ready", cursor))
    yield trace("peek dead", peek.page(spec(), 1, "dead", peek.FIRST))  # type: ignore[arg-type]
    for wanted in (0, 1001):
        yield trace(f"peek {wanted}", peek.page(spec(), wanted, "ready", peek.FIRST))
    yield trace("peek too many", peek.peek(spec(), 2**53 + 1, "ready"))


def rows() -> Iterator[str]:
    staging = StagingKeys.of_topic("d")
    name = b"d:staged:w:1:t:partitions=%d:"
    yield trace("move rows", staged_rows.move(spec(), staging, b"d:staged:w:1:t"), [5, 1, 0])
    yield trace("move the last rows", staged_rows.move(divided(), staging, name % 2), [5, 0, 0])
    yield trace("move rows for partitions", staged_rows.move(spec(), staging, name % 2), [5, 0, 0])
    yield trace(
        "move rows for a plain queue", staged_rows.move(divided(), staging, name % 0), [5, 0, 0]
    )
    yield trace(
        "move rows of a topic", staged_rows.move(spec(), staging, b"d:staged:w:1:t:keep=5:")
    )
    for at, key, due_at in ((spec(), "a", 5), (divided(), "b", 6), (divided(), "\udcff", 0)):
        yield f"# row {key!r}\n= {staged_rows.row(at, key, due_at, b'body')!r}"
    for at in (spec(), divided(3)):
        settings = staged_rows.settings_suffix(at)
        yield f"# settings of {len(at.partitions)} partitions\n= {settings!r}"
    for partitions in (None, 3):
        made = staged_rows.spec_of("e", partitions, FIXED)
        yield f"# staged for {partitions}\n= {made.name} {len(made.partitions)} {made.fence}"


PARTS = (pushes, keyed, times, settles, takes, admins, peeks, rows)


def traces() -> list[str]:
    """Return all traces."""
    return [each for part in PARTS for each in part()]


def test_the_requests_of_a_delay_queue() -> None:
    compare(FILE, traces())


if __name__ == "__main__":
    write(FILE, traces())
