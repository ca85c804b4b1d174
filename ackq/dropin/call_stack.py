"""When a popped message counts as done.

The rule, in one sentence: **a message is done when its consumer asks for the next one, unless a
function that was running when the message was popped has ended with an exception since.**

A consumer is a thread, or a task on asyncio. This module decides the second half of the sentence.
Exception hooks cannot: they miss a `SystemExit` from a signal handler, an exception that an
executor keeps in its future, and one that a supervising loop catches before it restarts the
consumer. So a `CallStack` keeps the frames of the functions that were running. CPython leaves
``f_lasti`` of an ended frame at its last instruction: a return, or else the one that raised.

Where the rule stands, each with a test in tests/dropin/test_call_stack.py:

- Tracing, profiling, coverage, ``sys.monitoring``, specialisation and ``python -O`` change nothing,
  because ``co_code`` is the original byte code.
- A generator or coroutine that is suspended at a yield or an await has not failed, and is not done.
- `check_interpreter` tries the rule out on functions that return, raise, yield and await. On an
  interpreter that gives a wrong answer, the drop-in cannot be constructed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import functools
import gc
import inspect
import sys
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

from ackq.errors import ConfigurationError

_RETURNS = frozenset(dis.opmap.get(name) for name in ("RETURN_VALUE", "RETURN_CONST"))
_SUSPENDS = frozenset(dis.opmap.get(name) for name in ("YIELD_VALUE", "RESUME", "SEND"))
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
#: A function that mentions one of these may catch Ctrl-C and return, so its return is no proof.
_CATCHES_ALL = frozenset({"KeyboardInterrupt", "BaseException"})


class CallStack:
    """The functions that were running when a message was popped, innermost first.

    Keeps their frames, and so their variables, alive until it is dropped.
    """

    __slots__ = ("_frames",)

    def __init__(self, frame: FrameType, outermost: FrameType | None = None) -> None:
        """Remember ``frame`` and its callers.

        Args:
            frame: the function that is running now.
            outermost: the last caller to remember. Defaults to None, all of them.
        """
        self._frames = _chain(frame, outermost)

    def failed(self) -> bool:
        """Return whether any of them ended with an exception, even if a caller caught it."""
        return any(_has_ended(frame) and _failed(frame) for frame in self._frames)

    def done(self) -> bool:
        """Return whether all have returned, and none can have returned by swallowing Ctrl-C."""
        return all(
            _has_ended(frame)
            and _returned(frame)
            and _CATCHES_ALL.isdisjoint(frame.f_code.co_names)
            for frame in self._frames
        )


@functools.cache
def check_interpreter() -> None:
    """Try the rule out on this interpreter, once.

    Raises:
        ConfigurationError: it cannot tell functions that returned from functions that raised.
    """
    if not all(_judges(trial, failed) for trial, failed in _TRIALS):
        raise ConfigurationError(
            f"ackq.dropin cannot tell on {sys.implementation.name} {sys.version.split()[0]} whether"
            " a function returned or raised, which decides whether its message is done. Use"
            " ackq.Queue, where you ack each message yourself"
        )


def outermost(task: Any) -> FrameType | None:
    """Return the frame of the coroutine that an asyncio task runs, or None for anything else."""
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    frame: FrameType | None = getattr(coroutine, "cr_frame", None)
    return frame


def _judges(trial: Callable[[list[FrameType]], object], failed: bool) -> bool:
    """Return whether the function that ``trial`` runs and puts into a list is judged rightly."""
    frames: list[FrameType] = []
    with contextlib.suppress(ArithmeticError):
        trial(frames)
    return len(frames) == 1 and _has_ended(frames[0]) and _failed(frames[0]) is failed


def _return(frames: list[FrameType]) -> None:
    _note_running(sys._getframe(), frames)


def _raise(frames: list[FrameType]) -> None:
    _note_running(sys._getframe(), frames)
    raise ArithmeticError


def _close(frames: list[FrameType]) -> None:
    running = _yielding()
    _note_running(next(running), frames)
    running.close()


def _return_after_await(frames: list[FrameType]) -> None:
    running = _awaiting()
    _note_running(running.send(None), frames)
    with contextlib.suppress(StopIteration):
        running.send(None)


def _raise_in_await(frames: list[FrameType]) -> None:
    running = _awaiting()
    _note_running(running.send(None), frames)
    running.throw(ArithmeticError())


def _note_running(frame: FrameType, frames: list[FrameType]) -> None:
    if not _has_ended(frame):
        frames.append(frame)


def _yielding() -> Generator[FrameType]:
    yield sys._getframe()


async def _awaiting() -> None:
    await _Pause(sys._getframe())


class _Pause:
    def __init__(self, frame: FrameType) -> None:
        self._frame = frame

    def __await__(self) -> Generator[FrameType]:
        yield self._frame


#: Functions to judge, each with whether it fails.
_TRIALS: tuple[tuple[Callable[[list[FrameType]], object], bool], ...] = (
    (_return, False),
    (_raise, True),
    (_return_after_await, False),
    (_raise_in_await, True),
    (_close, False),
)


def _chain(frame: FrameType | None, outermost: FrameType | None = None) -> list[FrameType]:
    frames = []
    while frame is not None:
        frames.append(frame)
        if frame is outermost:
            break
        frame = frame.f_back
    return frames


def _has_ended(frame: FrameType) -> bool:
    """Return whether its function neither runs nor is suspended.

    A running function's variables belong to the thread, a suspended one's to the generator or
    coroutine. Only after the end do they belong to the frame, which then refers to them.
    """
    code = frame.f_code
    # By identity: variables of the user's may be compared to the code in any way.
    return any(referent is code for referent in gc.get_referents(frame))


def _failed(ended: FrameType) -> bool:
    last = _last_instruction(ended)
    # A generator that ended at a yield was closed, as by a break. If it was not, but an exception
    # was thrown into it or came from within, then its caller got that exception too.
    closed = ended.f_code.co_flags & _GENERATOR and last in _SUSPENDS
    return last not in _RETURNS and not closed


def _returned(ended: FrameType) -> bool:
    return _last_instruction(ended) in _RETURNS


def _last_instruction(frame: FrameType) -> int:
    return frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else -1
