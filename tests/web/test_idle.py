"""The timer that closes the page's connections, with time that passes by hand."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ackq.web import idle
from ackq.web.idle import IdleTimer


class Clock:
    """What `ackq.web.idle` uses of `time` and `threading`."""

    Lock = staticmethod(threading.Lock)

    def __init__(self) -> None:
        self.now = 0.0
        self.running: Timer | None = None
        self.timers: list[Timer] = []

    def monotonic(self) -> float:
        return self.now

    def current_thread(self) -> Timer | None:
        return self.running

    def Timer(self, seconds: float, act: Any) -> Timer:
        self.timers.append(Timer(self, seconds, act))
        return self.timers[-1]


class Timer:
    """A timer that fires when `Clock.now` is set and `fire` is called."""

    def __init__(self, clock: Clock, seconds: float, act: Any) -> None:
        self._clock, self._act = clock, act
        self.at = clock.now + seconds
        self.canceled = False

    def start(self) -> None:
        assert self.daemon  # type: ignore[attr-defined]

    def cancel(self) -> None:
        self.canceled = True

    def fire(self) -> None:
        self._clock.now, self._clock.running = self.at, self
        self._act()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(idle, "time", made)
    monkeypatch.setattr(idle, "threading", made)
    return made


def test_it_acts_once_when_nothing_was_touched_for_the_whole_time(clock: Clock) -> None:
    acts: list[float] = []
    timer = IdleTimer(5.0, lambda: acts.append(clock.now))
    timer.touch()
    clock.now = 3.0
    timer.touch()
    (first,) = clock.timers
    first.fire()
    assert acts == []
    clock.timers[1].fire()
    assert (acts, len(clock.timers)) == ([8.0], 2)
    timer.touch()
    assert clock.timers[2].at == 13.0


def test_a_canceled_timer_does_nothing_until_the_next_touch(clock: Clock) -> None:
    acts: list[float] = []
    timer = IdleTimer(5.0, lambda: acts.append(clock.now))
    timer.cancel()
    timer.touch()
    timer.cancel()
    (first,) = clock.timers
    assert first.canceled
    first.fire()  # it was too late to cancel it
    assert acts == []
    timer.touch()
    clock.timers[1].fire()
    assert acts == [10.0]
