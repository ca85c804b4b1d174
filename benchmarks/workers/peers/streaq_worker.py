"""streaq: its own prefetch; uvloop."""

import anyio
import counting
from streaq import Worker

worker = Worker(
    counting.URL,
    queue_name="benchmark",
    concurrency=counting.CONCURRENCY,
    anyio_kwargs={"use_uvloop": True},
)


@worker.task(ttl=0)
async def handle(n: int, payload: str) -> None:
    await counting.work_async()


async def push() -> None:
    async with worker:
        for first in range(0, counting.MESSAGES, 1000):
            last = min(first + 1000, counting.MESSAGES)
            await worker.enqueue_many(
                [handle.enqueue(n, counting.PAYLOAD) for n in range(first, last)]
            )


anyio.run(push)
worker.run_sync()
