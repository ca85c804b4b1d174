"""Every request of RSMQ's queues, word by word, and what becomes of each reply.

The requests and replies are in `requests.txt`, as `tests.traces` explains. A difference is a change
of what clients that share a queue send to one another.
"""

from functools import partial
from pathlib import Path
from typing import Any

from ackq.core.effects import Request
from ackq.core.io.outside import SYSTEM
from ackq.rsmq import operations as rsmq
from ackq.rsmq import places
from ackq.rsmq.values import RSMQSpec, check_maxsize, check_namespace
from tests.outside import FIXED
from tests.traces import Traces, compare

FILE = Path(__file__).with_name("requests.txt")
SPEC = RSMQSpec("ns", outside=FIXED)
ID = "hod4lweixf" + "A" * 22


def queues() -> Traces:
    yield "create", rsmq.create_queue(SPEC, "q", 30, 5, -1)
    yield "create a queue that exists", rsmq.create_queue(SPEC, "q", 30, 5, -1)
    yield "create where a key has another type", rsmq.create_queue(SPEC, "q", 30, 5, -1)
    yield "list", rsmq.list_queues(SPEC)
    yield "delete no queue", rsmq.delete_queue(SPEC, "q")
    yield "attributes", rsmq.attributes(SPEC, "q")
    yield "attributes that cannot be read", rsmq.attributes(SPEC, "q")
    yield "attributes of no queue", rsmq.attributes(SPEC, "q")
    changes: dict[str, int | None] = {"vt": 5, "delay": None, "maxsize": -1}
    yield "set attributes", rsmq.attributes(SPEC, "q", changes)
    yield "counters of no queue", rsmq.counters(SPEC, "q")


def received(steps: Any) -> Any:
    """Return all fields of the messages, bodies included."""
    return [(each.id, each.body, each.rc, each.fr) for each in (yield from steps)]


def messages() -> Traces:
    yield "send to no queue", rsmq.send_message(SPEC, "q", "x", None)
    yield "send to a queue with a bad attribute", rsmq.send_message(SPEC, "q", "x", None)
    notifying = RSMQSpec("ns", True, outside=FIXED)
    yield "send with a notice", rsmq.send_message(notifying, "q", "x", None)
    bodies = ["x"] * 1003
    yield "send many", rsmq.send_messages(SPEC, "q", bodies, 3)
    yield "send many, unknown", rsmq.send_messages(SPEC, "q", bodies, 3)
    yield "send many, one too long", rsmq.send_messages(SPEC, "q", bodies, 3)
    yield "send many, refused", rsmq.send_messages(SPEC, "q", bodies, 3)
    yield "send long ones to be counted", rsmq.send_messages(SPEC, "q", ["ü" * 40_000] * 4, None)
    yield "send long ones", rsmq.send_messages(SPEC, "q", ["u" * 80_000] * 4, None)
    dying = RSMQSpec("ns", max_receives=4, outside=FIXED)
    yield "receive", received(rsmq.receive_messages(dying, "q", 5000, 7, None))
    yield "receive from no queue", rsmq.receive_messages(SPEC, "q", 1, None, None)
    yield "pop", rsmq.receive_messages(SPEC, "q", 1, None, None, "remove")
    yield "receive, waiting", rsmq.receive_messages(SPEC, "q", 1, None, 0.1)
    wrong: Any
    for wrong in (0, True, 1.0):
        yield f"receive {wrong!r}", rsmq.receive_messages(SPEC, "q", wrong, None, None)
    ids = [f"{number:032}" for number in range(1003)]
    yield "delete many", rsmq.delete_messages(SPEC, "q", ids)
    for found in ("hidden", "gone", "of no queue"):
        yield f"visibility, {found}", rsmq.change_message_visibility(SPEC, "q", ID, 5)


def dead_letters() -> Traces:
    letters, redrive, drop = rsmq.dead_letters, rsmq.redrive, rsmq.drop_dead_letters
    yield "dead letters", letters(SPEC, "q", 5, None)
    yield "dead letters after one", letters(SPEC, "q", 1, "5-1")
    yield "dead letters after none", letters(SPEC, "q", 1, "x")
    for found in ("visible", "hidden", "dead", "gone"):
        yield f"find, {found}", places.find(SPEC, "q", ID, 3)
    yield "find another type", places.find(SPEC, "q", ID, 3)
    entries = [f"{at}-0" for at in range(1, 61)]
    yield "drop", drop(SPEC, "q", entries)
    yield "drop no entry", drop(SPEC, "q", ["x"])
    yield "redrive", redrive(SPEC, "q", None, ())
    yield "redrive entries", redrive(SPEC, "q", None, entries[:20])
    yield "redrive no entry", redrive(SPEC, "q", None, ["x"])
    yield "redrive in no queue", redrive(SPEC, "q", 5, ())
    wrong: Any
    for wrong in (-1, True, 1.0):
        yield f"redrive {wrong!r}", redrive(SPEC, "q", wrong, ())
        yield f"{wrong!r} dead letters", letters(SPEC, "q", wrong, None)


def values() -> Traces:
    name: Any
    for name in (
        "a",
        "ü" * 100,
        "a b",
        "",
        "a" * 201,
        "ü" * 101,
        "a\n",
        "\x7f",
        "\ud800",
        None,
        b"a",
    ):
        yield f"namespace {name!a}", partial(check_namespace, name)
    size: Any
    for size in (1024, 65_565, -1, 1023, 65_566, 0, -2, True, 2000.0):
        yield f"maxsize {size!r}", partial(check_maxsize, size)


PARTS = (queues, messages, dead_letters, values)


def test_the_requests_of_rsmq() -> None:
    compare(FILE, PARTS)


def test_the_ids_of_each_call_have_a_random_part_of_their_own() -> None:
    spec = RSMQSpec("ns", outside=SYSTEM)
    first, second = (next(rsmq.send_messages(spec, "q", ["x"], None)) for _ in range(2))
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert first.args[5] != second.args[5]
