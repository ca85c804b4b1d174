"""`ackq.tasks` on asyncio: coroutine functions, whose arguments are checked."""

import asyncio

import counting

from ackq.tasks import AsyncTasks

tasks = AsyncTasks(counting.URL, queue="benchmark")


@tasks.task(name="handle")
async def handle(n: int, payload: str) -> None:
    await counting.work_async()


async def main() -> None:
    bodies = [{"n": n, "payload": counting.PAYLOAD} for n in range(counting.MESSAGES)]
    await tasks.queue().push_many([{"task": "handle", "args": body} for body in bodies])
    await tasks.run(concurrency=counting.CONCURRENCY)


asyncio.run(main())
