"""arq: no results kept, a short poll; uvloop."""

import asyncio

import arq
import counting
import uvloop
from arq.connections import RedisSettings

SETTINGS = RedisSettings.from_dsn(counting.URL)


async def handle(context: object, n: int, payload: str) -> None:
    await counting.work_async()


async def push() -> None:
    pool = await arq.create_pool(SETTINGS)
    for first in range(0, counting.MESSAGES, 500):
        last = min(first + 500, counting.MESSAGES)
        await asyncio.gather(
            *(pool.enqueue_job("handle", n, counting.PAYLOAD) for n in range(first, last))
        )
    await pool.aclose()


asyncio.run(push())
loop = uvloop.new_event_loop()
asyncio.set_event_loop(loop)
arq.Worker(
    [handle],
    redis_settings=SETTINGS,
    max_jobs=counting.CONCURRENCY,
    poll_delay=0.001,
    keep_result=0,
    queue_read_limit=1000,
    handle_signals=False,
).run()
