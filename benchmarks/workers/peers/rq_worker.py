"""RQ: its worker that does not fork, one job at a time."""

import logging

import counting
import redis
import rq
from rq_handler import handle

logging.getLogger("rq.worker").setLevel(logging.ERROR)
connection = redis.Redis.from_url(counting.URL)
queue = rq.Queue("benchmark", connection=connection)
queue.enqueue_many(
    [
        rq.Queue.prepare_data(handle, (n, counting.PAYLOAD), result_ttl=0)
        for n in range(counting.MESSAGES)
    ]
)
rq.SimpleWorker([queue], connection=connection).work(logging_level="ERROR")
