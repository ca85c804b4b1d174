"""Ticks: each pushed once, however many workers, and the missed ones counted."""

import json
import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from redis.exceptions import ResponseError

from ackq.config import QueueConfig
from ackq.errors import ConfigurationError
from ackq.worker import Schedule
from ackq.worker.effects import Call, Wait
from ackq.worker.outages import Outages
from ackq.worker.schedule import CHECK_INTERVAL, Answer, run_schedule
from tests.waiting import wait_until
from tests.worker.conftest import Rig

#: Times of which a schedule takes one.
BOTH = {"every": 1, "cron": "* * * * *"}


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)


def test_missed_ticks_are_skipped_and_counted(
    plain_client: Any, rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    queue = rig.queue_of()
    seconds, _ = plain_client.time()
    plain_client.hset(f"{queue.name}TICKS", "beat", (int(seconds) - 100) * 1_000_000)
    first = rig.work(queue, schedules=[Schedule("beat", b"tick", every=1)])
    rig.handler.wait_for(2)
    assert 99 <= int(plain_client.hget(f"{queue.name}TICKS", "beat:missed")) <= 102
    first.stop()
    first.join()
    assert len(rig.handler.seen) <= 4
    assert re.search("schedule beat: (99|10[012]) ticks were missed", caplog.text)


def test_a_schedule_may_name_one_of_several_queues(token: str, rig: Rig) -> None:
    first, second = rig.queue_of("-1"), rig.queue_of("-2")
    queues: list[str] = []
    beat = Schedule("beat", {}, every=0.1, queue=second.name)
    rig.work([first, second], lambda message: queues.append(message.queue), schedules=[beat])
    wait_until(lambda: len(queues) >= 2, "two ticks")
    assert set(queues) == {second.name}
    with pytest.raises(ConfigurationError, match="no queue"):
        rig.work(first, start=False, schedules=[Schedule("b", {}, every=1, queue="nope")])


class Scripted:
    """A scheduler's surroundings: a clock that the test sets, and a server that it plays."""

    def __init__(self, schedule: Schedule, version: str = "", **config: Any) -> None:
        self.now = 100.0
        self.stopping = False
        self.config = QueueConfig(**config)
        outages = Outages("jobs", "here")
        self.routine = run_schedule(self, self, schedule, None, outages, version)  # type: ignore[arg-type]
        self.step = next(self.routine)

    def clock(self) -> float:
        return self.now

    def execute(self) -> None:
        """Only named by the call that `asked` reads."""

    def asked(self) -> tuple[int, int, int]:
        """Return the tick, the previous one and the missed ones of the call, in seconds."""
        assert isinstance(self.step, Call)
        _, _, at, previous, missed, *_ = self.step.args
        return at // 1_000_000, previous // 1_000_000, missed

    def answer(self, status: str, latest: int, server: float | None = None) -> None:
        now = self.now if server is None else server
        answer = Answer(status, latest * 1_000_000, round(now * 1_000_000), 0)
        self.step = self.routine.send(answer)

    def awake_at(self, now: float) -> None:
        assert isinstance(self.step, Wait)
        self.now = now
        self.step = self.routine.send(None)


def test_a_scheduler_that_slept_pushes_the_latest_tick_alone() -> None:
    scripted = Scripted(Schedule("beat", b"tick", every=10))
    assert scripted.asked() == (0, 0, 0)
    scripted.answer("known", 100)
    scripted.awake_at(145.0)
    assert scripted.asked() == (140, 100, 3)
    scripted.answer("pushed", 140)
    scripted.awake_at(150.5)
    assert scripted.asked() == (150, 140, 0)


def test_a_schedule_that_was_never_used_has_missed_nothing() -> None:
    scripted = Scripted(Schedule("beat", b"tick", every=10))
    scripted.answer("known", 0)
    scripted.awake_at(145.0)
    assert scripted.asked() == (140, 0, 0)


def test_a_schedule_waits_for_the_next_tick_by_the_clock_of_the_server() -> None:
    scripted = Scripted(Schedule("beat", b"tick", every=10))
    scripted.now -= 3600  # as if the worker's clock were late
    scripted.answer("known", 0, server=107)
    for waited, left in ((0, CHECK_INTERVAL), (2.6, 0.4), (0.4, None)):
        if waited:
            scripted.awake_at(scripted.now + waited)
        assert isinstance(scripted.step, Wait) is (left is not None)
        if isinstance(scripted.step, Wait):
            assert scripted.step.seconds == pytest.approx(left)
    assert scripted.asked() == (110, 0, 0)


def test_an_outage_of_a_schedule_is_named_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    scripted = Scripted(Schedule("beat", b"tick", every=10))
    for _ in range(2):
        scripted.step = scripted.routine.throw(ResponseError("no"))
        scripted.awake_at(scripted.now + 0.5)
        assert scripted.asked() == (0, 0, 0)
    scripted.answer("known", 0)
    assert caplog.messages == [
        "queue jobs: schedule beat failed, the server at here refuses it; trying until it works:"
        " ResponseError: no",
        "queue jobs: schedule beat works again after 1.0 s; calls that failed: 2",
    ]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (lambda tick: {"id": "x" * 600}, "InvalidMessage: "),
        (lambda tick: b"x" * 200, "MessageTooLarge: "),
        (lambda tick: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_tick_whose_message_cannot_be_is_left_out(
    message: Any, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    scripted = Scripted(Schedule("beat", message, every=10), max_body_bytes=100)
    scripted.answer("known", 0)
    scripted.awake_at(110.0)
    assert isinstance(scripted.step, Wait)
    assert caplog.messages[0].startswith(f"schedule beat: no message for a tick: {error}")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        *(({"name": name, "every": 1}, f"cannot be named {name!r}") for name in ("", "a:missed")),
        *(({"name": "s", **times}, "takes every= or cron=") for times in ({}, BOTH)),
    ],
    ids=repr,
)
def test_what_is_wrong_with_a_schedule_is_said(settings: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Schedule(message=b"", **settings)


def test_a_stored_schedule_misses_no_tick_because_workers_notice_it_late() -> None:
    scripted = Scripted(Schedule("beat", b"tick", every=10), version="1")
    scripted.now = 104.0
    scripted.answer("known", 99)  # it was stored five seconds ago
    assert scripted.asked() == (100, 99, 0)
    scripted = Scripted(Schedule("beat", b"tick", every=10), version="1")
    scripted.now = 109.5
    scripted.answer("known", 99)  # it has been there for longer: no worker ran
    scripted.awake_at(110.0)
    assert scripted.asked() == (110, 99, 1)


def test_a_tick_that_was_early_by_the_server_s_clock_is_tried_again() -> None:
    scripted = Scripted(Schedule("beat", b"tick", every=10))
    scripted.answer("known", 100)
    scripted.awake_at(110.0)
    assert scripted.asked() == (110, 100, 0)
    scripted.answer("early", 100)
    if isinstance(scripted.step, Wait):
        scripted.awake_at(110.1)
    assert scripted.asked() == (110, 100, 0)


def test_cron_follows_its_time_zone_through_daylight_saving() -> None:
    schedule = Schedule("night", {}, cron="30 3 * * *", tz=ZoneInfo("Europe/Berlin")).timetable
    assert schedule.after(us("2026-03-28T12:00+00:00")) == us("2026-03-29T01:30+00:00")
    assert schedule.after(us("2026-03-29T12:00+00:00")) == us("2026-03-30T01:30+00:00")
    assert schedule.after(us("2026-10-25T12:00+00:00")) == us("2026-10-26T02:30+00:00")
    # Six fields: seconds first.
    schedule = Schedule("often", {}, cron="*/20 * * * * *").timetable
    assert schedule.after(us("2026-01-01T00:00:05+00:00")) == us("2026-01-01T00:00:20+00:00")


@pytest.mark.parametrize(
    "change", ["2026-03-29T01:00+00:00", "2026-10-25T01:00+00:00"], ids=["spring", "autumn"]
)
def test_every_half_hour_is_that_through_both_changes_of_daylight_saving(change: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    half_hourly = Schedule("often", {}, cron="*/30 * * * *", tz=berlin)
    schedule = half_hourly.timetable
    half_hour = 1_800_000_000
    first = us(change) - 6 * half_hour
    ticks = [first]
    while len(ticks) < 13:
        ticks.append(schedule.after(ticks[-1]))
    assert ticks == [first + number * half_hour for number in range(13)]
    assert schedule.between(first, ticks[-1]) == 11
    assert schedule.newest(first, ticks[-1] + 1) == ticks[-1]
    ids = {json.loads(half_hourly.body(tick, 1000))["id"] for tick in ticks}
    assert len(ids) == 13  # the hour that comes twice is two hours
