"""What a health check decides and answers, with no server."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import redis

from ackq.worker import Health
from ackq.worker import health as health_module
from ackq.worker.health import MAX_TAKE
from tests.worker.by_hand import Time, message_of, ready, state_of

AWAY = redis.ConnectionError("gone")


def _watched(health: Health, state: Any, *stats: Any) -> int:
    """Answer the calls of one check; return how many there were."""
    steps = health.watch(state)
    asked = 0
    try:
        next(steps)
        for each in stats:
            asked += 1
            steps.throw(each) if isinstance(each, Exception) else steps.send(each)
    except StopIteration:
        return asked
    raise AssertionError("it asks for more")


def _at(health: Health, state: Any, time: Time, now: float, *stats: Any) -> str:
    time.now = now
    assert _watched(health, state, *stats) == len(stats)
    return health.reason


def test_the_file_is_guarded_by_a_thread_that_ends_with_the_check(tmp_path: Path) -> None:
    file = tmp_path / "healthy"
    before = set(threading.enumerate())
    health = Health(file=file)
    with health:
        (guard,) = set(threading.enumerate()) - before
        assert guard.daemon
        health.show("")
        assert file.exists()
    guard.join(10)
    assert not guard.is_alive()
    assert not file.exists()
    health.close()  # nothing is left


class Rounds:
    """The event that a guard waits for: a step of the test for each of its rounds, then the end."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        self._steps = iter(steps)

    def wait(self, seconds: float) -> bool:
        assert seconds == 1.0
        step = next(self._steps, None)
        if step is not None:
            step()
        return step is None


def test_the_guard_removes_the_file_when_the_loop_hangs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, time = tmp_path / "healthy", Time()
    monkeypatch.setattr(health_module, "time", SimpleNamespace(monotonic=time))
    health = Health(file=file, stalled_after=5.0, interval=1.0)
    hung = "health: the worker's loop has not been seen for 9 s"

    def show_green() -> None:
        health.show("")
        time.now += 8.0  # three intervals more than it may be stuck

    def hang() -> None:
        assert file.exists()
        time.now += 1.0

    def stay_hung() -> None:
        assert not file.exists()
        assert caplog.messages[-1:] == [hung]
        file.mkdir()  # what cannot be removed

    def go_on() -> None:
        file.rmdir()
        file.write_text("left by hand")

    def show_red() -> None:
        assert not file.exists()
        health.show("red")
        file.write_text("left by hand")

    def be_red() -> None:
        assert file.exists()  # a reason of its own is shown where it is found

    rounds = Rounds(show_green, hang, stay_hung, go_on, show_green, hang, show_red, be_red)
    monkeypatch.setattr(health, "_ended", rounds)
    health._guard()
    assert caplog.messages == [hung, hung, "health: red"]


def test_work_is_stuck_from_exactly_the_time_on_that_was_chosen(tmp_path: Path) -> None:
    state, time = state_of()
    health = Health(file=tmp_path / "x", stalled_after=5.0, interval=1.0)
    state.feed.last_take = 99.0
    assert _at(health, state, time, 100.0, ready(3)) == ""  # an interval has passed
    assert _at(health, state, time, 104.999, ready(3)) == ""
    assert _at(health, state, time, 105.999, ready(3)) == (
        "none taken for 6 s while ready: 3 in 'q0'"
    )
    assert (tmp_path / "x").exists() is False
    health = Health(port=0, stalled_after=5.0, interval=1.0)
    assert _at(health, state, time, 110.0, ready(3)) == ""
    assert _at(health, state, time, 115.0, ready(3)) != ""
    state.feed.last_take = 115.0
    assert _at(health, state, time, 116.0) == ""  # something was taken since
    assert _at(health, state, time, 117.0, ready(3)) == ""  # and counting restarts
    assert _at(health, state, time, 121.999, ready(3)) == ""
    assert _at(health, state, time, 122.999, ready(3)) != ""


def test_a_check_is_made_once_in_an_interval() -> None:
    state, time = state_of()
    health = Health(port=0, interval=2.0)
    state.feed.last_take = 0.0
    for now, asked in ((100.0, 1), (101.999, 0), (102.0, 1), (103.0, 0), (104.0, 1)):
        time.now = now
        assert _watched(health, state, *[ready(0)] * asked) == asked


def test_a_busy_or_stopping_worker_is_not_asked() -> None:
    for change in ("stopping", "quiet", "last_take"):
        state, time = state_of()
        health = Health(port=0, interval=1.0)
        if change == "last_take":
            state.feed.last_take = 99.5
        else:
            setattr(state, change, True)
        assert _at(health, state, time, 100.0) == ""


def test_an_error_or_a_pause_says_nothing_against_a_worker() -> None:
    state, time = state_of(queues=2)
    health = Health(port=0, stalled_after=1.0, interval=1.0)
    state.feed.last_take = 0.0
    assert _at(health, state, time, 100.0, ready(1), ready(0)) == ""
    assert _at(health, state, time, 102.0, ready(1), ready(9, paused=True)) == (
        "none taken for 2 s while ready: 1 in 'q0'"
    )
    assert _at(health, state, time, 103.0, AWAY) == ""
    assert _at(health, state, time, 104.0, ready(1), ready(2)) == (
        "none taken for 4 s while ready: 1 in 'q0', 2 in 'q1'"
    )
    assert _at(health, state, time, 105.0, ready(0), ready(0)) == ""
    assert _at(health, state, time, 106.0, ready(1), ready(0)) == ""


def test_a_silent_take_is_noticed_after_its_longest_time() -> None:
    state, time = state_of(queues=2)
    state.quiet = True
    health = Health(port=0, stalled_after=5.0, interval=0.001)
    state.lanes[1].take.asked_at = 100.0
    assert _at(health, state, time, 105.0 + MAX_TAKE) == ""
    assert _at(health, state, time, 105.5 + MAX_TAKE) == (
        "no answer from Redis for 6 s, queue 'q1'"
    )
    state.stopping = True
    assert _at(health, state, time, 106.0 + MAX_TAKE) == ""


def test_the_figures_of_slots_are_counted_with_each_check() -> None:
    state, time = state_of()
    health = Health(port=0)
    state.slots[2].message = message_of(time)
    assert health.figures is not None
    health.figures.add("q0", "ack", 0.5, 2.0)
    _watched(health, state)
    assert (health.figures.busy, health.figures.concurrency) == (1, 4)
    assert not health.figures._finished


def _body(answer: Any) -> Any:
    return orjson.loads(answer.body)


@pytest.mark.parametrize(
    ("outcome", "fails"), [("nack", True), ("reject", True), ("release", False)]
)
def test_it_says_that_every_delivery_fails_and_stays_green(outcome: str, fails: bool) -> None:
    health = Health(port=0)
    assert health.figures is not None

    def seen() -> list[tuple[str, str]]:
        answer = health._answer("/healthz", {})
        assert answer.status == 200
        return [(each["kind"], each["queue"]) for each in _body(answer)["troubles"]]

    for number in range(19):
        health.figures.add("jobs", outcome, 0.1, None, task=f"task {number % 2}")
    health.figures.add("other", "nack", 0.1, None)
    assert seen() == []
    health.figures.add("jobs", outcome, 0.1, None)
    assert seen() == [("all_fail", "jobs")] * fails
    health.figures.add("jobs", "ack", 0.1, None)
    assert seen() == []
