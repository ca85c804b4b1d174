"""Every request that a delay queue sends, word by word, and what it makes of each reply.

The requests and replies are in `requests.txt`, as `tests.traces` explains. A difference is a change
of what releases that share a queue send to one another.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from redis.exceptions import ConnectionError, ResponseError

from ackq.config import Confirm, QueueConfig
from ackq.delay import admin, claims, peek, places, push, settle, staged_rows, take
from ackq.delay.messages import DelayedMessage, DelayEntry, DelaySpec, due
from ackq.membership.operations import Assignment, GroupSpec, Session
from ackq.staging.keys import StagingKeys
from ackq.staging.recovery import UnfinishedCommits
from tests.outside import FIXED
from tests.traces import Traces, compare

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


def pushes() -> Traces:
    entry = DelayEntry
    yield "push", push.push_many(spec(), [entry("a", {"n": 1})])
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
    yield "push with every kind of time", push.push_many(spec(), times)
    spread = [entry("a", b"1"), entry("b", b"2"), entry("c", b"3", partition=1)]
    yield "push to partitions", push.push_many(divided(), spread)
    yield "push to one of many partitions", push.push_many(divided(8), spread[2:])
    many = [entry(f"k{number}", b"x") for number in range(501)]
    yield "push many", push.push_many(spec(), many)
    yield "push six that are there", push.push_many(spec(), many[:7])
    yield "push many, unknown", push.push_many(spec(), many)
    yield "push many, refused", push.push_many(spec(), many)
    confirm = Confirm(1, timeout=0.5)
    yield "push, confirmed", push.push_many(spec(), many, confirm)
    yield "push, not confirmed", push.push_many(spec(), many, confirm)
    yield "push nothing", push.push_many(spec(), [])
    yield "push where a key has another type", push.push_many(spec(), many[:1])
    yield "push to partitions where a key has another type", push.push_many(divided(), spread)
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
        yield f"push {wrong}", push.push_many(spec(max_body_bytes=8), wrong)


def keyed() -> Traces:
    yield "cancel", push.cancel(spec(), ["a", "b"], None, False)
    yield "cancel in parts", push.cancel(divided(), ["a", "b", "c"], None, True)
    yield "cancel in a partition", push.cancel(divided(), ["a"], 1, False)
    yield "cancel many", push.cancel(spec(), [str(n) for n in range(1001)], None, False)
    yield "cancel nothing", push.cancel(spec(), [], None, False)
    times: dict[str, Any] = dict.fromkeys(("delay", "delay_ms", "at", "at_ms"))
    for given in ({"delay": 2.5}, {"at_ms": 7}, {}):
        yield (
            f"reschedule {given}",
            push.reschedule(spec(), "a", **{**times, **given}, partition=None),
        )
    yield "reschedule in a partition", push.reschedule(divided(), "a", **times, partition=1)


def times() -> Traces:
    """Ready times at their limits."""
    latest, longest = 8_589_934_591.0, 3_153_600_000.0
    names = ("delay", "delay_ms", "at", "at_ms")
    for given in (
        {"delay": -1},
        {"delay_ms": -1},
        {"at": -1},
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
        yield f"ready {given}", partial(due, **(dict.fromkeys(names) | given))


def settles() -> Traces:
    two = held("a", "b")
    yield "delete", settle.delete(spec(), two), two
    yield "delete again", settle.delete(spec(), two), two
    mixed = [*held("a"), *held("b", receipt=60_000_000), *held("c")]
    yield "delete of two takes", settle.delete(spec(), mixed), mixed
    lost = held("a")
    yield "delete, unknown", settle.delete(spec(), lost), lost
    lost = held("a")
    yield "delete, not sent", settle.delete(spec(), lost), lost
    parts = [
        *held("a", partition=1, session=b"me:1"),
        *held("b", partition=0, session=b"me:1"),
        *held("c", partition=1, session=b"me:2"),
    ]
    yield "delete in partitions of two sessions", settle.delete(divided(), parts), parts
    yield "delete in parts", settle.delete(spec(), some := held("a", "b", "c")), some
    some = [*held("a", "b", count=3), *held("c")]
    yield "nack", settle.nack(spec(max_receives=3), some, None), some
    some = held("a", "b")
    yield "nack with a delay", settle.nack(spec(), some, 1.5), some
    yield "nack without a delay", settle.nack(spec(), held("a"), 0)
    yield (
        "nack with an error",
        settle.nack(spec(record_errors="type"), held("a", "b"), 0, error=ValueError("x")),
    )
    some = held("a", "b")
    yield "release", settle.nack(spec(max_receives=2), some, 0, charge=False), some
    yield "delete what was released", settle.delete(spec(), some), some
    some = held("a", "b")
    yield "reject", settle.reject(spec(), some, "why"), some
    some = held("a")
    yield "reject with an error", settle.reject(spec(), some, "", KeyError("k")), some
    some = held("a", "b")
    yield "extend", settle.extend(spec(), some, None), some
    yield "extend for a time", settle.extend(spec(), held("a"), 2.5)
    wrong: Any
    for wrong in ("x" * 1025, 5):
        yield f"reject for {wrong!r}"[:20], settle.reject(spec(), held("a"), wrong)
    for name, message in (
        ("of another queue", DelayedMessage("e", "a", b"")),
        ("no message", "a"),
        ("of a partition", DelayedMessage("d", "a", b"", partition=0)),
    ):
        yield f"delete what is {name}", settle.delete(spec(), [message])  # type: ignore[list-item]
    yield "delete in partitions what has none", settle.delete(divided(), held("a"))
    yield "nack for the longest time", settle.nack(spec(), held("a"), 3_153_600_000)
    yield "nack for too long", settle.nack(spec(), held("a"), 3_153_600_001)
    yield "extend for too long", settle.extend(spec(), held("a"), 43_201)
    yield "delete nothing", settle.delete(spec(), [])


def taken(
    title: str,
    at: DelaySpec,
    n: int = 5,
    timeout: Any = None,
    lease: Any = None,
    session: Session | None = None,
) -> tuple[str, Any]:
    """Take after a check for unfinished commits that found nothing."""
    unfinished = UnfinishedCommits("d")
    unfinished._next_check = 50.0
    return title, shown(take.take(at, n, timeout, lease, session, unfinished))


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


def takes() -> Traces:
    yield taken("take", spec())
    yield taken("take, with settings", spec(max_receives=4), n=5000, lease=2.5)
    yield taken("take again", spec())
    yield taken("take nothing", spec())
    yield taken("take, waiting", spec(), timeout=3.5)
    yield taken("take, woken", spec(), timeout=0.25)
    yield taken("take of partitions", divided(4), session=owner(1, 3))
    yield taken("take nothing of partitions", divided(4), session=owner(0, 1, 2))
    yield taken("take without partitions", divided(4), session=owner(), timeout=0.05)
    yield taken("take before joining", divided(4), session=Session("me"))
    yield taken("take with an old assignment", divided(2), session=owner(1))
    yield taken(
        "take while another consumer assigns the partitions",
        divided(2),
        session=owner(1),
        timeout=3.0,
    )
    yield taken("take, waiting on partitions", divided(2), session=owner(0, 1), timeout=2.0)
    for name, wrong in (
        ("n", 0),
        ("n", 2**53 + 1),
        ("timeout", -1),
        ("lease", 0),
        ("lease", 43_201),
    ):
        settings: dict[str, Any] = {name: wrong}
        yield taken(f"take {settings}", spec(), **settings)
    unfinished = UnfinishedCommits("d")
    yield "take after a commit", take.take(divided(2), 1, None, None, owner(0), unfinished)


def admins() -> Traces:
    yield "stats", admin.stats(spec())
    yield "stats of partitions", admin.stats(divided())
    yield "counters", admin.counters(spec(), 10.0)
    yield "counters for a moment", admin.counters(spec(), 0.0001)
    yield "counters of many partitions", admin.counters(divided(129), 1.0)
    for window in (0, 604_801):
        yield f"counters for {window} s", admin.counters(spec(), window)
    yield "purge", admin.purge(spec(), False)
    yield "purge of partitions, and the dead", admin.purge(divided(), True)
    yield "dead letters", admin.dead_letters(spec(), 100, None, None)
    yield "dead letters of partitions", admin.dead_letters(divided(), 3, None, None)
    yield "dead letters after one", admin.dead_letters(divided(), 1, "1-0", 1)
    yield "dead letters of one partition", admin.dead_letters(divided(), 1, None, 1)
    yield "dead letters with odd counts", admin.dead_letters(spec(), 5, None, None)
    for partitions, partition in ((1, None), (2, None), (2, 2)):
        title = f"dead letters after one of {partitions} partitions, in {partition}"
        yield title, admin.dead_letters(divided(partitions), 5, "7-0", partition)
    number: Any
    for number in (-1, 2**53 + 1, True):
        yield f"{number} dead letters", admin.dead_letters(spec(), number, None, None)
    yield "no dead letters", admin.dead_letters(spec(), 0, None, None)
    yield "dead letters after no entry", admin.dead_letters(spec(), 1, "x", None)
    entries = [f"{number}-0" for number in range(51)]
    yield "drop", admin.drop_dead_letters(spec(), entries, None)
    yield "drop in a partition", admin.drop_dead_letters(divided(), ["1-0"], 1)
    yield "drop no entry", admin.drop_dead_letters(spec(), ["x"], None)
    yield "drop in no partition", admin.drop_dead_letters(divided(), ["1-0"], None)
    yield "drop in a partition that is not", admin.drop_dead_letters(divided(), ["1-0"], 2)
    yield "redrive", admin.redrive(spec(), None, (), None)
    yield "redrive some", admin.redrive(spec(), 2, (), None)
    yield "redrive many", admin.redrive(spec(), None, (), None)
    yield "redrive of partitions", admin.redrive(divided(), 3, (), None)
    yield "redrive of one partition", admin.redrive(divided(), None, (), 1)
    entries = [f"{number}-0" for number in range(1001)]
    yield "redrive entries", admin.redrive(spec(), None, entries, None)
    yield "redrive entries in parts", admin.redrive(divided(), None, entries[:3], 1)
    yield "redrive no entry", admin.redrive(spec(), None, ("x",), None)
    yield "redrive too many", admin.redrive(spec(), 2**53 + 1, (), None)
    yield "redrive none", admin.redrive(spec(), 0, (), None)


def claimed() -> Traces:
    """A claim that one partition is returning has no end."""
    for ends in ((0, 9), (9, 0), (0, 0), (9, 7)):
        yield f"claims that end at {ends}", claims.held(divided())


def group(epoch: int = 4, claiming: int = 0) -> claims.Group:
    made = claims.Group("d", spec().partitions[0], "g", FIXED, 60.0)
    made.epoch, made.claiming = epoch, claiming
    return made


def batches() -> Traces:
    begun = group(epoch=0)
    yield "begin where a release was interrupted", claims.begin(begun)
    yield f"  epoch {begun.epoch}"
    taken = group()
    yield "claim, in two calls", claims.claim(taken, 1, 10, 99, None)
    yield f"  claiming {taken.claiming}"
    yield "claim a used number, then a later one", claims.claim(group(), 1, 10, None, None)
    yield "claim a used batch", claims.claim(group(), 1, 10, None, 5)
    yield "claim nothing", claims.claim(group(claiming=3), 1, 10, None, None)
    yield "claim nothing as a batch", claims.claim(group(), 1, 10, None, 3)
    yield "claim, fenced", claims.claim(group(), 1, 10, None, 3)
    yield "claim before begin", claims.claim(group(epoch=0), 1, 10, None, 3)
    yield "ack claims", claims.ack(group(), 3, 0)
    yield "ack without claims", claims.ack(group(), 3, 0)
    yield "beat", claims.beat(group())
    yield "beat without claims", claims.beat(group())
    yield "readable", claims.readable(group(), 1, 4)
    yield "read", claims.read(group(), 2, 3, 2)
    yield "read what is gone", claims.read(group(), 2, 3, 2)
    yield "read nothing", claims.read(group(), 2, 3, 0)
    given = group()
    yield "release claims", claims.release(given)
    yield f"  epoch {given.epoch}, claiming {given.claiming}"
    yield "release claims, fenced", claims.release(group())


def peeks() -> Traces:
    found = [b"", b"", b"a", b'{"n":1}', 2, b"5.5", b"\xff", b"x", 0, b"6"]
    for state in ("ready", "in_flight", "delayed"):
        yield f"peek {state}", peek.page(spec(), 10, state, peek.FIRST)
    [b"6", b"\xff", *found[2:]]
    yield "peek a page", peek.page(divided(), 2, "ready", (1, 5.25, "k"))
    yield "peek the last page", peek.page(divided(), 2, "ready", (1, None, ""))
    yield "peek several pages", peek.peek(divided(), 3, "ready")
    yield "peek all partitions", peek.peek(divided(), 3, "delayed")
    yield "peek nothing", peek.peek(spec(), 0, "ready")
    cursor: Any
    for cursor in (None, (0, 1), (1, None, ""), (0, 5, ""), (0, float("nan"), ""), (0, None, 5)):
        yield f"peek from {cursor}", peek.page(spec(), 1, "ready", cursor)
    yield "find a delayed message", places.find(spec(), "ab", 50, None)
    yield "find a leased message", places.find(divided(), "a\0", 50, 1)
    yield "find a message that moves", places.find(spec(), "a", 50, None)
    yield "find a dead letter", places.find_all(spec(), "a", 3, None)
    yield "search", places.search(spec(), {"n": 1}, 2, 50)
    yield "peek dead", peek.page(spec(), 1, "dead", peek.FIRST)  # type: ignore[arg-type]
    for wanted in (0, 1001):
        yield f"peek {wanted}", peek.page(spec(), wanted, "ready", peek.FIRST)
    yield "peek too many", peek.peek(spec(), 2**53 + 1, "ready")


def rows() -> Traces:
    staging = StagingKeys.of_topic("d")
    name = b"d:staged:w:1:t:partitions=%d:"
    yield "move rows", staged_rows.move(spec(), staging, b"d:staged:w:1:t")
    yield "move the last rows", staged_rows.move(divided(), staging, name % 2)
    yield "move rows for partitions", staged_rows.move(spec(), staging, name % 2)
    yield "move rows for a plain queue", staged_rows.move(divided(), staging, name % 0)
    yield "move rows of a topic", staged_rows.move(spec(), staging, b"d:staged:w:1:t:keep=5:")
    for at, key, due_at in ((spec(), "a", 5), (divided(), "b", 6), (divided(), "\udcff", 0)):
        yield f"row {key!r}", partial(staged_rows.row, at, key, due_at, b"body")
    for at in (spec(), divided(3)):
        settings = partial(staged_rows.settings_suffix, at)
        yield f"settings of {len(at.partitions)} partitions", settings
    for partitions in (None, 3):
        made = staged_rows.spec_of("e", partitions, FIXED)
        yield f"staged for {partitions}", (made.name, len(made.partitions), made.fence)


PARTS = (pushes, keyed, times, settles, takes, admins, claimed, batches, peeks, rows)


def test_the_requests_of_a_delay_queue() -> None:
    compare(FILE, PARTS)
