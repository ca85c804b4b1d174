"""What reads the figures of many queues and keeps their past sends, and makes of each reply.

The requests and replies are in `requests.txt`, as `tests.traces` explains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ackq.config import QueueConfig
from ackq.ops.chronicle import store
from ackq.ops.doctor import converted
from ackq.ops.read_lists import read_together
from ackq.ops.readings import Asked
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from tests.outside import FIXED
from tests.traces import Traces, compare

FILE = Path(__file__).with_name("requests.txt")


def asked(window: float | None = None, **settings: Any) -> Asked:
    return Asked(window, QueueConfig(**settings), 2_000_000, set(), set())


def figures() -> Traces:
    yield "read two lists together", read_together(["a", "b"], asked(60.0, time_field="made"))
    denied = asked()
    yield "read lists of which one is denied", read_together(["a", "b"], denied)
    yield f"  read alone from now on: {sorted(denied.alone)}"


def past() -> Traces:
    key = store.history_key("sharded", "q")

    def add(fields: store.Fields) -> store.Fields:
        return {b"h1": fields.get(b"h1", b"") + b"new"}

    yield "load", store.load(key, [b"h1", b"h2"])
    yield "update what is not there", store.update(key, "token", [b"h1"], add)
    yield "update while others write", store.update(key, "token", [b"h1"], add)
    yield "update nothing", store.update(key, "token", [b"h1"], lambda fields: {})


def formats() -> Traces:
    of = QueueSpec("q", QueueKeys.of("q"), QueueConfig(), outside=FIXED)
    for title in ("of format 1", "of format 2", "in use"):
        yield f"convert a queue {title}", converted(of, False)


PARTS = (figures, past, formats)


def test_the_requests_of_figures_and_histories() -> None:
    compare(FILE, PARTS)
