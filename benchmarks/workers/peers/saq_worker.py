"""SAQ: no results kept; uvloop."""

import asyncio
import logging

import counting
import uvloop
from saq import Queue, Worker

logging.getLogger("saq").setLevel(logging.ERROR)


async def handle(context: object, *, n: int, payload: str) -> None:
    await counting.work_async()


async def main() -> None:
    queue = Queue.from_url(counting.URL, name="benchmark")
    await queue.connect()
    for first in range(0, counting.MESSAGES, 500):
        last = min(first + 500, counting.MESSAGES)
        await asyncio.gather(
            *(
                queue.enqueue("handle", n=n, payload=counting.PAYLOAD, ttl=-1)
                for n in range(first, last)
            )
        )
    worker = Worker(queue, functions=[handle], concurrency=counting.CONCURRENCY)
    await worker.start()


uvloop.run(main())
