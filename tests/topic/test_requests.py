"""Every request that a topic sends, word by word, and what it makes of each reply.

The requests and replies are in `requests.txt`, as `tests.traces` explains. A difference is a change
of what releases that share a topic send to one another.
"""

from itertools import islice
from pathlib import Path
from typing import Any

from redis.exceptions import ConnectionError, ResponseError

from ackq.config import Confirm
from ackq.staging.keys import StagingKeys
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import consume, place, publish, settle, staged_rows
from ackq.topic.keys import TopicKeys
from ackq.topic.messages import Batch
from ackq.topic.spec import Guess, TopicConfig, TopicSpec
from tests.outside import FIXED
from tests.traces import Traces, compare

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


def publishes() -> Traces:
    plain: tuple[Any, ...] = (None, 60.0, None)
    at = spec(7, 2, True)
    yield "publish", publish.publish(at, {"id": "a"}, *plain)
    yield f"  then {at.publishing}"
    kept = spec(7, 2, True, 3, max_messages=4, max_age=1.5)
    yield "publish, keeping some", publish.publish(kept, b"x", *plain)
    yield f"  then {kept.publishing}"
    kept = spec(700, 0, True, 3, max_messages=4)
    yield "publish, trimming many", publish.publish(kept, b"x", *plain)
    yield "publish once", publish.publish(spec(), b"x", "m", 0.0005, None)
    again = spec(7, 2, True)
    yield "publish again", publish.publish(again, b"x", "m", 60.0, None)
    yield f"  then {again.publishing}"
    at = spec(7, 0, True)
    yield "publish where others were first", publish.publish(at, b"x", *plain)
    yield f"  then {at.publishing}"
    yield (
        "publish where others are always first",
        publish.publish(spec(publish_attempts=2), b"x", *plain),
    )
    yield "publish beyond the newest", publish.publish(spec(), b"x", *plain)
    yield "publish, unknown", publish.publish(spec(), b"x", *plain)
    yield "publish, refused", publish.publish(spec(), b"x", *plain)
    yield "publish, confirmed", publish.publish(spec(), b"x", None, 60.0, Confirm(1))
    yield "publish, not confirmed", publish.publish(spec(), b"x", None, 60.0, Confirm(2))
    yield "publish where a key has another type", publish.publish(spec(), b"x", *plain)
    yield "publish where a key has another value", publish.publish(spec(), b"x", *plain)
    many = [b"%d" % number for number in range(1001)]
    yield "publish many", publish.publish_many(spec(5, 0, True), many, None)
    yield "publish many, partly", publish.publish_many(spec(), many, None)
    yield "publish many, unknown", publish.publish_many(spec(), many, None)
    yield "publish none", publish.publish_many(spec(), [], None)
    wrong: Any
    for wrong in ("", "x" * 513, 5):
        yield f"publish once as {wrong!r}"[:40], publish.publish(spec(), b"", wrong, 1.0, None)
    message: Any
    for message in ("text", 5, {"a": object()}, b"123456"):
        yield (
            f"publish a {type(message).__name__}",
            publish.publish(spec(max_body_bytes=5), message, *plain),
        )
    at = spec(0, 0, False, 3)
    yield "trim", publish.trim(at, 5)
    yield f"  then {at.publishing}"
    yield "trim nothing", publish.trim(spec(), 5)
    yield "trim to less than nothing", publish.trim(spec(), -1)


def settles() -> Traces:
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
    yield "commit", settle.commit(spec(), some)
    yield shown(some)
    yield "commit many", settle.commit(spec(), [batch(1, 1)] * 1001)
    seven = [batch(at, at + 1, receipt=b"%d" % at) for at in range(1, 8)]
    yield "commit of what was lost", settle.commit(spec(), seven)
    yield "extend", settle.extend(spec(), some[:3], None)
    yield shown(some)
    fresh = [batch(1, 3)]
    yield "extend for a time", settle.extend(spec(), fresh, 2.5)
    yield shown(fresh)
    yield "release", settle.release(spec(), fresh)
    yield "release what was lost", settle.release(spec(), fresh)
    yield "release much of what was lost", settle.release(spec(), seven)
    for wrong in ("x", Batch("other", "c", 1, 1)):
        yield f"commit {wrong!r}", settle.commit(spec(), [wrong])  # type: ignore[list-item]
    yield "extend for nothing", settle.extend(spec(), fresh, 0)


def places() -> Traces:
    yield "subscribe", place.subscribe(spec(), "c", "oldest")
    yield "subscribe again", place.subscribe(spec(), "c", "oldest")
    yield "subscribe at the end", place.subscribe(spec(), "c", "end")
    yield "seek", place.seek(spec(), "c", 7)
    yield "seek to the oldest of nothing", place.seek(spec(), "c", "oldest")
    yield "seek to the oldest of many", place.seek(spec(), "c", "oldest")
    for to in (1, 2**53 - 1, "end", 0, 2**53, True, "newest", 1.0):
        yield f"seek to {to!r}", place.seek(spec(), "c", to)  # type: ignore[arg-type]
    yield "seek of nobody", place.seek(spec(), "c", 7)
    yield "seek beyond the newest", place.seek(spec(), "c", 7)
    yield "unsubscribe", place.unsubscribe(spec(), "c")
    yield "unsubscribe nobody", place.unsubscribe(spec(), "c")
    yield "position", place.position(spec(), "c")
    yield "position in what is no topic", place.position(spec(), "c")
    yield "position that is none", place.position(spec(), "c")
    yield "lag", place.lag(spec(), "c")
    yield "lag after a reset", place.lag(spec(), "c")
    yield "lag of nobody", place.lag(spec(), "c")
    yield "newest", place.newest(spec())
    yield "oldest", place.oldest(spec())
    yield "oldest of none", place.oldest(spec())
    yield "oldest where all were trimmed", place.oldest(spec())
    yield "oldest of a topic that was deleted", place.oldest(spec())
    yield "oldest of a topic that was never trimmed", place.oldest(spec())
    yield "oldest where one is left", place.oldest(spec())


def read(
    title: str,
    at: TopicSpec,
    n: int = 3,
    timeout: Any = None,
    lease: Any = None,
    committed: Any = (),
) -> Traces:
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

    yield title, shown()
    yield f"  then {at.reading['c']}"
    for each in committed:
        yield f"  {each} lost={each.lease_lost}"


def reads() -> Traces:
    yield from read("consume", spec(3, 2, True))
    skipping = spec()
    yield from read("consume behind a gap", skipping)
    yield from read("consume behind a larger gap", skipping)
    yield from read("consume, with settings", spec(3, 2, True), n=5000, lease=2.5)
    yield from read("consume at most once", spec(delivery="at_most_once"))
    yield from read("consume nothing", spec())
    done = [batch(1, 2), batch(3, 3, receipt=b"s"), batch(4, 5, receipt=b"")]
    yield from read("consume and commit", spec(), committed=done)
    others = [batch(1, 2, "d"), batch(3, 3)]
    yield from read("consume and commit of another", spec(), committed=others)
    many = [batch(at, at) for at in range(1, 1002)]
    yield from islice(read("consume and commit many", spec(), committed=many), 2)
    yield from read("consume, unknown", spec(), committed=[batch(1, 2)])
    yield from read("consume, unknown twice", spec(), committed=[batch(1, 2)])
    yield from read("consume where others were first", spec(3, 0, True))
    yield from read("consume unsubscribed", spec())
    yield from read("consume ahead", spec())
    yield from read("consume what is gone", spec(3, 0, True))
    yield from read("consume what is gone, reporting", spec(3, 0, True, on_trimmed="report"))
    yield from read("consume where nothing is gone", spec(3, 0, True))
    yield from read("consume where all is gone, reporting", spec(3, 0, True, on_trimmed="report"))
    yield from read("consume, waiting", spec(), timeout=1.25)
    yield from read("consume, woken", spec(), timeout=2.0)
    yield from read("consume, woken again", spec(), timeout=2.0)
    yield from read("consume, not woken", spec(), timeout=60.0)
    for name, wrong in (("n", 0), ("n", 2**31 + 1), ("timeout", -1), ("lease", 0)):
        settings: dict[str, Any] = {name: wrong}
        yield from read(f"consume {settings}", spec(), **settings)
    unfinished = UnfinishedCommits("t")
    yield "consume after a commit", consume.consume(spec(), "c", 1, None, None, (), unfinished)


def rows() -> Traces:
    staging = StagingKeys.of_topic("t")
    name = b"t:staged:w:1:x:keep=%d,%d:"
    at = spec(5, 2, True)
    yield "move rows", staged_rows.move(at, staging, b"t:staged:w:1:x")
    yield f"  then {at.publishing}"
    yield "move rows, keeping some", staged_rows.move(spec(), staging, name % (1500, 4))
    yield "move some rows, keeping some", staged_rows.move(spec(), staging, name % (0, 4))
    yield (
        "move rows where others were first",
        staged_rows.move(spec(publish_attempts=2), staging, name % (0, 0)),
    )
    yield "move rows, once", staged_rows.move(spec(), staging, name % (0, 0), attempts=1)
    yield "move rows beyond the newest", staged_rows.move(spec(), staging, name % (0, 0))
    yield (
        "move rows of a delay queue",
        staged_rows.move(spec(), staging, b"t:staged:w:1:x:partitions=2:"),
    )
    yield "move rows of another list", staged_rows.move(spec(), staging, b"t:staged:w:1:x:4:")


def settings() -> Traces:
    given: dict[str, Any]
    for given in (
        {},
        {"max_age": 1.5, "max_messages": 7},
        {"max_age": 0.001},
        {"max_age": 0.0004},
        {"max_messages": 1, "max_body_bytes": 1, "publish_attempts": 1},
        {"max_messages": 2**53 - 1, "max_body_bytes": 512 * 1024 * 1024},
        {"max_messages": 0},
        {"max_messages": 2**53},
        {"max_body_bytes": 0},
        {"max_body_bytes": 512 * 1024 * 1024 + 1},
        {"publish_attempts": 0},
    ):

        def made(given: Any = given) -> str:
            return staged_rows.settings_suffix(TopicConfig(**given))

        yield f"settings {given}", made


PARTS = (publishes, settles, places, reads, rows, settings)


def test_the_requests_of_a_topic() -> None:
    compare(FILE, PARTS)
