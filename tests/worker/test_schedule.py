"""Ticks: each pushed once, however many workers, and the missed ones counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ackq.errors import ConfigurationError
from ackq.worker import Schedule

from .conftest import settled


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)


def test_many_workers_push_a_tick_once(queue_of: Any, work: Any, handler: Any) -> None:
    queue = queue_of()
    schedule = Schedule("beat", {"task": "beat"}, every=0.2)
    for _ in range(3):
        work(queue, handler, schedules=[schedule])
    handler.wait_for(8)
    assert len(set(handler.seen)) == len(handler.seen)
    at = [datetime.fromisoformat(each.removeprefix("beat@")) for each in handler.seen]
    steps = {
        round((b - a).total_seconds(), 3) for a, b in zip(sorted(at), sorted(at)[1:], strict=False)
    }
    assert steps == {0.2}


def test_ticks_that_nobody_was_there_for_are_skipped_and_counted(
    queue_of: Any, work: Any, handler: Any, embedded_client: Any
) -> None:
    queue = queue_of()
    seconds, _ = embedded_client.time()
    embedded_client.hset(f"{queue.name}TICKS", "beat", (int(seconds) - 100) * 1_000_000)
    first = work(queue, handler, schedules=[Schedule("beat", b"tick", every=1)])
    handler.wait_for(2)
    assert 99 <= int(embedded_client.hget(f"{queue.name}TICKS", "beat:missed")) <= 102
    first.stop()
    first.join()
    assert len(handler.seen) <= 4


def test_a_message_may_be_made_for_its_tick(queue_of: Any, work: Any, handler: Any) -> None:
    queue = queue_of()
    made = []

    def make(tick: datetime) -> dict[str, Any]:
        made.append(tick)
        if len(made) == 1:
            raise RuntimeError("the first one fails")
        return {"id": f"made-{len(made)}", "at": tick.timestamp()}

    work(queue, handler, schedules=[Schedule("beat", make, every=0.1)])
    handler.wait_for(2)
    assert handler.seen[0] == "made-2"


def test_a_schedule_may_name_one_of_several_queues(
    queue_of: Any, work: Any, handler: Any, token: str
) -> None:
    first, second = queue_of("-1"), queue_of("-2")
    work(first, handler, schedules=[Schedule("beat", {}, every=0.1, queue=first.name)])
    handler.wait_for(1)
    with pytest.raises(ConfigurationError, match="no queue"):
        work(first, handler, start=False, schedules=[Schedule("b", {}, every=1, queue="nope")])
    assert settled(second)


def test_cron_follows_its_time_zone_through_daylight_saving() -> None:
    schedule = Schedule("night", {}, cron="30 3 * * *", tz=ZoneInfo("Europe/Berlin"))
    assert schedule.after(us("2026-03-28T12:00+00:00")) == us("2026-03-29T01:30+00:00")
    assert schedule.after(us("2026-03-29T12:00+00:00")) == us("2026-03-30T01:30+00:00")
    assert schedule.after(us("2026-10-25T12:00+00:00")) == us("2026-10-26T02:30+00:00")
    # Six fields: seconds first.
    schedule = Schedule("often", {}, cron="*/20 * * * * *")
    assert schedule.after(us("2026-01-01T00:00:05+00:00")) == us("2026-01-01T00:00:20+00:00")


@pytest.mark.parametrize("settings", [{"every": 60}, {"cron": "* * * * *"}], ids=["every", "cron"])
def test_ticks_between_two_instants_are_counted(settings: Any) -> None:
    schedule = Schedule("minute", {}, tz=UTC, **settings)
    first, last = us("2026-01-01T00:00+00:00"), us("2026-01-01T00:10+00:00")
    assert schedule.between(first, last) == 9
    assert schedule.between(first, schedule.after(first)) == 0
    assert schedule.newest(first, last + 59_000_000) == last


@pytest.mark.parametrize(
    "settings",
    [{}, {"every": 1, "cron": "* * * * *"}, {"every": 0}, {"cron": "61 * * * *"},
     {"cron": "0 0 31 2 *"}, {"cron": "nonsense"}],
    ids=str,
)  # fmt: skip
def test_a_schedule_without_sense_is_refused(settings: Any) -> None:
    with pytest.raises(ConfigurationError):
        Schedule("x", {}, **settings)
