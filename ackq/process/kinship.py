"""What Linux offers between parents and children: a signal at the parent's death, and adoption."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Collection

_SET_DEATH_SIGNAL, _GET_SUBREAPER = 1, 37
#: Sent when the parent dies. Nothing else uses this signal.
DEATH = getattr(signal, "SIGSTKFLT", None)


def die_after_parent(death: signal.Signals | None = DEATH) -> None:
    """Let the kernel end this process, some seconds after its parent, if no Python code can run.

    A handler in C code may hold Python's lock for ever, so that no thread and no signal handler in
    Python runs. Therefore the signal handler is a function of the C library: ``alarm``, which gets
    the number of the signal, 16, and takes it as a number of seconds. After these, SIGALRM ends the
    process, unless Python code has run and has called `survive_parent` meanwhile.

    Call this in the main thread. Without Linux, do nothing.
    """
    if sys.platform != "linux" or death is None:
        return
    library = ctypes.CDLL(None)
    library.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.signal(death, ctypes.cast(library.alarm, ctypes.c_void_p))
    library.prctl(_SET_DEATH_SIGNAL, int(death), 0, 0, 0)


def survive_parent() -> None:
    """Go on, since Python code runs: the process ends by itself."""
    signal.alarm(0)


def adopts() -> bool:
    """Return whether processes become children of this one when their own parents die."""
    if os.getpid() == 1:
        return True
    if sys.platform != "linux":
        return False
    answer = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(_GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def reap_adopted(own: Collection[int | None]) -> None:
    """Collect the exit codes of adopted processes, which would stay as zombies otherwise.

    Args:
        own: the children whose exit codes this process waits for itself. If one of them has
            ended, the others may have to wait until its code is collected.
    """
    while (ended := _ended_child()) is not None and ended not in own:
        os.waitpid(ended, 0)


def _ended_child() -> int | None:
    """Return a child that has ended, and leave its exit code there."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else None
