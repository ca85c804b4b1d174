"""ackq's `AsyncWorker`: handlers in tasks."""

import asyncio

import counting

from ackq import AsyncQueue, Message
from ackq.worker import AsyncWorker


async def handle(message: Message) -> None:
    message.json()  # since the peers decode their arguments
    await counting.work_async()


async def main() -> None:
    async with AsyncQueue.from_url(counting.URL, "benchmark") as queue:
        bodies = [{"n": n, "payload": counting.PAYLOAD} for n in range(counting.MESSAGES)]
        await queue.push_many(bodies)
        await AsyncWorker(queue, handle, concurrency=counting.CONCURRENCY).run()


asyncio.run(main())
