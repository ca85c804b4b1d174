"""Handlers for worker processes of the tests. They write what happens into ``$JOURNAL``."""

import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from typing import Any

import redis

from ackq import Message, Queue
from ackq.sharded import ShardedQueue
from ackq.tasks import AsyncTasks, Tasks
from ackq.worker import Schedule

DECLARED = Queue(
    redis.Redis(),
    "declared",
    visibility_timeout=7,
    max_receives=3,
    max_body_bytes=99,
    requeue="back",
)
SHARDED = ShardedQueue(redis.Redis(), "sharded", visibility_timeout=8, max_receives=4)
SCHEDULES = [Schedule("beat", {"task": "beat"}, every=0.1)]

_journal = os.open(os.environ.get("JOURNAL", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def write(line: dict[str, Any]) -> None:
    os.write(_journal, json.dumps(line).encode() + b"\n")


def note(event: str, message: Message) -> None:
    line: dict[str, Any] = {
        "event": event,
        "id": message.id,
        "pid": os.getpid(),
        "receipt": message.receipt,
        "count": message.receive_count,
        "lost": message.lease_lost,
        "at": time.monotonic(),
    }
    write(line)


def watch_itself(longest: float) -> None:
    """Write down when this process was not run for longer than that: leases may have ended."""
    begin = time.monotonic()
    while True:
        time.sleep(0.02)
        end = time.monotonic()
        if end - begin > longest:
            line = {"event": "stall", "pid": os.getpid(), "begin": begin, "end": end}
            write(line)
        begin = end


if (longest := os.environ.get("WATCH_ITSELF")) is not None:
    threading.Thread(target=watch_itself, args=(float(longest),), daemon=True).start()


def quick(message: Message) -> None:
    """Do nothing."""
    note("begin", message)
    note("end", message)


async def quick_async(message: Message) -> None:
    """Do nothing."""
    quick(message)


def scripted(message: Message) -> None:
    """Take as many seconds as the message says."""
    note("begin", message)
    time.sleep(message.json()["seconds"])
    note("end", message)


async def scripted_async(message: Message) -> None:
    """Take as many seconds as the message says, and say when that is cut short."""
    note("begin", message)
    try:
        await asyncio.sleep(message.json()["seconds"])
    except asyncio.CancelledError:
        note("cancelled", message)
        raise
    note("end", message)


async def stubborn(message: Message) -> None:
    """Never end, whatever signal arrives."""
    note("begin", message)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


def stuck(message: Message) -> None:
    """Call C code that never returns, and never lets another thread run, at the first delivery."""
    note("begin", message)
    job = message.json()
    if job.get("stuck") and message.receive_count == 1:
        re.match(r"(a+)+$", "a" * 60 + "b")
    time.sleep(job["seconds"])
    note("end", message)


async def stuck_async(message: Message) -> None:
    """The same, in the loop of all handlers."""
    stuck(message)


def exits(message: Message) -> None:
    """End the process at the first delivery, with the code that the message says."""
    note("begin", message)
    if message.receive_count == 1:
        os._exit(message.json()["code"])
    note("end", message)


def forked(message: Message) -> bool:
    """Fork, and return True in the child; in the parent, write down the child's exit code."""
    note("begin", message)
    if (child := os.fork()) == 0:
        return True
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    note(f"child {code}", message)
    return False


def forks(message: Message) -> None:
    """Go on in a forked child, as the message says."""
    if not forked(message):
        return
    match message.json()["child"]:
        case "raises":
            raise OSError
        case "exits":
            sys.exit(7)


async def forks_async(message: Message) -> None:
    """The same, with a step of the event loop after the fork."""
    child = forked(message)
    await asyncio.sleep(0.01)
    if child:
        note("end", message)


async def steps_async(message: Message) -> None:
    """The same, while other handlers go on between two awaits: none of them may in the child."""
    home = os.getpid()
    forked(message)
    for _ in range(20):
        await asyncio.sleep(0)
        if os.getpid() != home:
            note("step", message)


FORKING = AsyncTasks(os.environ.get("SERVER_OF_TASKS"))


@FORKING.task(name="forks")
def forks_in_a_thread(message: Message) -> None:
    """The same, in a thread beside an event loop."""
    forks(message)


#: The queue whose messages come in batches.
BATCHED = os.environ.get("BATCHED", "batch")
BATCHING, BATCHING_ASYNC = Tasks(None), AsyncTasks(None)


@BATCHING.batch(30, name="batch", queue=BATCHED)
def batch(items: list[int], messages: list[Message]) -> None:
    """Write down each message."""
    for message in messages:
        note("begin", message)


@BATCHING_ASYNC.batch(30, name="batch", queue=BATCHED)
async def batch_async(items: list[int], messages: list[Message]) -> None:
    """The same."""
    batch(items, messages)


def orphans(message: Message) -> None:
    """Leave a process behind whose parent has ended."""
    assert subprocess.run(["sh", "-c", "sleep 3 & exit 7"], check=False).returncode == 7
    note("end", message)


async def in_an_executor(message: Message) -> None:
    """Hand the work to a thread that knows nothing of cancellation."""
    note("begin", message)
    await asyncio.to_thread(time.sleep, message.json()["seconds"])


def seconds_of(message_id: str, lease: float) -> float:
    """Return how long a message of the campaign takes: a twentieth straddle their lease."""
    draw = random.Random(message_id)
    if draw.random() < 0.05:
        return lease * draw.uniform(0.7, 2.7)
    return draw.uniform(0, 0.01)
