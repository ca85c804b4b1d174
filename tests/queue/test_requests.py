"""Every request that the list queue sends, word by word, and what it makes of each reply.

The requests and replies are in `requests.txt`, as `tests.traces` explains. A difference is a change
of what releases that share a queue send to one another.
"""

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError, RedisError, ResponseError

from ackq.config import Confirm, Groups, QueueConfig, RateLimit
from ackq.core import claim_groups
from ackq.core.effects import Clock, Operation, Pipeline, Request
from ackq.core.limits import LATEST
from ackq.errors import AckqError
from ackq.queue import (
    chosen_messages,
    claims,
    group_audit,
    group_limits,
    group_stats,
    held_lists,
    inspection,
    moved_aside,
    places,
    push,
    record,
    row_dead_letters,
    settle,
    stopped_groups,
    take,
)
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.push_options import PushOptions
from ackq.queue.spec import QueueSpec
from tests.outside import FIXED
from tests.traces import Reading, Traces, answers, compare, stored

LONGEST = LATEST / 1_000_000
FILE = Path(__file__).with_name("requests.txt")
WRONG_TYPE = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
AWAY = ConnectionError("gone")


def spec(end: Any = "right", **settings: Any) -> QueueSpec:
    return QueueSpec(
        "q", QueueKeys.of("q", end), QueueConfig(pop_from=end, **settings), outside=FIXED
    )


def held(*keys: str, receipt: int = 50_000_000, count: int = 1) -> list[Message]:
    return [Message("q", key.encode(), b"{}", receipt, count) for key in keys]


def pushes() -> Traces:
    order = {"id": "a", "n": 1}
    yield "push", push.push(spec(), order, PushOptions())
    checked = spec()
    checked.push_check.due = 5.0
    yield "push soon after", push.push(checked, order, PushOptions())
    yield "push when a check is due", push.push(checked, order, PushOptions())
    yield f"  the next check is due at {checked.push_check.due}"
    yield "push without leave to look", push.push(checked, order, PushOptions())
    yield f"  the next check is due at {checked.push_check.due}"
    yield "push to the left end", push.push(spec("left"), order, PushOptions())
    yield (
        "push to the left end of a queue of the right",
        push.push(spec("left"), order, PushOptions()),
    )
    yield "push to the right end of a queue of the left", push.push(spec(), order, PushOptions())
    yield "push with a record of another format", push.push(spec(), order, PushOptions())
    yield "push with a delay", push.push(checked, order, PushOptions(delay=1.5))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    yield "push at a time", push.push(checked, order, PushOptions(at=at))
    confirm = Confirm(2, timeout=0.5)
    yield "push, confirmed", push.push(checked, order, PushOptions(confirm=confirm))
    yield "push, not confirmed", push.push(checked, order, PushOptions(confirm=confirm))
    disk = Confirm(1, fsync=True)
    yield (
        "schedule, not confirmed",
        push.push(checked, order, PushOptions(delay=5.0, confirm=confirm)),
    )
    for delay, due in ((0, None), (None, -1.0), (LONGEST, None), (None, LONGEST)):
        title = f"push, delay={delay}, at={due}"
        yield title, push.push(checked, order, PushOptions(delay=delay, at=due))

    def pushed(**wrong: Any) -> Operation[Any]:
        return push.push(checked, order, PushOptions(**wrong))

    wrong: Any
    for wrong in (-0.1, LONGEST + 1, float("nan"), "1", True):
        yield f"push, delay={wrong!r}", partial(pushed, delay=wrong)
    for wrong in (LONGEST + 1, float("nan"), "1", True, datetime(2030, 1, 1)):
        yield f"push, at={wrong!r}", partial(pushed, at=wrong)
    yield "push, delay and at", push.push(checked, order, PushOptions(delay=1.0, at=1.0))
    yield "push to disk", push.push(checked, order, PushOptions(confirm=disk))
    yield "push to disk of an old server", push.push(checked, order, PushOptions(confirm=disk))
    yield "push once", push.push(checked, order, PushOptions(dedup="m", dedup_window=0.0015))
    yield (
        "push once, later",
        push.push(
            checked,
            {"n": 1, "id": 7},
            PushOptions(delay=2.0, dedup="m", dedup_window=60.0, confirm=confirm),
        ),
    )
    yield "push once, unknown", push.push(checked, order, PushOptions(dedup="m", dedup_window=60.0))
    many: list[Any] = [order, b"bytes", {"id": 7}]
    to_front = PushOptions(front=True)
    yield "push to the front", push.push(checked, order, to_front)
    yield "push to the front of an empty list", push.push(checked, order, to_front)
    yield "push to the front, never handed over", push.push(checked, order, to_front)
    yield (
        "push to the front, not before",
        push.push(checked, order, PushOptions(delay=1, front=True)),
    )
    marked = PushOptions(front=True, dedup="m", confirm=confirm)
    yield "push once to the front", push.push(checked, order, marked)
    yield "push many to the front", push.push_many(spec("left"), many, to_front)
    marked = PushOptions(dedup=lambda each: str(each), dedup_window=1)
    yield "push many once", push.push_many(checked, many[::2] * 2, marked)
    yield "push many once, one lost", push.push_many(checked, [*many[::2]], marked)
    for wrong in ("abc", ["one"], [1, 2, 3], ["", "a", "b"]):
        marked = PushOptions(dedup=wrong)
        yield f"push many once, dedup={wrong!r}", push.push_many(checked, many, marked)
    unique = PushOptions(unique="done", unique_for=1, confirm=confirm)
    yield "push unique", push.push(checked, order, unique)
    yield "push unique, found by a search", push.push(checked, order, PushOptions(unique="taken"))
    yield "push unique, and a claim ends meanwhile", push.push(checked, order, unique)
    to_front = PushOptions(unique="done", front=True)
    yield "push many unique", push.push_many(checked, many[::2], to_front)
    yield "push many", push.push_many(spec(), many, PushOptions())
    yield "push many later", push.push_many(checked, many, PushOptions(delay=2.0))
    large = [bytes(2_000_000)] * 5
    big = spec(max_body_bytes=3_000_000)
    yield "push many, cut short", push.push_many(big, large, PushOptions(delay=1.0))
    yield "push many, partly", push.push_many(big, large, PushOptions(delay=1.0))
    yield "push many, none", push.push_many(big, large, PushOptions(delay=1.0))
    yield (
        "push many, partly confirmed",
        push.push_many(big, large, PushOptions(delay=1.0, confirm=confirm)),
    )


def settles() -> Traces:
    two = held("a", "b")
    yield "ack", settle.ack(spec(), two), two
    yield "ack again", settle.ack(spec(), two), two
    yield "nack what was acked", settle.nack(spec(), two, None), two
    mixed = [*held("a"), *held("b", receipt=60_000_000), *held("c")]
    yield "ack of three pops", settle.ack(spec(), mixed), mixed
    lost = held("a", "b")
    yield "ack, unknown", settle.ack(spec(), lost), lost
    lost = held("a", "b")
    yield "ack, not sent", settle.ack(spec(), lost), lost
    yield "ack, confirmed", settle.ack(spec(), held("a"), Confirm(1))
    yield "ack, not confirmed", settle.ack(spec(), held("a"), Confirm(2))
    yield "ack by id", settle.ack_id(spec(), ["a", 7])
    yield "ack by id in parts", settle.ack_id(spec(), ["a", "b", "c"])
    for requeue in ("front", "back"):
        for end in ("right", "left"):
            some = [*held("a", "b", count=3), *held("c")]
            yield (
                f"nack, {requeue} {end}",
                settle.nack(spec(end, requeue=requeue, max_receives=3), some, None),
                some,
            )
    some = held("a")
    yield "nack with a delay", settle.nack(spec(), some, 1.5), some
    yield "nack what was nacked", settle.nack(spec(), some, 1.5), some
    yield "ack what was nacked", settle.ack(spec(), some), some
    yield "nack without a delay", settle.nack(spec(), held("a"), 0)
    yield "nack with the longest delay", settle.nack(spec(), held("a"), LONGEST)
    yield "nack with a longer delay", settle.nack(spec(), held("a"), LONGEST + 1)
    failed = held("a", "b", "c")
    failed[1].failure = b"why"
    yield "nack with errors", settle.nack(spec(), failed, 0)
    yield (
        "nack with an error",
        settle.nack(spec(record_errors="type"), held("a", "b"), 0, error=ValueError("x")),
    )
    some = held("a", "b", "c")
    yield "release in parts", settle.nack(spec(), some, 2.0, charge=False), some
    some = held("a", "b")
    yield "reject", settle.reject(spec(), some, "why"), some
    some = held("a", "b")
    yield "extend", settle.extend(spec(), some, None), some
    some = held("a")
    yield "extend by", settle.extend(spec(), some, 2.5), some
    some = held("a")
    yield "extend what was lost", settle.extend(spec(), some, 5.0), some
    (alone,) = held("a")
    yield "run alone", settle.run_alone(spec(), alone, 3, 2, OSError("x")), [alone]
    yield "run alone over the limit", settle.run_alone(spec(), alone, 3, 2, OSError("x"))
    yield "run alone what was lost", settle.run_alone(spec(), alone, 3, 2, OSError("x"))
    yield "settle another queue's", settle.ack(spec(), [Message("r", b"a", b"", 1, 1)])
    yield "settle no message", settle.ack(spec(), ["a"])  # type: ignore[list-item]
    many = [str(number) for number in range(101)]
    yield "nack more than one call takes", settle.nack(spec(), held(*many), 1.0)
    yield "reject more than one call takes", settle.reject(spec(), held(*many), "r")
    yield "release many", settle.nack(spec(), held(*many), 0, charge=False)


def takes() -> Traces:
    yield "pop", take.pop_many(spec(), 2, None, None, ())
    left = spec("left", max_receives=4, max_body_bytes=99, requeue="back")
    yield "pop from the left", take.pop_many(left, 5000, None, 2.0, ())
    before = held("x", "y")
    yield "pop and ack", take.pop_many(spec(), 2, None, None, before), before
    before = held("x")
    yield "pop and ack, unknown", take.pop_many(spec(), 2, None, None, before[0]), before
    yield "pop again", take.pop_many(spec(), 2, None, None, ())
    yield "pop and wait", take.pop_many(spec(), 2, 5.0, None, ())
    yield "pop, paused, for a short time", take.pop_many(spec(), 2, 0.01, None, ())
    yield "pop and wait for a lease that ends soon", take.pop_many(spec(), 2, 5.0, None, ())
    yield "pop and ack, and wait for one", take.pop_many(spec(), 2, 5.0, None, held("x"))
    yield "pop in time, from a long list", take.pop_many(spec(), 2, 0.5, None, ())
    for waiters in (2, 1000, 100_000):
        yield f"pop and wait, of {waiters}", take.pop_many(spec(), 1, 1e6, None, ())


def waiting(end: Any = "right") -> QueueSpec:
    """Return a queue that was found empty; the next look is due at 2.5 s."""
    found = spec(end)
    found.emptiness.is_known, found.emptiness.look_at = True, 2.5
    return found


def trips() -> Traces:
    """Yield takes that ack, wait and pop in one trip."""
    for title in (
        "it was the last message",
        "the ack is refused",
        "the ack is unknown to the server",
        "the ack is not possible",
        "both scripts are unknown to the server",
        "nothing is possible",
        "the queue has moved",
        "another type",
        "nothing is sent",
        "all replies are lost",
        "the replies are lost after the ack",
        "the reply is lost after the wait",
    ):
        before = held("x")
        known = waiting()
        yield f"one trip, {title}", take.pop_many(known, 1, 9.0, None, before), before
        yield f"  known to be empty: {known.emptiness.is_known}"
    for title in (
        "there are more messages",
        "the wait was ended",
        "there is no memory to wait",
        "there is no memory to wait, but a message",
        "there is no leave to wait",
    ):
        known = waiting("left")
        yield f"one trip, {title}", take.pop_many(known, 1, 9.0, None, ())
        yield f"  known to be empty: {known.emptiness.is_known}"
    late = waiting()
    late.emptiness.look_at = 2.0
    yield "one trip, too late for it", take.pop_many(late, 1, 9.0, None, ())


def ends() -> Traces:
    left, right = spec("left"), spec()
    yield "forget", record.forget(left.keys)
    yield "forget if unused", record.forget_if_unused(left)
    yield "forget if unused, but it is", record.forget_if_unused(left)
    yield "compare without a record", record.compare(left)
    yield "compare with a record", record.compare(left)
    yield "compare without leave", record.compare(right)
    yield "recorded, left", record.recorded(right.keys)
    yield "recorded, right", record.recorded(left.keys)
    yield "record", record.record(left)
    yield "record while others hold messages", record.record(left)
    yield "record on a wrong type", record.record(left)
    yield "nothing to record", record.record(right)


def inspections() -> Traces:
    yield "stats", inspection.stats(spec())
    yield "stats of an empty queue", inspection.stats(spec("left"))
    yield "stats with an ended lease", inspection.stats(spec())
    yield "oldest", inspection.oldest_ready(spec(time_field="t"))
    yield "oldest by its lease", inspection.oldest_ready(spec("left"))
    yield "oldest, unknown", inspection.oldest_ready(spec())
    yield "oldest of an empty queue", inspection.oldest_ready(spec())
    yield "oldest from the future", inspection.oldest_ready(spec())
    yield "counters", inspection.counters(spec(), 0.0015)
    yield "counters of the former release", inspection.counters(spec(), 60.0)
    yield "peek", inspection.peek(spec(time_field="t"), 3, "ready", 2)
    yield "peek at delayed messages", inspection.peek(spec("left"), 1, "delayed")
    yield "peek at nothing", inspection.peek(spec(), 0, "in_flight")
    yield "peek at another state", inspection.peek(spec(), 1, "dead")  # type: ignore[arg-type]
    yield "find a leased message", places.find(spec(), "a", 50)
    yield "find a ready message", places.find(spec(), "a", 50)
    yield "find all of an id", places.find_all(spec("left"), "a", None)
    yield "find what is none", places.find(spec(), "", 50)
    yield "search", places.search(spec(), {"of.kind": "x/y", "n": 1}, 2, 50)
    yield "search within two messages of each place", places.search(spec(), {"n": 1}, 2, 2)
    yield "purge", inspection.purge(spec(), True)
    yield "purge from the left", inspection.purge(spec("left"), False)
    yield "pause", inspection.pause(spec())
    yield "resume", inspection.resume(spec())
    yield "drain", inspection.drain(spec("left"))
    yield "dead letters", inspection.dead_letters(spec(), 3, ())
    yield "dead letters after one", inspection.dead_letters(spec(), 3, (), "5-1")
    yield "chosen dead letters", inspection.dead_letters(spec(), 3, ["1-0", "2-0"])
    yield "dead letters after none", inspection.dead_letters(spec(), 3, (), "x")
    yield "redrive", inspection.redrive(spec(), 1200, ())
    yield "redrive all", inspection.redrive(spec(), None, ())
    yield "redrive some", inspection.redrive(spec(), None, ["1-0", "2-0", "3-0"])
    yield "redrive no entry", inspection.redrive(spec(), None, ["1-0", "x"])
    yield (
        "drop dead letters",
        inspection.drop_dead_letters(spec(), [f"{each}-0" for each in range(51)]),
    )
    yield "audit", inspection.audit(spec(), False)
    yield "audit of a sound queue, repaired", inspection.audit(spec("left"), True)
    yield "audit of keys of other types", inspection.audit(spec(), True)
    yield "audit without leave", inspection.audit(spec(), True)
    yield "audit of a server that is away", inspection.audit(spec(), True)


def lists() -> Traces:
    yield "lists", held_lists.lists(spec())
    yield "claims", held_lists.claims(spec())
    yield "give back", held_lists.return_to_queue(spec(), b"qCLAIM:g:1")
    yield "give back to the left", held_lists.return_some(spec("left"), b"qSTAGED:w:1:0:delayed")
    yield "into the queue", held_lists.into_queue(spec(), b"qSTAGED:w:1:0")
    yield "into the queue from the left", held_lists.into_queue(spec("left"), b"qSTAGED:w:1:0")
    entries = ["1795252215312092-order-7", "5-a%20b"]
    yield "run now", chosen_messages.run_now(spec(), entries, ["x", 7])
    yield "run many now", chosen_messages.run_now(spec(), ["5-a"] * 501, ())
    yield "cancel", chosen_messages.cancel(spec(), entries, ["x"], False)
    yield "cancel no entry", chosen_messages.cancel(spec(), ["x"], (), False)
    yield "cancel no id", chosen_messages.cancel(spec(), (), [""], False)


def group(end: Any = "right", epoch: int = 4) -> claims.Group:
    return claims.Group(spec(end), "g", 60.0, epoch)


def batches() -> Traces:
    yield "begin", claims.begin(group())
    yield "open", claims.open_claims(group())
    yield "open, without an epoch", claims.open_claims(group(epoch=0))
    yield "open, fenced", claims.open_claims(group())
    yield "numbers", claim_groups.numbers(group())
    yield "claim", claims.claim(group(), 1, 10, None, None)
    left = group("left")
    yield "claim from the left", claims.claim(left, 1, 10, 99, 8)
    yield f"  claiming {left.claiming}"
    taken = group()
    yield "claim a later one", claims.claim(taken, 1, 10, None, None)
    yield f"  claiming {taken.claiming}"
    yield "claim again", claims.claim(taken, 1, 10, None, None)
    yield "claim a used one", claims.claim(group(), 1, 10, None, 5)
    none = group()
    yield "claim nothing", claims.claim(none, 1, 10, None, None)
    yield f"  claiming {none.claiming}"
    yield "claim nothing as a batch", claims.claim(group(), 1, 10, None, 3)
    yield "claim, fenced", claims.claim(group(), 1, 10, None, 3)
    yield "claim before begin", claims.claim(group(epoch=0), 1, 10, None, 3)
    yield "ack claims", claims.ack(group(), 1, 0.0015)
    yield "ack no claims", claims.ack(group(), 9, 0)
    yield "ack all claims", claims.ack(group(), 2, 600.0)
    given = group()
    given.kept |= {2, 3, 5}
    yield "forget claims", claims.forget(given, 4)
    yield "beat", claims.beat(group())
    yield "beat without claims", claims.beat(group())
    yield "readable", claims.readable(group(), 0, 4)
    yield "read", claims.read(group(), 2, 3, 2)
    yield "read from the left", claims.read(group("left"), 2, 3, 2)
    yield "read what is gone", claims.read(group(), 2, 3, 2)
    yield "read nothing", claims.read(group(), 2, 3, 0)
    given = group()
    yield "release claims", claims.release(given)
    yield f"  epoch {given.epoch}, claiming {given.claiming}"
    yield "end holds", claims.end_holds(spec())


def rejected() -> Traces:
    writer = row_dead_letters.RowWriter(spec(), "w", 60_000)
    row = row_dead_letters.RejectedRow
    yield "begin a batch", row_dead_letters.begin_batch(writer, "7")
    yield "begin a batch too late", row_dead_letters.begin_batch(writer, "7")
    yield "begin a batch after none", row_dead_letters.begin_batch(writer, "7")
    rows = [row("0", b'{"id":"a"}', "why"), row("1", b"x", "no")]
    yield "reject rows", row_dead_letters.reject_rows(writer, "7", rows)
    many = [row("0", bytes(600_000), "why")] * 2
    yield "reject large rows", row_dead_letters.reject_rows(writer, "7", many)
    for key in ("DEAD", "REJECTED:w", "COUNTERS"):
        yield f"reject rows, another type at {key}", row_dead_letters.reject_rows(writer, "7", rows)


def grouped() -> Traces:
    keys = QueueKeys.of("q", grouped=True)
    config = QueueConfig(7.0, 11, "front", 12345, groups=Groups("customer"))
    of = QueueSpec("q", keys, config, outside=FIXED)
    yield "record the groups", record.record(of)
    yield "pop, with groups", take.pop_many(of, 5, None, 3.0, held("k"))
    yield "ack, with groups", settle.ack(of, held(*101 * "k"))
    yield "cancel what was moved aside", chosen_messages.cancel_moved_aside(of, ["m"])
    yield "drain, with groups", inspection.drain(of)
    yield "purge, with groups", inspection.purge(of, False)
    yield "audit groups", group_audit.audit(of, False)
    yield "audit stopped groups", stopped_groups.missing(of, [(b"e", b"5-1")], True)
    yield "resume a group", stopped_groups.resume(of, "c-17")
    changes = {"in_flight": 3, "rate": None, "on_dead": "keep", "max_in_flight": 9}
    yield "change the limits of groups", group_limits.change(of, changes)
    yield "pause a group", group_limits.pause(of, "c-17", 3.0)
    yield "limit a group", group_limits.limit(of, "c-17", 5, RateLimit(10, 1))
    yield "list groups", group_stats.first(of, 5, 100, "waiting", "")
    yield "peek at what was moved aside", moved_aside.page(of, b"", 5, 7)
    yield "forget the groups", record.forget(of.keys)


PARTS = (pushes, settles, takes, trips, ends, inspections, lists, batches, rejected, grouped)


def test_the_requests_of_the_list_queue() -> None:
    compare(FILE, PARTS)


def test_a_key_of_another_type_is_named_whichever_request_meets_it() -> None:
    """Each operation is stopped at each of its requests in turn."""
    ended: list[str] = []

    def stop_at(number: int, steps: Any, answers: Iterator[Any]) -> None:
        """Let a request meet a key of another type, and note what is raised."""
        effect = next(steps)
        while number or not isinstance(effect, Request):
            number -= isinstance(effect, Request)
            answer: Any = 1.0
            if not isinstance(effect, Clock):
                trip = isinstance(effect, Pipeline)
                answer = [next(answers) for _ in effect.requests] if trip else next(answers)
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

    known = stored(FILE)
    operations = [part for part in PARTS for _ in range(10)]
    for number, part in enumerate(operations):
        for each in part():
            if isinstance(each, tuple):
                with contextlib.suppress(StopIteration, AckqError, RedisError, TypeError):
                    given = answers(known[f"# {each[0]}"])
                    given = [each for each in given if not isinstance(each, Reading)]
                    stop_at(number % 10, each[1], iter(given))
    assert len(ended) > 150
    others = [each for each in ended if not re.search("queue 'q': .* is a stranger", each)]
    # A pop that got a message tries its failed acks alone, and returns the message. A pop whose
    # reply was lost tries its acks alone, and reports itself. A push to the front has stored its
    # messages before it hands them over.
    got = "StopIteration: [<Message 'a' of 'q', 10 bytes, receive 1>]"
    pushed = ["['a', '', '7']", "['a', '', '7']", "['a', '7']", "a", "a", "a"]
    returned = [f"StopIteration: {each}" for each in pushed]
    assert sorted(others) == sorted([*returned, got, got, "UnknownOutcome: lost"])


def test_a_changed_trace_is_noticed(tmp_path: Path) -> None:
    other = tmp_path / "requests.txt"
    other.write_text(FILE.read_text().replace("qBACKUP", "qBACKDOWN", 1))
    with pytest.raises(AssertionError):
        compare(other, PARTS)
