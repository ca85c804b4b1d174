"""Read the key that ends a live view."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: ``pressed(seconds)``: wait that long, and return whether q was pressed.
Pressed = Callable[[float], bool]


@contextmanager
def keys() -> Iterator[Pressed]:
    """Read single keys from the terminal while the block runs. Without a terminal, only wait."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield _asleep
        return
    if not sys.stdin.isatty() or _in_background():
        yield _asleep
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield lambda seconds: _pressed(number, seconds)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _asleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _in_background() -> bool:
    """Return whether this is a background job, which the shell stops if it reads the terminal."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp()
    except OSError:
        return False  # no job control


def _pressed(number: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if not select.select([number], [], [], left)[0]:
            continue
        read = os.read(number, 64)
        if not read:  # the terminal is gone
            return True
        if b"q" in read.lower():
            return True
    return False
