"""Loops that are done with each message before they ask for the next are not reported.

The suite turns warnings into errors, so none may be given. See tests/dropin/test_shapes.py too.
"""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from ackq import dropin
from ackq.dropin import loops
from ackq.dropin.asyncio import Redis as AsyncRedis
from tests.dropin.shapes import Work

MESSAGES = 3 * loops.IN_A_ROW
BODIES = [json.dumps({"number": number, "items": [1, 2]}) for number in range(MESSAGES)]


def polling(r: Any, name: str, work: Work) -> None:
    while raw := r.rpop(name):
        work(raw)


def waiting(r: Any, name: str, work: Work) -> None:
    while found := r.brpop(name, 0.01):
        work(found[1])


def several_lists(r: Any, name: str, work: Work) -> None:
    while found := r.brpop([name, f"{name}-2"], 0.01):
        work(found[1])


def by_count(r: Any, name: str, work: Work) -> None:
    while rows := r.rpop(name, 2):
        for raw in rows:
            work(raw)


def from_the_left(r: Any, name: str, work: Work) -> None:
    while raw := r.lpop(name):
        work(raw)


def a_helper(r: Any, name: str, work: Work) -> None:
    def next_job() -> Any:
        raw = r.rpop(name)
        return json.loads(raw) if raw else None

    while (job := next_job()) is not None:
        work(job)


def a_generator(r: Any, name: str, work: Work) -> None:
    def jobs() -> Iterator[Any]:
        while raw := r.rpop(name):
            yield json.loads(raw)

    for job in jobs():
        work(job)


def an_iterator(r: Any, name: str, work: Work) -> None:
    for raw in iter(lambda: r.rpop(name), None):
        work(raw)


def a_class(r: Any, name: str, work: Work) -> None:
    class Worker:
        current: Any = None
        done = 0

        def step(self) -> bool:
            self.current = r.rpop(name)
            if self.current is None:
                return False
            work(self.current)
            self.done += 1
            return True

    worker = Worker()
    while worker.step():
        pass


def lists_for_each_message(r: Any, name: str, work: Work) -> None:
    while raw := r.rpop(name):
        found = []
        for item in json.loads(raw)["items"]:
            found.append(item + 1)
        work([item + 1 for item in found])  # type: ignore[arg-type]


def what_failed_is_noted(r: Any, name: str, work: Work) -> None:
    failed = []
    while raw := r.rpop(name):
        try:
            work(raw)
        except ValueError as error:
            failed.append(str(error))


def waits_for_the_pool(r: Any, name: str, work: Work) -> None:
    with ThreadPoolExecutor(1) as pool:
        while raw := r.rpop(name):
            pool.submit(work, raw).result()


def waits_for_the_thread(r: Any, name: str, work: Work) -> None:
    while raw := r.rpop(name):
        thread = threading.Thread(target=work, args=(raw,))
        thread.start()
        thread.join()


def waits_for_the_child(r: Any, name: str, work: Work) -> None:
    while raw := r.rpop(name, 10):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        work(raw)


def logs_before_and_after(r: Any, name: str, work: Work) -> None:
    log = []
    log.append("begins")
    while raw := r.rpop(name):
        work(raw)
    log.append("ends")


SAFE: list[Callable[[Any, str, Work], None]] = [
    polling,
    waiting,
    several_lists,
    by_count,
    from_the_left,
    a_helper,
    a_generator,
    an_iterator,
    a_class,
    lists_for_each_message,
    what_failed_is_noted,
    waits_for_the_pool,
    waits_for_the_thread,
    waits_for_the_child,
    logs_before_and_after,
]


@pytest.mark.parametrize("loop", SAFE)
@pytest.mark.parametrize("settings", [{}, {"collect": "refuse"}], ids=["warn", "refuse"])
def test_nothing_is_reported(
    plain_client: redis.Redis,
    name: str,
    loop: Callable[[Any, str, Work], None],
    settings: dict[str, Any],
) -> None:
    with dropin.Redis(plain_client, **settings) as r:
        (r.rpush if loop is from_the_left else r.lpush)(name, *BODIES)
        loop(r, name, lambda _: r.ping())
        assert not r.llen(name)


async def one_task(r: AsyncRedis, name: str) -> None:
    while raw := await r.rpop(name):
        await asyncio.sleep(0)
        await r.set(name + "-done", raw)


async def with_a_limit(r: AsyncRedis, name: str) -> None:
    while raw := await asyncio.wait_for(r.rpop(name), 5):
        await asyncio.to_thread(len, raw)


async def in_a_group(r: AsyncRedis, name: str) -> None:
    async def work(raw: bytes) -> None:
        await r.set(name + "-done", raw)

    while raw := await r.rpop(name):
        async with asyncio.TaskGroup() as group:
            group.create_task(work(raw))


async def from_an_async_generator(r: AsyncRedis, name: str) -> None:
    async def jobs() -> Any:
        while raw := await r.rpop(name):
            yield json.loads(raw)

    async for job in jobs():
        await r.set(name + "-done", job["number"])


@pytest.mark.parametrize("loop", [one_task, with_a_limit, in_a_group, from_an_async_generator])
@pytest.mark.parametrize("settings", [{}, {"collect": "refuse"}], ids=["warn", "refuse"])
def test_nothing_is_reported_on_asyncio(
    url: str, name: str, loop: Any, settings: dict[str, Any]
) -> None:
    async def main() -> None:
        async with AsyncRedis.from_url(url, **settings) as r:
            await r.lpush(name, *BODIES)
            await asyncio.gather(loop(r, name), loop(r, name))
            assert not await r.llen(name)

    asyncio.run(main())
