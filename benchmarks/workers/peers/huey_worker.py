"""huey: no results, threads; one where the handler does not wait, which is quicker."""

import logging

import counting
from huey import RedisHuey

logging.getLogger("huey").setLevel(logging.ERROR)
huey = RedisHuey("benchmark", url=counting.URL, results=False)


@huey.task()
def handle(n: int, payload: str) -> None:
    counting.work()


for n in range(counting.MESSAGES):
    handle(n, counting.PAYLOAD)
workers = counting.CONCURRENCY if counting.SLEEP else 1
huey.create_consumer(
    workers=workers, worker_type="thread", periodic=False, initial_delay=0.01
).run()
