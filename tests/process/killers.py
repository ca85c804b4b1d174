"""Handlers that end their process if the message says so."""

import asyncio
import contextlib
import ctypes
import os
import re
import resource
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from ackq import Message
from ackq.process.held_messages import HeldMessages
from ackq.tasks import Tasks

from .jobs import note, write

_ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
#: When the process was started, by the clock of `time.monotonic`.
STARTED = int(_ticks) / os.sysconf("SC_CLK_TCK")
write({"event": "import", "pid": os.getpid(), "started": STARTED})


def _end_at_first_take(note: Path) -> None:
    """End this process when the reply to its first take has come, unless another one did so."""

    def taken(self: HeldMessages, queue: str, messages: Sequence[Message]) -> None:
        note.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    if not note.exists():
        HeldMessages.taken = taken  # type: ignore[method-assign]


if (ended := os.environ.get("ENDS_AT_FIRST_TAKE")) is not None:
    _end_at_first_take(Path(ended))


if (gate := os.environ.get("SECOND_WAITS_FOR")) is not None:
    try:
        Path(f"{gate}-first").touch(exist_ok=False)
    except FileExistsError:
        while not Path(gate).exists():
            time.sleep(0.01)


def _fill_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + 64 * 2**20,) * 2)
    try:
        bytearray(2**30)
    except MemoryError:
        os.abort()


def _end_the_machine() -> None:
    """Kill this process, its supervisor and all others of it, at once."""
    supervisor = psutil.Process().parent()
    assert supervisor is not None
    others = [process for process in supervisor.children() if process.pid != os.getpid()]
    for process in (supervisor, *others):
        process.suspend()
    for process in (*others, supervisor):
        process.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def _close_descriptors() -> None:
    """Close whatever the process has open, but not the journal."""
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(each) > 2 and os.readlink(f"/proc/self/fd/{each}") != os.environ["JOURNAL"]:
                os.close(int(each))


#: By the name that the message has for them.
WAYS: dict[str, Callable[[], Any]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "signal": lambda: os.kill(os.getpid(), signal.SIGRTMIN + 1),
    "exit": lambda: os._exit(9),
    "segfault": lambda: ctypes.string_at(0),
    "leave": lambda: os._exit(0),
    "machine": _end_the_machine,
    "supervisor": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "descriptors": _close_descriptors,
    "loop": lambda: asyncio.get_running_loop().stop(),
    "memory": _fill_memory,
    "lock": lambda: re.match(r"(a+)+$", "a" * 60 + "b"),
}


def handle(message: Message) -> None:
    """Do nothing for a while, or end the process."""
    note("begin", message)
    job = message.json()
    time.sleep(job.get("seconds", 0.01))
    if "way" in job and message.receive_count <= job.get("times", 1000):
        WAYS[job["way"]]()
    note("end", message)


TASKS = Tasks(None)


@TASKS.task(name="killing")
def killing(message: Message, seconds: float = 0.01) -> None:
    """The same, as a task."""
    handle(message)


async def handle_async(message: Message) -> None:
    """Do nothing for a while, or end the process."""
    note("begin", message)
    job = message.json()
    await asyncio.sleep(job.get("seconds", 0.01))
    if "way" in job and message.receive_count <= job.get("times", 1000):
        WAYS[job["way"]]()
    note("end", message)
