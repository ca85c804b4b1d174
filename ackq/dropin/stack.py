"""Whether the functions that took a message have ended, and how.

A message may be settled without being asked for only on proof that its work is done. What the
hooks for unhandled exceptions tell is no proof: they miss `SystemExit` out of a signal handler,
what an executor keeps in its future, and the exception that a supervising loop catches before
it starts the consumer again. The frames themselves tell: one that has ended stands at the
instruction that ended it, and that is a return or it is not.
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
#: A function that names one of these may catch Ctrl-C and return: returning proves nothing.
_CATCHES_ALL = frozenset({"KeyboardInterrupt", "BaseException"})


class CallStack:
    """The functions that were running, in one thread, when a message was taken.

    Holds on to their frames, so to their variables, until it is dropped.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self.thread = threading.current_thread()
        self._frames = _chain(frame)

    def failed(self) -> bool:
        """Whether one of them was ended by an exception, whoever caught it further out."""
        return any(not _suspended(frame) and not _returned(frame) for frame in self._ended())

    def done(self) -> bool:
        """Whether all of them have returned, and none may have swallowed a Ctrl-C to do so."""
        ended = self._ended()
        return len(ended) == len(self._frames) and all(
            _returned(frame) and _CATCHES_ALL.isdisjoint(frame.f_code.co_names) for frame in ended
        )

    def _ended(self) -> list[FrameType]:
        """Return those that are not on the thread's stack now: ended, or suspended."""
        stack: list[FrameType] = []
        if self.thread is threading.current_thread():
            stack = _chain(sys._getframe())
        elif self.thread.is_alive():
            # An identifier is used again once its thread has ended.
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
