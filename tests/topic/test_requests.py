"""Every request that a topic sends, word by word, and what it makes of each reply.

`requests.txt` has the traces. If one changes on purpose, write them again with
``python -m tests.topic.test_requests``, and look at the difference: it is a change of what
releases that share a topic send to one another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redis.exceptions import ConnectionError, ResponseError

from ackq.config import Confirm
from ackq.errors import UnknownOutcome
from ackq.staging.keys import StagingKeys
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import consume, place, publish, settle, staged_rows
from ackq.topic.keys import TopicKeys
from ackq.topic.messages import Batch
from ackq.topic.spec import Guess, TopicConfig, TopicSpec
from tests.outside import FIXED
from tests.traces import compare, trace, write

FILE = Path(__file__).with_name("requests.txt")
WRONG_TYPE = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
AWAY = ConnectionError("gone")


def spec(*guess: Any, **settings: Any) -> TopicSpec:
    made = TopicSpec(
        "t", TopicKeys.of("t"), TopicConfig(**settings), publishing=Guess(*guess), outside=FIXED
    )
    made.reading["c"] = Guess(*guess)
    return made


def batch(first: int, last: int, consumer: str = "c", receipt: bytes = b"r") -> Batch:
    return Batch("t", consumer, first, last, [b"x"] * (last - first + 1), receipt, 5.0)


def publishes() -> Iterator[str]:
    plain: tuple[Any, ...] = (None, 60.0, None)
    at = spec(7, 2, True)
    yield trace("publish", publish.publish(at, {"id": "a"}, *plain), [b"ok", 9, 1])
    yield f"  then {at.publishing}"
    kept = spec(7, 2, True, 3, max_messages=4, max_age=1.5)
    yield trace("publish, keeping some", publish.publish(kept, b"x", *plain), [b"ok", 8, 4])
    yield f"  then {kept.publishing}"
    kept = spec(700, 0, True, 3, max_messages=4)
    yield trace("publish, trimming many", publish.publish(kept, b"x", *plain), [b"ok", 701, 14])
    yield trace("publish once", publish.publish(spec(), b"x", "m", 0.0005, None), [b"ok", 1, 1])
    again = spec(7, 2, True)
    yield trace("publish again", publish.publish(again, b"x", "m", 60.0, None), [b"known", 3])
    yield f"  then {again.publishing}"
    at = spec(7, 0, True)
    yield trace(
        "publish where others were first",
        publish.publish(at, b"x", *plain),
        [b"moved", 9, 1],
        [b"moved", 12, 2],
        None,
        [b"moved", 12, 2],
        None,
        [b"ok", 13, 2],
    )
    yield f"  then {at.publishing}"
    yield trace(
        "publish where others are always first",
        publish.publish(spec(publish_attempts=2), b"x", *plain),
        [b"moved", 9, 1],
        [b"moved", 12, 2],
    )
    yield trace("publish beyond the newest", publish.publish(spec(), b"x", *plain), [b"taken"])
    yield trace("publish, unknown", publish.publish(spec(), b"x", *plain), UnknownOutcome("lost"))
    yield trace("publish, refused", publish.publish(spec(), b"x", *plain), ResponseError("OOM"))
    yield trace(
        "publish, confirmed",
        publish.publish(spec(), b"x", None, 60.0, Confirm(1)),
        ([b"ok", 1, 1], 1),
    )
    yield trace(
        "publish, not confirmed",
        publish.publish(spec(), b"x", None, 60.0, Confirm(2)),
        ([b"ok", 1, 1], 1),
    )
    yield trace(
        "publish where a key has another type",
        publish.publish(spec(), b"x", *plain),
        WRONG_TYPE,
        b"string",
        b"none",
        b"list",
    )
    yield trace(
        "publish where a key has another value",
        publish.publish(spec(), b"x", *plain),
        ResponseError("ACKQ_VALUE nextIndex"),
    )
    many = [b"%d" % number for number in range(1001)]
    yield trace(
        "publish many",
        publish.publish_many(spec(5, 0, True), many, None),
        [b"ok", 6, 1],
        [b"ok", 1010, 1],
    )
    yield trace(
        "publish many, partly", publish.publish_many(spec(), many, None), [b"ok", 1, 1], AWAY
    )
    yield trace(
        "publish many, unknown",
        publish.publish_many(spec(), many, None),
        [b"ok", 1, 1],
        UnknownOutcome("lost"),
    )
    yield trace("publish none", publish.publish_many(spec(), [], None))
    wrong: Any
    for wrong in ("", "x" * 513, 5):
        yield trace(
            f"publish once as {wrong!r}"[:40], publish.publish(spec(), b"", wrong, 1.0, None)
        )
    message: Any
    for message in ("text", 5, {"a": object()}, b"123456"):
        yield trace(
            f"publish a {type(message).__name__}",
            publish.publish(spec(max_body_bytes=5), message, *plain),
        )
    at = spec(0, 0, False, 3)
    yield trace("trim", publish.trim(at, 5), [2000, 4, 1], [2000, 1004, 1000], [2000, 1996, 992])
    yield f"  then {at.publishing}"
    yield trace("trim nothing", publish.trim(spec(), 5), [5, 1, 0])
    yield trace("trim to less than nothing", publish.trim(spec(), -1))


def settles() -> Iterator[str]:
    def shown(batches: Any) -> str:
        return "\n".join(
            f"  {each} lost={each.lease_lost} until={each.lease_expires_at}" for each in batches
        )

    some = [
        batch(1, 3, receipt=b"1"),
        batch(4, 5, "d", b"2"),
        batch(6, 6, receipt=b"3"),
        batch(7, 8, receipt=b""),
    ]
    yield trace("commit", settle.commit(spec(), some), [1, 2], [1])
    yield shown(some)
    yield trace("commit many", settle.commit(spec(), [batch(1, 1)] * 1001), [1000], [1])
    seven = [batch(at, at + 1, receipt=b"%d" % at) for at in range(1, 8)]
    yield trace("commit of what was lost", settle.commit(spec(), seven), [1, 1, 2, 3, 4, 5, 7])
    yield trace("extend", settle.extend(spec(), some[:3], None), [9_000_000, 1, 1], [8_000_000, 1])
    yield shown(some)
    fresh = [batch(1, 3)]
    yield trace("extend for a time", settle.extend(spec(), fresh, 2.5), [9_500_000, 1])
    yield shown(fresh)
    yield trace("release", settle.release(spec(), fresh), [7_000_000, 1])
    yield trace("release what was lost", settle.release(spec(), fresh), [7_000_000, 0, 1])
    for wrong in ("x", Batch("other", "c", 1, 1)):
        yield trace(f"commit {wrong!r}", settle.commit(spec(), [wrong]))  # type: ignore[list-item]
    yield trace("extend for nothing", settle.extend(spec(), fresh, 0))


def places() -> Iterator[str]:
    yield trace(
        "subscribe", place.subscribe(spec(), "c", "oldest"), [b"5", None], [b"9", b"3"], 2, [b"ok"]
    )
    yield trace("subscribe again", place.subscribe(spec(), "c", "oldest"), [b"5", b"4"])
    yield trace(
        "subscribe at the end", place.subscribe(spec(), "c", "end"), [b"5", None], [b"other"]
    )
    yield trace("seek", place.seek(spec(), "c", 7), [b"ok"])
    yield trace(
        "seek to the oldest of nothing", place.seek(spec(), "c", "oldest"), [None, None], [b"ok"]
    )
    yield trace(
        "seek to the oldest of many",
        place.seek(spec(), "c", "oldest"),
        [b"2500", b"1"],
        0,
        0,
        3,
        [b"ok"],
    )
    yield trace("seek of nobody", place.seek(spec(), "c", 7), [b"other"])
    yield trace("seek beyond the newest", place.seek(spec(), "c", 7), [b"beyond", 5])
    yield trace("unsubscribe", place.unsubscribe(spec(), "c"), [b"5", b"3"], 3)
    yield trace("unsubscribe nobody", place.unsubscribe(spec(), "c"), [b"5", None], 0)
    yield trace("position", place.position(spec(), "c"), [b"5", b"3"])
    yield trace("lag", place.lag(spec(), "c"), [b"5", b"3"])
    yield trace("lag after a reset", place.lag(spec(), "c"), [b"5", b"9"])
    yield trace("lag of nobody", place.lag(spec(), "c"), [b"5", None])
    yield trace("newest", place.newest(spec()), [b"5", None])
    yield trace("oldest", place.oldest(spec()), [b"5", b"2"], 2)
    yield trace("oldest of none", place.oldest(spec()), [b"5", b"2"], 0)


def read(
    title: str,
    at: TopicSpec,
    *answers: Any,
    n: int = 3,
    timeout: Any = None,
    lease: Any = None,
    committed: Any = (),
) -> Iterator[str]:
    """Consume after a check for unfinished commits that found nothing."""
    unfinished = UnfinishedCommits("t")
    unfinished._next_check = 500.0

    def shown() -> Any:
        found = yield from consume.consume(at, "c", n, timeout, lease, committed, unfinished)
        return (
            found,
            found.first,
            found.last,
            found.missing,
            found.receipt,
            found.lease_expires_at,
            [(each.index, each.body) for each in found],
        )

    yield trace(title, shown(), *answers)
    yield f"  then {at.reading['c']}"
    for each in committed:
        yield f"  {each} lost={each.lease_lost}"


def reads() -> Iterator[str]:
    ok = [b"ok", [], 9, 4, 5, 7_500_000, b"a", b"b"]
    yield from read("consume", spec(3, 2, True), 1.0, ok)
    yield from read("consume, with settings", spec(3, 2, True), 1.0, ok, n=5000, lease=2.5)
    yield from read("consume at most once", spec(delivery="at_most_once"), 1.0, ok)
    yield from read("consume nothing", spec(), 1.0, [b"empty", [], 9, -1])
    done = [batch(1, 2), batch(3, 3, receipt=b"s"), batch(4, 5, receipt=b"")]
    yield from read("consume and commit", spec(), 1.0, [b"ok", [2], *ok[2:]], committed=done)
    others = [batch(1, 2, "d"), batch(3, 3)]
    yield from read("consume and commit of another", spec(), [0, 1], 1.0, ok, committed=others)
    many = [batch(at, at) for at in range(1, 1002)]
    yield from list(read("consume and commit many", spec(), [1], 1.0, ok, committed=many))[:2]
    yield from read(
        "consume, unknown", spec(), 1.0, UnknownOutcome("lost"), [1], committed=[batch(1, 2)]
    )
    yield from read(
        "consume, unknown twice", spec(), 1.0, UnknownOutcome("lost"), AWAY, committed=[batch(1, 2)]
    )
    yield from read(
        "consume where others were first",
        spec(3, 0, True),
        1.0,
        [b"moved", [], 9, 6],
        [b"moved", [], 9, 8],
        None,
        [b"moved", [], 9, 9],
        None,
        ok,
    )
    yield from read("consume unsubscribed", spec(), 1.0, [b"unsubscribed", [], 9])
    yield from read("consume ahead", spec(), 1.0, [b"ahead", [], 5, 7])
    missing = [b"missing", [], 9, 4, 7, 5]
    yield from read("consume what is gone", spec(3, 0, True), 1.0, missing, 2)
    yield from read(
        "consume what is gone, reporting",
        spec(3, 0, True, on_trimmed="report"),
        1.0,
        missing,
        2,
        [b"ok", [], 9, 4, 8, 7_500_000, b"a", b"b", b"c"],
    )
    yield from read(
        "consume where nothing is gone", spec(3, 0, True), 1.0, [b"missing", [], 9, 4, 7, 1], 1, ok
    )
    yield from read(
        "consume where all is gone, reporting",
        spec(3, 0, True, on_trimmed="report"),
        1.0,
        [b"missing", [], 9, 4, 7, 99],
        [b"empty", [], 9, -1],
    )
    empty = [b"empty", [], 9, -1]
    yield from read(
        "consume, waiting",
        spec(),
        1.0,
        empty,
        1.0,
        None,
        2.0,
        empty,
        2.0,
        None,
        2.5,
        ok,
        timeout=1.25,
    )
    yield from read(
        "consume, woken",
        spec(),
        1.0,
        [b"empty", [], 9, 500_000],
        1.0,
        [b"t"],
        1.2,
        [b"empty", [], 9, -1],
        1.2,
        None,
        3.2,
        empty,
        3.2,
        timeout=2.0,
    )
    yield from read(
        "consume, woken again",
        spec(),
        1.0,
        empty,
        1.0,
        [b"t"],
        1.2,
        [b"empty", [], 10, -1],
        1.2,
        [b"t"],
        1.4,
        ok,
        timeout=2.0,
    )
    for name, wrong in (("n", 0), ("n", 2**31 + 1), ("timeout", -1), ("lease", 0)):
        settings: dict[str, Any] = {name: wrong}
        yield from read(f"consume {settings}", spec(), **settings)
    unfinished = UnfinishedCommits("t")
    yield trace(
        "consume after a commit",
        consume.consume(spec(), "c", 1, None, None, (), unfinished),
        1.0,
        [b"t:staged:w:1:x:keep=0,0:"],
        [b"moved", 5],
        None,
        [b"moved", 6],
        None,
        [b"moved", 7],
        None,
        [b"empty", [], 9, -1],
    )


def rows() -> Iterator[str]:
    staging = StagingKeys.of_topic("t")
    name = b"t:staged:w:1:x:keep=%d,%d:"
    at = spec(5, 2, True)
    yield trace("move rows", staged_rows.move(at, staging, b"t:staged:w:1:x"), [b"ok", 9, 3])
    yield f"  then {at.publishing}"
    yield trace(
        "move rows, keeping some",
        staged_rows.move(spec(), staging, name % (1500, 4)),
        [b"ok", 9, 0],
        [9, 6, 3],
    )
    yield trace(
        "move some rows, keeping some",
        staged_rows.move(spec(), staging, name % (0, 4)),
        [b"ok", 9, 1],
    )
    yield trace(
        "move rows where others were first",
        staged_rows.move(spec(publish_attempts=2), staging, name % (0, 0)),
        [b"moved", 5],
        None,
        [b"moved", 6],
        None,
    )
    yield trace(
        "move rows, once",
        staged_rows.move(spec(), staging, name % (0, 0), attempts=1),
        [b"moved", 5],
        None,
    )
    yield trace(
        "move rows beyond the newest", staged_rows.move(spec(), staging, name % (0, 0)), [b"taken"]
    )
    yield trace(
        "move rows of a delay queue",
        staged_rows.move(spec(), staging, b"t:staged:w:1:x:partitions=2:"),
    )
    for settings in ({}, {"max_age": 1.5, "max_messages": 7}, {"max_age": 0.001}):
        yield f"# settings {settings}\n= {staged_rows.settings_suffix(TopicConfig(**settings))}"  # type: ignore[arg-type]


PARTS = (publishes, settles, places, reads, rows)


def traces() -> list[str]:
    """Return all traces; what a line of its own shows belongs to the one before."""
    found: list[str] = []
    state = random.getstate()
    random.seed(1)
    for part in PARTS:
        for each in part():
            if each.startswith("# "):
                found.append(each)
            elif each:
                found[-1] += f"\n{each}"
    random.setstate(state)
    return found


def test_the_requests_of_a_topic() -> None:
    compare(FILE, traces())


if __name__ == "__main__":
    write(FILE, traces())
