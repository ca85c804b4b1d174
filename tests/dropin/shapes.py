"""The loops that people write around a Redis list, each run in a process of its own.

Each loop works on messages for ever. When it gets a message whose body begins with "hold" for the
first time, it works on it until it is killed.
"""

import asyncio
import importlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

import ackq.dropin.asyncio
from ackq import dropin
from tests.dropin.holding_loops import HOLDING, MORE_THAN_UNFINISHED, SOME

Work = Callable[[bytes], None]
#: Threads of the pool, and tasks.
AT_ONCE = 4


def polling(r: Any, names: Sequence[str], work: Work) -> None:
    """RPOP, and a pause when there is nothing."""
    while True:
        raw = r.rpop(names[0])
        if raw is None:
            time.sleep(0.02)
            continue
        work(raw)


def blocking(r: Any, names: Sequence[str], work: Work) -> None:
    """BRPOP."""
    while True:
        _, raw = r.brpop(names[0])
        work(raw)


def several_lists(r: Any, names: Sequence[str], work: Work) -> None:
    """BRPOP of several lists, and a forked child for each message."""
    while True:
        found = r.brpop(names, timeout=1)
        if found is None:
            continue
        child = os.fork()
        if child == 0:
            work(found[1])
            os._exit(0)
        os.waitpid(child, 0)


def thread_pool(r: Any, names: Sequence[str], work: Work) -> None:
    """Threads that share a client, each with a loop of its own."""
    threads = [threading.Thread(target=blocking, args=(r, names, work)) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()


def from_the_left(r: Any, names: Sequence[str], work: Work) -> None:
    """BLPOP, with producers that RPUSH."""
    while True:
        _, raw = r.blpop(names[0])
        work(raw)


def tasks(r: Any, names: Sequence[str], work: Work) -> None:
    """Tasks that share an asyncio client, each with a loop of its own."""

    async def loop() -> None:
        while True:
            _, raw = await r.brpop(names[0])
            # In another thread, so that the other tasks go on.
            await asyncio.to_thread(work, raw)

    async def main() -> None:
        await asyncio.gather(*(loop() for _ in range(AT_ONCE)))

    asyncio.run(main())


def tasks_of_one_blocking_client(r: Any, names: Sequence[str], work: Work) -> None:
    """Tasks that share a blocking client, and so a thread."""

    async def loop() -> None:
        while True:
            raw = r.rpop(names[0])
            if raw is None:
                await asyncio.sleep(0.02)
                continue
            await asyncio.to_thread(work, raw)

    async def main() -> None:
        await asyncio.gather(*(loop() for _ in range(AT_ONCE)))

    asyncio.run(main())


def greenlets(r: Any, names: Sequence[str], work: Work) -> None:
    """Greenlets that share a blocking client, and so a thread."""
    gevent: Any = importlib.import_module("gevent")

    def loop() -> None:
        while True:
            raw = r.rpop(names[0])
            if raw is None:
                gevent.sleep(0.02)
                continue
            gevent.get_hub().threadpool.apply(work, (raw,))

    gevent.joinall([gevent.spawn(loop) for _ in range(AT_ONCE)])


def processing_list(r: Any, names: Sequence[str], work: Work) -> None:
    """BLMOVE into a list of its own, from which RPOP is the acknowledgement."""
    internal = f"{names[0]}-internal"
    while True:
        raw = r.lindex(internal, -1) or r.blmove(names[0], internal, 0, "RIGHT", "LEFT")
        work(raw)
        r.rpop(internal)


@dataclass(frozen=True)
class Shape:
    """A loop, how many messages it works on at once, from how many lists, and who fills them.

    ``hold`` and ``for_`` are what it declares.
    """

    loop: Callable[[Any, Sequence[str], Work], None]
    at_once: int = 1
    lists: int = 1
    push: str = "lpush"
    hold: int = 0
    for_: float | None = None
    on_asyncio: bool = False

    @property
    def collects(self) -> bool:
        """Whether it pops more before it works on what it has."""
        return 0 < self.hold < MORE_THAN_UNFINISHED or self.for_ is not None

    @property
    def repeats(self) -> int:
        """The most finished messages that a kill repeats, besides those in work."""
        if self.collects and self.hold:
            return self.hold
        return SOME if self.hold or self.for_ else self.at_once

    def client(self, url: str, protected: bool) -> Any:
        """Return the client that the loop uses."""
        bare: Any = (redis.asyncio if self.on_asyncio else redis).Redis.from_url(url)
        if not protected:
            return bare
        kind: Any = ackq.dropin.asyncio.Redis if self.on_asyncio else dropin.Redis
        return kind(bare, hold=self.hold, for_=self.for_)


def holding(name: str) -> Shape:
    """Return a loop of `HOLDING`."""
    loop, hold, for_ = HOLDING[name]
    return Shape(
        lambda r, names, work: loop(r, names[0], work),
        hold=hold,
        for_=for_,
        on_asyncio=name == "an asynchronous producer",
    )


SHAPES = {
    "polling": Shape(polling),
    "blocking": Shape(blocking),
    "from the left": Shape(from_the_left, push="rpush"),
    "several lists": Shape(several_lists, lists=3),
    "thread pool": Shape(thread_pool, at_once=AT_ONCE),
    "tasks": Shape(tasks, at_once=AT_ONCE, on_asyncio=True),
    "tasks of one blocking client": Shape(tasks_of_one_blocking_client, at_once=AT_ONCE),
    "processing list": Shape(processing_list),
    "greenlets": Shape(greenlets, at_once=AT_ONCE),
    **{name: holding(name) for name in HOLDING},
}


class Journal:
    """What was begun and what was done: one line each, written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def work(self, raw: bytes) -> None:
        """Work on a message, the first time until this process is killed if it says so."""
        first = raw.decode() not in self.begun()
        os.write(self._file, b"begun " + raw + b"\n")
        if first and raw.startswith(b"hold"):
            threading.Event().wait()
        os.write(self._file, b"done " + raw + b"\n")
        if first and raw.startswith(b"finish"):
            threading.Event().wait()

    def begun(self) -> list[str]:
        return self._lines("begun ")

    def done(self) -> list[str]:
        return self._lines("done ")

    def _lines(self, what: str) -> list[str]:
        lines = self._path.read_text().splitlines()
        return [line.removeprefix(what) for line in lines if line.startswith(what)]


def run(shape: str, url: str, names: Sequence[str], path: Path, protected: bool) -> None:
    """Run a loop for ever, as the leader of a process group."""
    os.setsid()
    found = SHAPES[shape]
    found.loop(found.client(url, protected), names, Journal(path).work)
