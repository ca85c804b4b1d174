"""Decide whether a popped message counts as done.

The rule looks at the functions that were running when the message was popped:

- The thread asks for the next message: done, unless one of them ended with an exception.
- The thread or the program ends, nothing was asked for: done only if all of them have returned.

Exception hooks cannot show this. They miss `SystemExit` from a signal handler, an exception kept
in an executor's future, and one that a supervising loop catches before it restarts the consumer.
So the call stack keeps the frames. CPython leaves ``f_lasti`` of an ended frame at its last
instruction: a return, or else the instruction that raised.

- Generators and coroutines: one suspended at a yield or await has not failed, but is not done.
- Tracing, profiling, specialisation: no effect, since ``co_code`` is the original byte code.
- Other interpreters: not supported. Without CPython's opcodes this module fails on import.
  An unexpected instruction counts as an exception: the message is redelivered, never lost.
"""

from __future__ import annotations

import dis
import inspect
import sys
import threading
from types import FrameType

_RETURNS = frozenset(dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST")
                     if name in dis.opmap)  # fmt: skip
_SUSPENDS = frozenset(dis.opmap[name] for name in ("YIELD_VALUE", "RESUME", "SEND"))
_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
#: A function that mentions one of these may catch Ctrl-C and return, so its return is no proof.
_CATCHES_ALL = frozenset({"KeyboardInterrupt", "BaseException"})


class CallStack:
    """The functions that were running in one thread when a message was popped.

    Keeps their frames, and so their variables, alive until it is dropped.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self.thread = threading.current_thread()
        self._frames = _chain(frame)

    def failed(self) -> bool:
        """Return whether any of them ended with an exception, even if a caller caught it."""
        return any(not _suspended(frame) and not _returned(frame) for frame in self._ended())

    def done(self) -> bool:
        """Return whether all have returned, and none can have returned by swallowing Ctrl-C."""
        ended = self._ended()
        return len(ended) == len(self._frames) and all(
            _returned(frame) and _CATCHES_ALL.isdisjoint(frame.f_code.co_names) for frame in ended
        )

    def _ended(self) -> list[FrameType]:
        """Return the frames that are no longer on the thread's stack: ended or suspended."""
        stack: list[FrameType] = []
        if self.thread is threading.current_thread():
            stack = _chain(sys._getframe())
        elif self.thread.is_alive():
            # Only while the thread is alive: its identifier is reused after it has ended.
            stack = _chain(sys._current_frames().get(self.thread.ident or 0))
        running = set(map(id, stack))
        return [frame for frame in self._frames if id(frame) not in running]


def _chain(frame: FrameType | None) -> list[FrameType]:
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _returned(frame: FrameType) -> bool:
    return _instruction(frame) in _RETURNS


def _suspended(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & _SUSPENDABLE) and _instruction(frame) in _SUSPENDS


def _instruction(frame: FrameType) -> int:
    return frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else -1
