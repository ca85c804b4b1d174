"""Loops that ask for the next message before they are done with the last, however slowly."""

import asyncio
import json
import logging
import multiprocessing
import queue as queues
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest
import redis
import redis.asyncio

import ackq
from ackq import dropin
from ackq.dropin import loops
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.seen import in_flight

#: More than it takes to recognise a loop.
MESSAGES = 3 * loops.IN_A_ROW
BODIES = [json.dumps({"number": number, "text": "x" * 3000}) for number in range(MESSAGES)]


def work(raw: Any) -> None:
    pass


def accumulate(r: Any, name: str) -> None:
    rows = []
    while raw := r.rpop(name):
        rows.append(json.loads(raw))
        if len(rows) == 10:
            work(rows)
            rows = []


def collect_all(r: Any, name: str) -> None:
    rows = [json.loads(r.rpop(name)) for _ in range(MESSAGES)]
    work(rows)


class Buffered:
    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}

    def keep(self, raw: bytes) -> None:
        self.rows[len(self.rows)] = raw

    def run(self, r: Any, name: str) -> None:
        while raw := r.rpop(name):
            r.ping()  # slowly
            self.keep(raw)


def submit_after_a_log_line(r: Any, name: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        while raw := r.rpop(name):
            logging.info("popped %d bytes", len(raw))
            pool.submit(work, raw)


def apply_async(r: Any, name: str) -> None:
    with ThreadPool(1) as pool:
        while raw := r.rpop(name):
            pool.apply_async(work, (json.loads(raw),))


def thread_for_each(r: Any, name: str) -> None:
    while raw := r.rpop(name):
        threading.Thread(target=work, args=(json.loads(raw),)).start()


def process_for_each(r: Any, name: str) -> None:
    fork = multiprocessing.get_context("fork")
    while raw := r.rpop(name, 10):
        fork.Process(target=work, args=(raw,)).start()


def put_into_a_queue(r: Any, name: str) -> None:
    jobs: queues.Queue[Any] = queues.Queue()

    def serve() -> None:
        while job := jobs.get():
            work(job)

    thread = threading.Thread(target=serve, daemon=True)  # it is left alone if a pop fails
    thread.start()
    while raw := r.rpop(name):
        r.ping()
        jobs.put(json.loads(raw))
    jobs.put(None)
    thread.join()


class Crawler:
    """Pops in one method, decodes in another, and works when a callback is called."""

    def __init__(self, r: Any, name: str) -> None:
        self._r, self._name = r, name

    def addBoth(self, job: Any) -> None:
        pass

    def next_request(self) -> Any:
        raw = self._r.rpop(self._name)
        return json.loads(raw) if raw else None

    def start_one(self) -> bool:
        request = self.next_request()
        if request is None:
            return False
        self.addBoth(request)
        return True

    def run(self) -> None:
        while self.start_one():
            self._r.ping()


def crawl(r: Any, name: str) -> None:
    Crawler(r, name).run()


def from_a_generator(r: Any, name: str) -> None:
    def jobs() -> Iterator[Any]:
        while raw := r.rpop(name):
            yield json.loads(raw)

    rows = []
    for job in jobs():
        rows.append(job)
    work(rows)


CERTAIN = "collected to be worked on later"
POSSIBLE = "stands between a pop"
UNSAFE: dict[str, tuple[Callable[[Any, str], None], str]] = {
    "accumulate": (accumulate, f"`rows.append` {POSSIBLE}"),
    "comprehension": (collect_all, f"`a comprehension` {POSSIBLE}"),
    "kept by another method": (lambda r, name: Buffered().run(r, name), CERTAIN),
    "submit": (submit_after_a_log_line, f"`submit` {POSSIBLE}"),
    "apply_async": (apply_async, f"`apply_async` {POSSIBLE}"),
    "thread": (thread_for_each, f"`Thread` {POSSIBLE}"),
    "process": (process_for_each, f"`Process` {POSSIBLE}"),
    "queue": (put_into_a_queue, f"`put` {POSSIBLE}"),
    "crawler": (crawl, f"`addBoth` {POSSIBLE}"),
    "generator": (from_a_generator, f"`rows.append` {POSSIBLE}"),
}


@pytest.mark.parametrize("shape", UNSAFE)
def test_a_loop_that_collects_is_reported(r: dropin.Redis, name: str, shape: str) -> None:
    loop, text = UNSAFE[shape]
    r.lpush(name, *BODIES)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop(r, name)
    found = [str(each.message) for each in caught if each.filename == __file__]
    assert [each for each in found if text in each] == found[:1]
    assert len(found) == len({each[:30] for each in found})


@pytest.mark.parametrize("shape", UNSAFE)
def test_a_loop_that_collects_can_be_refused(
    plain_client: redis.Redis, name: str, queue: ackq.Queue, shape: str
) -> None:
    loop, text = UNSAFE[shape]
    r = dropin.Redis(plain_client, collect="refuse")
    r.lpush(name, *BODIES)
    with pytest.raises(dropin.Refused, match=rf"test_collecting.py:\d+: .*{text}"):
        loop(r, name)
    popped = MESSAGES - r.llen(name)
    limit = 2 if text != CERTAIN else loops.IN_A_ROW + 2
    assert popped <= limit * (10 if shape == "process" else 1)
    assert in_flight(queue) or r.llen(name) == MESSAGES
    r.settle(name)  # of what is done with them otherwise
    assert r.rpop(name)
    r.close()


async def stream(r: AsyncRedis, name: str) -> None:
    """One task pops, others work. What they do shows neither here nor in the message."""
    waiting: asyncio.Queue[Any] = asyncio.Queue()
    done = asyncio.Event()

    async def pass_on(raw: bytes) -> None:
        waiting.put_nowait({"data": raw})
        await asyncio.sleep(0)

    async def serve() -> None:
        await done.wait()
        while not waiting.empty():
            work(waiting.get_nowait())

    task = asyncio.create_task(serve())
    try:
        while found := await r.brpop(name, 0.01):
            await r.ping()
            await pass_on(found[1])
    finally:
        done.set()
        await task


async def task_for_each(r: AsyncRedis, name: str) -> None:
    tasks = set()

    async def job(raw: bytes) -> None:
        work(raw)

    while raw := await asyncio.wait_for(r.rpop(name), 5):
        tasks.add(asyncio.create_task(job(raw)))
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("loop", "text"),
    [(stream, CERTAIN), (task_for_each, f"`create_task` {POSSIBLE}")],
)
def test_a_loop_that_collects_on_asyncio(
    url: str, name: str, loop: Callable[[AsyncRedis, str], Awaitable[None]], text: str
) -> None:
    async def main(**settings: Any) -> None:
        async with AsyncRedis.from_url(url, **settings) as r:
            await r.lpush(name, *BODIES)
            await loop(r, name)

    with pytest.warns(dropin.UnprotectedWarning, match=text):
        asyncio.run(main())
    with pytest.raises(dropin.Refused, match=text):
        asyncio.run(main(collect="refuse"))
