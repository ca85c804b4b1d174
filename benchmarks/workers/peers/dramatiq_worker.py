"""dramatiq: greenlets, which are quicker than its threads; no middleware, a large prefetch."""
# ruff: noqa: E402 - gevent must patch before the rest is imported

from gevent import monkey

monkey.patch_all()  # as its command dramatiq-gevent does, before everything else

import os
import threading

os.environ["dramatiq_queue_prefetch"] = "1000"  # noqa: SIM112 - its name

import counting
import dramatiq
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=counting.URL, middleware=[])
dramatiq.set_broker(broker)


@dramatiq.actor
def handle(n: int, payload: str) -> None:
    counting.work()


for n in range(counting.MESSAGES):
    handle.send(n, counting.PAYLOAD)
worker = dramatiq.Worker(broker, worker_threads=counting.CONCURRENCY)
worker.start()
threading.Event().wait()  # `join` may return while messages are on their way
