"""The eighteen loops of docs/moving-over.md that pop more before they are done with the last.

Where the page says 100, they say `SOME`. What they collect, they also work on when nothing is left.
"""

import asyncio
import contextlib
import heapq
import io
import itertools
import queue as queues
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ackq.errors import LeaseLost

Work = Callable[[bytes], None]
#: ``loop(r, name, work)`` works for ever; ``r`` is bare or a drop-in.
Loop = Callable[[Any, str, Work], None]
SOME = 4
#: What a loop that settles declares.
MORE_THAN_UNFINISHED = 1000
PAUSE = 0.02


def pops(r: Any, name: str) -> Iterator[bytes]:
    """Pop until nothing is left."""
    while (raw := r.rpop(name)) is not None:
        yield raw


def in_batches(make: Callable[[Any, str], Iterable[bytes]]) -> Loop:
    """Return the loop that works on what one call of ``make`` has collected."""

    def loop(r: Any, name: str, work: Work) -> None:
        while True:
            rows = list(make(r, name))
            for row in rows:
                work(row)
            if not rows:
                time.sleep(PAUSE)

    return loop


def kept_in(make: Callable[[], Any], keep: Callable[[Any, bytes], Any]) -> Loop:
    """Return the loop that keeps `SOME` messages in a container."""

    def collect(r: Any, name: str) -> Iterable[bytes]:
        rows = make()
        for raw in itertools.islice(pops(r, name), SOME):
            keep(rows, raw)
        return rows.values() if isinstance(rows, dict) else sorted(rows)

    return in_batches(collect)


def fetched(r: Any, name: str) -> list[bytes]:
    return [raw for _ in range(SOME) if (raw := r.rpop(name)) is not None]


def executemany(r: Any, name: str) -> list[bytes]:
    with sqlite3.connect(":memory:") as rows:
        rows.execute("create table rows (raw)")
        some = itertools.islice(pops(r, name), SOME)
        rows.executemany("insert into rows values (?)", ((raw,) for raw in some))
        return [raw for (raw,) in rows.execute("select raw from rows")]


def transaction(r: Any, name: str) -> list[bytes]:
    rows = sqlite3.connect(":memory:")
    rows.execute("create table rows (raw)")
    for raw in itertools.islice(pops(r, name), SOME):
        rows.execute("insert into rows values (?)", (raw,))
    rows.commit()
    with rows:
        return [raw for (raw,) in rows.execute("select raw from rows")]


def pipeline(r: Any, name: str) -> list[bytes]:
    pipe = r.pipeline()
    for raw in itertools.islice(pops(r, name), SOME):
        pipe.echo(raw)
    return pipe.execute()  # type: ignore[no-any-return]


class Disk(io.RawIOBase):
    """A file: what reaches it is safe."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        for line in bytes(data).split():
            self._work(line)
        return len(data)


def buffered_file(r: Any, name: str, work: Work) -> None:
    file = io.BufferedWriter(Disk(work), 1 << 16)
    while True:
        for raw in itertools.islice(pops(r, name), SOME):
            file.write(raw + b"\n")
        file.flush()
        time.sleep(PAUSE)


def by_time(r: Any, name: str, work: Work) -> None:
    rows: list[bytes] = []
    flushed = time.monotonic()
    while True:
        found = r.brpop(name, 0.05)
        if found:
            rows.append(found[1])
        if time.monotonic() > flushed + 0.2:
            for row in rows:
                work(row)
            rows, flushed = [], time.monotonic()


def fetch_ahead(r: Any, name: str, work: Work) -> None:
    ahead = r.rpop(name)
    while True:
        raw, ahead = ahead, r.rpop(name)
        if raw is not None:
            work(raw)
        else:
            time.sleep(PAUSE)


def worker_of(r: Any, name: str, work: Work) -> Work:
    """Return the work that ends by settling its message."""

    def job(raw: bytes) -> None:
        work(raw)
        if hasattr(r, "settle"):
            r.settle(name, raw)

    return job


def executor_map(r: Any, name: str, work: Work) -> None:
    with ThreadPoolExecutor(SOME) as pool:
        while True:
            list(pool.map(worker_of(r, name, work), pops(r, name)))
            time.sleep(PAUSE)


def submit(r: Any, name: str, work: Work) -> None:
    with ThreadPoolExecutor(SOME) as pool:
        while True:
            pool.submit(worker_of(r, name, work), r.brpop(name)[1])


def put(r: Any, name: str, work: Work) -> None:
    jobs: queues.Queue[bytes] = queues.Queue()
    job = worker_of(r, name, work)

    def serve() -> None:
        while True:
            job(jobs.get())

    for _ in range(SOME):
        threading.Thread(target=serve).start()
    while True:
        jobs.put(r.brpop(name)[1])


def thread_for_each(r: Any, name: str, work: Work) -> None:
    while True:
        raw = r.brpop(name)[1]
        threading.Thread(target=worker_of(r, name, work), args=(raw,)).start()


def producer(r: Any, name: str, work: Work) -> None:
    """An asynchronous producer, and tasks that work."""

    async def serve(jobs: asyncio.Queue[bytes]) -> None:
        while True:
            raw = await jobs.get()
            await asyncio.to_thread(work, raw)
            if hasattr(r, "settle"):
                with contextlib.suppress(LeaseLost):  # then it is done again
                    await r.settle(name, raw)

    async def main() -> None:
        jobs: asyncio.Queue[bytes] = asyncio.Queue()
        tasks = [asyncio.create_task(serve(jobs)) for _ in range(SOME)]
        while True:
            await jobs.put((await r.brpop(name))[1])
            assert not any(task.done() for task in tasks)

    asyncio.run(main())


#: Each loop with the ``hold`` and the ``for_`` that it declares.
HOLDING: dict[str, tuple[Loop, int, float | None]] = {
    "append": (kept_in(list, list.append), SOME, None),
    "+=": (kept_in(list, lambda rows, raw: rows.__iadd__([raw])), SOME, None),
    "a dict": (kept_in(dict, lambda rows, raw: rows.__setitem__(raw, raw)), SOME, None),
    "a set": (kept_in(set, set.add), SOME, None),
    "a heap": (kept_in(list, heapq.heappush), SOME, None),
    "a comprehension": (in_batches(fetched), SOME, None),
    "a generator": (in_batches(lambda r, name: itertools.islice(pops(r, name), SOME)), SOME, None),
    "executemany": (in_batches(executemany), SOME, None),
    "a transaction": (in_batches(transaction), SOME, None),
    "a pipeline": (in_batches(pipeline), SOME, None),
    "a buffered file": (buffered_file, SOME, None),
    "fetching ahead": (fetch_ahead, 1, None),
    "by time": (by_time, 0, 1.0),
    "executor.map": (executor_map, MORE_THAN_UNFINISHED, None),
    "submit": (submit, MORE_THAN_UNFINISHED, None),
    "queue.put": (put, MORE_THAN_UNFINISHED, None),
    "a thread for each": (thread_for_each, MORE_THAN_UNFINISHED, None),
    "an asynchronous producer": (producer, MORE_THAN_UNFINISHED, None),
}
