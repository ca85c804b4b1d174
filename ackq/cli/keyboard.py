"""Read single keys for a live view."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

#: ``pressed(seconds)``: wait at most that long for keys, and return those that were pressed.
Pressed = Callable[[float], Sequence[str]]

#: The keys that terminals send as more than one byte, without the leading escape.
_NAMED = {
    "[A": "up",
    "[B": "down",
    "[5~": "page up",
    "[6~": "page down",
    "[H": "home",
    "[F": "end",
    "[1~": "home",
    "[4~": "end",
    "OA": "up",
    "OB": "down",
    "OH": "home",
    "OF": "end",
    "": "escape",
}
_PLAIN = {"\r": "enter", "\n": "enter", "\x7f": "escape", "\b": "escape"}
_KEY = re.compile(r"\x1b(\[[0-9;]*[A-Za-z~]|O[A-Za-z]|)|(.)", re.DOTALL)
#: Seconds in which the rest of a key arrives.
_REST = 0.05


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


def names(read: str) -> list[str]:
    """Return the names of the keys that a terminal sends so; an unknown key is left out."""
    pressed = []
    for special, plain in _KEY.findall(read):
        name = _PLAIN.get(plain, plain) if plain else _NAMED.get(special)
        if name is not None:
            pressed.append(name)
    return pressed


def _asleep(seconds: float) -> Sequence[str]:
    time.sleep(seconds)
    return ()


def _in_background() -> bool:
    """Return whether this is a background job, which the shell stops if it reads the terminal."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp()
    except OSError:
        return False  # no job control


def _pressed(number: int, seconds: float) -> Sequence[str]:
    if not select.select([number], [], [], max(0.0, seconds))[0]:
        return ()
    read = os.read(number, 64)
    if not read:  # the terminal is gone
        return ("q",)
    if read.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([number], [], [], _REST)[0]:
        read += os.read(number, 64)
    return names(read.decode(errors="replace"))
