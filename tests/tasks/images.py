"""Tasks that processes of ``ackq work`` and ``ackq tasks`` import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

import orjson
from pydantic import BaseModel

from ackq import Message
from ackq.tasks import AsyncTasks, Retry, State, Tasks, injected

#: The queue's name begins with what the test set.
TOKEN = os.environ.get("TASKS_TOKEN", "images")


@contextmanager
def lifespan() -> Iterator[dict[str, str]]:
    write("enter")
    yield {"greeting": "hello"}
    write("leave")


tasks = Tasks("redis://nowhere.invalid", queue=TOKEN, lifespan=lifespan)
web = AsyncTasks("redis://nowhere.invalid", queue=TOKEN)


class Address(BaseModel):
    street: str


class Owner(BaseModel):
    email: str
    address: Address | None = None


@dataclass
class Size:
    width: int
    price: Decimal = Decimal(1)


def write(event: str, **fields: object) -> None:
    """Write a line into the journal of the test."""
    with open(os.environ["JOURNAL"], "ab") as journal:
        journal.write(orjson.dumps({"event": event, "pid": os.getpid(), **fields}) + b"\n")


@tasks.task(name="images.resize", max_receives=5, time_limit=30)
def resize(
    path: str,
    size: Size,
    owner: Owner | None = None,
    greeting: State[str] = injected,
    message: Message = injected,
) -> None:
    """Resize a picture."""
    write("resize", path=path, width=size.width, greeting=greeting, queue=message.queue)
    if path == "again":
        note.push(text=path)


@tasks.task(name="images.note", queue=f"{TOKEN}-notes")
def note(text: str = "") -> None:
    write("note", text=text)


@tasks.task(name="images.stuck", time_limit=0.3, max_receives=1)
def stuck() -> None:
    import ctypes

    write("stuck")
    ctypes.PyDLL(None).sleep(60)  # keeps Python's lock


@tasks.task(name="images.final", time_limit=0.3, retry=Retry(never=(TimeoutError,)))
def final() -> None:
    stuck()


@tasks.batch(2, 5, name="images.store", queue=f"{TOKEN}-rows", time_limit=0.3)
def store(rows: list[int], messages: list[Message] = injected) -> None:
    import ctypes

    write("store", rows=rows, counts=[message.receive_count for message in messages])
    if messages[0].receive_count == 1:
        ctypes.PyDLL(None).sleep(60)


@web.task(name="web.fetch")
async def fetch(url: str) -> None:
    write("fetch", url=url)
