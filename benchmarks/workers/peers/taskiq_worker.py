"""taskiq: the stream broker, which takes in batches; uvloop."""

import asyncio

import counting
import uvloop
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(counting.URL, queue_name="benchmark", consumer_id="0", xread_count=100)


@broker.task
async def handle(n: int, payload: str) -> None:
    await counting.work_async()


async def main() -> None:
    await broker.startup()
    for first in range(0, counting.MESSAGES, 500):
        last = min(first + 500, counting.MESSAGES)
        await asyncio.gather(*(handle.kiq(n, counting.PAYLOAD) for n in range(first, last)))
    broker.is_worker_process = True
    await run_receiver_task(
        broker,
        run_startup=True,
        max_async_tasks=counting.CONCURRENCY,
        max_prefetch=1000,
        validate_params=False,
    )


uvloop.run(main())
