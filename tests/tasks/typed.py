"""Calls that type checkers accept, and calls that they must reject: see test_typing.py.

A line that ends in ``# wrong`` is an error for mypy --strict and for pyright.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ackq import Message, Pushed
from ackq.tasks import AsyncTasks, Failed, Later, Reject, State, Tasks, injected

tasks = Tasks("redis://localhost")
web = AsyncTasks("redis://localhost")


@tasks.task
def resize(path: str, width: int = 80) -> str:
    return path


@tasks.task(name="pay", max_receives=5, time_limit=30)
def pay(amount: int, *, pool: State[dict[str, int]] = injected) -> Later | Reject | None:
    pool["used"] = amount
    return Later(60) if amount else Reject("why")


@web.task
async def fetch(url: str, message: Message = injected) -> bytes:
    return message.body


@tasks.task(max_receives="5")  # wrong
def refused() -> None: ...


@tasks.batch(size=500, wait=0.2, time_limit=60)
def store(rows: list[int], messages: list[Message] = injected) -> Failed | None:
    return Failed({messages[0]: OSError()})


@web.batch()
async def embed(texts: list[str]) -> bytes:
    return b""


@tasks.task(retry=3)  # wrong
def never() -> None: ...


@tasks.task(breaker=5, options={"delay": 5})  # wrong
def broken() -> None: ...


@tasks.task(options={"dely": 5})  # wrong
def misspelt() -> None: ...


@tasks.batch(max_receives="5")  # wrong
def refused_too(rows: list[int]) -> None: ...


@tasks.middleware
def around(message: Message, call: Callable[[], Any]) -> Any:
    return call()


def calls() -> None:
    text: str = resize("a.png")
    pushed: Pushed = resize.push("a.png", width=40)
    resize.options(delay=60, id="a-1").push("a.png", 40)
    pay.push(5)
    print(text, pushed.stored)
    resize.options(dely=5)  # wrong
    resize.options(delay="5")  # wrong
    resize.options(unique="dne")  # wrong
    resize.options(unique="done", unique_by=["path"], group=5, front=True, expires=5)
    resize.push(5)  # wrong
    resize.push()  # wrong
    resize.push("a.png", height=40)  # wrong
    resize.options(delay=60).push("a.png", width="40")  # wrong
    resize("a.png", "40")  # wrong
    pay.push("5")  # wrong
    failed: Failed | None = store([1, 2])
    store.push(1)
    store.options(delay=5).push(1)
    store.push([1])  # wrong
    store.push("1")  # wrong
    store(["1"])  # wrong
    print(failed)
    number: int = resize("a.png")  # wrong
    print(number)


async def awaits() -> None:
    body: bytes = await fetch("u")
    pushed: Pushed = await fetch.push("u")
    print(body, pushed)
    body = await embed(["text"])
    await embed.push("text")
    await embed.push(5)  # wrong
    await fetch.push(5)  # wrong
    fetch.options(expire=5)  # wrong
    await fetch.options(expires=5).push("u", "v")  # wrong
