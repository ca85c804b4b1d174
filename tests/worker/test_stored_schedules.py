"""Schedules that are stored for a queue: changed while workers run, each tick pushed once."""

import asyncio
import itertools
import threading
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import orjson
import pytest

from ackq import Message
from ackq.config import QueueConfig
from ackq.errors import ConfigurationError, InvalidMessage
from ackq.queue import schedules
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from ackq.worker import schedule as worker_schedule
from tests.conftest import MakeQueue
from tests.outside import FIXED
from tests.waiting import wait_until

from .conftest import Rig

SPEC = QueueSpec("jobs", QueueKeys.of("jobs"), QueueConfig(), outside=FIXED)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers notice changes at once."""
    monkeypatch.setattr(worker_schedule, "READ_EVERY", 0.1)


def test_a_schedule_is_put_listed_paused_resumed_and_removed(make_queue: MakeQueue) -> None:
    queue = make_queue()
    schedules = queue.schedules
    hourly = {"every": timedelta(hours=1), "catch_up": "last"}
    assert schedules.put("hourly", {"task": "clean"}, **hourly) is False  # type: ignore[arg-type]
    assert (
        schedules.put("report", {"task": "send"}, cron="0 9 * * 1", zone="Europe/Berlin") is False
    )
    first, second = schedules.list()
    assert (first.name, first.every, first.cron, first.catch_up) == ("hourly", 3600, None, "last")
    assert first.message == {"task": "clean"}
    assert first.next is not None
    assert first.next % 3600 == 0
    assert first.last < first.next <= first.last + 3600
    assert (second.zone, second.catch_up) == ("Europe/Berlin", "none")
    assert second.next is not None
    monday = datetime.fromtimestamp(second.next, second.timetable.tz)
    assert (monday.weekday(), monday.hour, monday.minute) == (0, 9, 0)
    assert schedules.pause("hourly") is True
    assert [(one.paused, one.next is None) for one in schedules.list()] == [
        *((True, True), (False, False))
    ]
    assert schedules.resume("hourly") is True
    assert schedules.list()[0].next == first.next
    assert schedules.put("hourly", {"task": "clean"}, every=60) is True
    assert schedules.list()[0].version != first.version
    assert schedules.remove("hourly") is True
    assert (schedules.remove("hourly"), schedules.pause("hourly")) == (False, False)
    assert [one.name for one in schedules.list()] == ["report"]
    schedules.remove("report")


def test_a_program_may_put_its_schedules_whenever_it_starts(rig: Rig, plain_client: Any) -> None:
    """A put that changes nothing changes nothing, and no put ends a pause."""
    queue = rig.queue_of()
    schedules, key = queue.schedules, f"{queue.name}TICKS"
    settings: Any = {"cron": "@Daily", "zone": "Japan", "catch_up": "last"}
    schedules.put("s", {"n": 1, "to": {"a": 1, "b": 2}}, **settings)
    plain_client.hset(key, "s", 1_700_000_000_000_000)  # no worker ran since
    (first,) = schedules.list()
    assert first.cron == "0 0 * * *"  # so that earlier versions understand it
    assert schedules.put("s", {"to": {"b": 2, "a": 1}, "n": 1}, **settings) is True
    assert schedules.list() == [first]
    schedules.put("s", {"n": True}, **settings)
    (changed,) = schedules.list()
    assert changed.version != first.version
    assert changed.last == first.last  # the tick is still to be caught up
    schedules.put("s", {"n": True}, **(settings | {"zone": "UTC"}))
    (moved,) = schedules.list()
    assert moved.last > first.last
    for message, zone in (({"n": True}, "UTC"), ({"n": 2}, "UTC"), ({"n": 2}, "Japan")):
        schedules.pause("s")
        assert schedules.put("s", message, **(settings | {"zone": zone})) is True
        (paused,) = schedules.list()
        assert (paused.paused, paused.message, paused.zone) == (True, message, zone)
    assert schedules.resume("s") is True
    (resumed,) = schedules.list()
    assert (resumed.paused, resumed.last > paused.last) == (False, True)
    schedules.remove("s")
    assert schedules.put("s", {"n": 2}, **settings) is False
    assert not schedules.list()[0].paused
    equals: tuple[Any, ...] = (
        ("every", (5, 5.0, timedelta(seconds=5))),
        ("cron", ("5 * * * *", " 5  * * * * ")),
    )
    for name, (one, *others) in equals:
        schedules.put("s", {}, **{name: one})
        (stored,) = schedules.list()
        for other in others:
            schedules.put("s", {}, **{name: other})
            assert schedules.list() == [stored]


def test_a_zone_that_an_earlier_version_stored_beside_a_period_has_no_effect(
    rig: Rig, plain_client: Any
) -> None:
    queue = rig.queue_of()
    stored = b'{"message":{},"every":60.0,"zone":"Japan","catch_up":"none","paused":false}'
    plain_client.hset(f"{queue.name}WORKERS:SCHEDULES", "s", b"v" * 16 + stored)
    (schedule,) = queue.schedules.list()
    assert (schedule.every, schedule.next % 60) == (60.0, 0)  # type: ignore[operator]
    assert queue.schedules.pause("s") is True


def test_neither_a_put_nor_a_pause_overwrites_the_other() -> None:
    """Each in turn comes between the two requests of the other."""
    pause, resume = (partial(schedules.set_paused, SPEC, "s", on) for on in (True, False))
    put = partial(schedules.put, SPEC, "s", {"n": 2}, 60.0, None, "UTC", "none", None)
    remove = partial(schedules.remove, SPEC, "s")
    for first, second, left in (
        (put, pause, (2, True)),
        (pause, put, (2, True)),
        (pause, pause, (1, True)),
        (put, put, (2, False)),
        (put, remove, (2, False)),
        (pause, remove, None),
        (resume, put, (2, False)),
    ):
        for requests in range(3):
            table = Table()
            table.run(partial(schedules.put, SPEC, "s", {"n": 1}, 60.0, None, "UTC", "none", None))
            table.run(first, requests, second)
            if second is remove and requests == 2:
                continue  # it came last
            fields = orjson.loads(table.stored[16:]) if table.stored else None
            assert (fields and (fields["message"]["n"], fields["paused"])) == left


class Table:
    """One stored schedule, as the scripts keep it."""

    stored, version = b"", 0

    def run(self, operation: Any, requests: int = -1, other: Any = None) -> None:
        """Run an operation, and another one after this many of its requests."""
        steps, reply = operation(), None
        with suppress(StopIteration):
            for count in itertools.count():
                if count == requests:
                    self.run(other)
                request = next(steps) if reply is None else steps.send(reply)
                reply = self._reply(*request.args[3:])
            return
        if requests > count:
            self.run(other)

    def _reply(self, *given: Any) -> list[Any]:
        if not given:
            return [1, b"s", self.stored, 1, 0] if self.stored else [1]
        _, _, definition, former, _ = given
        if not definition:
            self.stored = b""
            return [b"removed", 1]
        if self.stored[:16] != former:
            return [b"changed", 1, self.stored]
        self.version += 1
        self.stored = b"%016d" % self.version + definition
        return [b"replaced" if former else b"stored", 1]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "takes every= or cron="),
        ({"every": 0}, "every is 0.001"),
        ({"cron": "61 * * * *"}, "minute is 0 to 59, not '61'"),
        ({"cron": "0 9 * * *", "zone": "Mars/Olympus"}, "not 'Mars/Olympus'"),
        ({"every": 1, "zone": "Japan"}, "Japan has no effect"),
        ({"cron": "0 9 * * *", "zone": "../etc/passwd"}, "not '../etc/passwd'"),
        ({"every": 1, "catch_up": "all"}, "catch_up is 'none' or 'last'"),
        ({"every": 1, "unique": True}, 'unique is "done" or "taken", not True'),
        ({"every": 1, "message": ["a list"]}, "not list"),
        ({"every": 1, "message": {"x": "x" * 17_000}}, "over the limit of 16384"),
        ({"every": 1, "name": "x" * 201}, "at most 200 bytes"),
        *(({"every": 1, "name": name}, "its name is text") for name in ("", 5, b"s", "\ud800")),
        ({"every": 1, "message": {"id": ""}}, "id '' is invalid"),
        ({"every": 1, "message": {"id": [5]}, "unique": "done"}, r"id \[5\] is invalid"),
        ({"every": 1, "message": {"x": {1}}}, r"\$\.x is of type set"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_schedule_is_said_and_nothing_is_stored(
    make_queue: MakeQueue, settings: dict[str, Any], text: str
) -> None:
    schedules = make_queue().schedules
    given = {"name": "s", "message": {}, **settings}
    name = given.pop("name")
    with pytest.raises((ConfigurationError, InvalidMessage), match=text):
        schedules.put(name, given.pop("message"), **given)
    assert schedules.list() == []
    if text == "its name is text":
        for verb in (schedules.pause, schedules.resume, schedules.remove):
            with pytest.raises(ConfigurationError, match=text):
                verb(name)


def test_a_definition_that_nobody_can_read_does_not_hide_the_others(
    make_queue: MakeQueue, plain_client: Any, rig: Rig
) -> None:
    queue = rig.queue_of()
    key = f"{queue.name}WORKERS:SCHEDULES"
    plain_client.hset(
        key, mapping={"odd": b"v" * 16 + b"{", "none": b"", "list": b"v" * 16 + b"[]"}
    )
    queue.schedules.put("good", {"task": "beat"}, every=0.2)
    assert [one.name for one in queue.schedules.list()] == ["good"]
    rig.work(queue)
    rig.handler.wait_for(2)


def test_many_workers_push_each_tick_once_and_notice_changes(rig: Rig) -> None:
    queue = rig.queue_of()
    for _ in range(3):
        rig.work(queue)
    queue.schedules.put("beat", {"task": "beat"}, every=0.2)
    rig.handler.wait_for(8)
    seen = list(rig.handler.seen)
    assert len({*seen}) == len(seen)
    at = sorted(datetime.fromisoformat(each.removeprefix("beat@")).timestamp() for each in seen)
    assert {round(b - a, 3) for a, b in pairwise(at)} == {0.2}
    queue.schedules.put("beat", {"id": "changed", "task": "other"}, every=0.1)
    wait_until(lambda: "changed" in rig.handler.seen, "the new definition")
    queue.schedules.remove("beat")
    wait_until(lambda: queue.stats().ready + queue.stats().in_flight == 0, "all handled")
    count = len(rig.handler.seen)
    queue.schedules.put("other", {"id": "later"}, every=0.1)
    wait_until(lambda: "later" in rig.handler.seen, "another schedule")
    assert [each for each in rig.handler.seen[count:] if each != "later"] == []


@pytest.mark.parametrize(("catch_up", "pushed"), [("none", []), ("last", ["s@2026"])])
def test_missed_ticks_are_caught_up_as_the_schedule_says(
    rig: Rig, plain_client: Any, catch_up: Any, pushed: list[str]
) -> None:
    """It ticks once a year; the last time, no worker ran."""
    queue = rig.queue_of()
    queue.schedules.put("s", {}, cron="0 0 1 1 *", catch_up=catch_up)
    before = datetime.fromisoformat("2023-06-01T00:00+00:00").timestamp()
    plain_client.hset(f"{queue.name}TICKS", "s", int(before * 1_000_000))
    year = datetime.fromtimestamp(plain_client.time()[0]).year
    rig.work(queue)
    queue.schedules.put("often", {"id": "often"}, every=0.1)
    rig.handler.wait_for(4)
    yearly = [each for each in rig.handler.seen if each != "often"]
    expected = [f"s@{year}-01-01T00:00:00+00:00"] if pushed else []
    assert yearly == expected


def test_a_unique_schedule_pushes_nothing_while_its_message_is_queued(rig: Rig) -> None:
    queue = rig.queue_of()
    seen: list[str] = []
    done = threading.Event()

    async def handle(message: Message) -> None:
        seen.append(str(message.id))
        while message.id == "once" and not done.is_set():
            await asyncio.sleep(0.01)

    for _ in range(2):
        rig.work(queue, handle, concurrency=2)
    queue.schedules.put("once", {}, every=0.1, unique="done")
    queue.schedules.pause("once")
    queue.schedules.resume("once")
    wait_until(lambda: "once" in seen, "the first tick")
    queue.schedules.put("other", {"id": "other"}, every=0.1)
    wait_until(lambda: seen.count("other") >= 5, "five ticks of the other")
    assert seen.count("once") == 1
    done.set()
    wait_until(lambda: seen.count("once") >= 2, "the next tick")


def test_a_paused_schedule_pushes_nothing(rig: Rig) -> None:
    queue = rig.queue_of()
    queue.schedules.put("beat", {"id": "beat"}, every=0.1)
    queue.schedules.pause("beat")
    queue.schedules.put("other", {"id": "other"}, every=0.1)
    rig.work(queue)
    rig.handler.wait_for(4)
    assert {*rig.handler.seen} == {"other"}
    queue.schedules.resume("beat")
    wait_until(lambda: "beat" in rig.handler.seen, "the resumed one")
