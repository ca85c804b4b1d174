"""The rule that decides whether a message is done, under everything that may watch a program."""

import cProfile
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from ackq.dropin import call_stack
from ackq.dropin.call_stack import CallStack, check_interpreter
from tests.dropin.endings import Boom, check_all, pop


def test_every_way_to_end() -> None:
    check_all()


@contextmanager
def tracing() -> Iterator[None]:
    def trace(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def profiling() -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def monitoring() -> Iterator[None]:
    watch = getattr(sys, "monitoring", None)
    if watch is None:
        pytest.skip("sys.monitoring came with Python 3.12")
    events = watch.events
    every = events.PY_START | events.PY_RETURN | events.LINE | events.INSTRUCTION | events.CALL
    watch.use_tool_id(4, "test")
    watch.set_events(4, every)
    try:
        yield
    finally:
        watch.set_events(4, 0)
        watch.free_tool_id(4)


@pytest.mark.parametrize("watching", [tracing, profiling, monitoring, cProfile.Profile])
def test_what_watches_a_program_changes_nothing(watching: Callable[[], Any]) -> None:
    with watching():
        check_all()
        check_interpreter.__wrapped__()


def test_from_another_thread() -> None:
    """While the functions run they have not failed, however often one looks."""
    kept: list[CallStack] = []
    popped, go = threading.Event(), threading.Event()

    def consume() -> None:
        kept.append(pop())
        popped.set()
        go.wait(30)
        raise Boom

    thread = threading.Thread(target=ignore_boom, args=(consume,))
    thread.start()
    assert popped.wait(30)
    assert not any(kept[0].failed() or kept[0].done() for _ in range(1000))
    go.set()
    thread.join()
    assert kept[0].failed()


def ignore_boom(function: Callable[[], None]) -> None:
    with suppress(Boom):
        function()


@pytest.mark.parametrize("options", [["-O"], ["-OO"], ["-X", "dev"], ["-X", "importtime"]])
def test_other_ways_to_start_python(options: list[str]) -> None:
    text = "from tests.dropin.endings import check_all; check_all(); print('fine')"
    command = [sys.executable, *options, "-c", text]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "fine\n"


def test_an_interpreter_that_the_rule_does_not_hold_on(monkeypatch: pytest.MonkeyPatch) -> None:
    check_interpreter.__wrapped__()
    for name, wrong in (
        ("_has_ended", lambda frame: False),
        ("_has_ended", lambda frame: True),
        ("_failed", lambda frame: True),
        ("_failed", lambda frame: False),
        ("_RETURNS", frozenset()),
        ("_SUSPENDS", frozenset()),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(call_stack, name, wrong)
            with pytest.raises(ackq.ConfigurationError, match=r"cannot tell on .*ackq\.Queue"):
                check_interpreter.__wrapped__()


def test_an_interpreter_is_checked_before_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_stack, "_RETURNS", frozenset())
    check_interpreter.cache_clear()
    with pytest.raises(ackq.ConfigurationError, match="cannot tell"):
        dropin.Redis(redis.Redis(), hold=0)
    check_interpreter.cache_clear()
