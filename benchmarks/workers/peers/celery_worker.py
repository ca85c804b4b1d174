"""Celery: no results, events, rates or acks; the solo pool for handlers that do not wait.

Without the emulation of acks it takes several times as many messages, and a crash loses them.
"""

import counting
from celery import Celery

app = Celery("benchmark", broker=counting.URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1000,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_disable_rate_limits=True,
    broker_transport_options={"ack_emulation": False},
)


@app.task(ignore_result=True)
def handle(n: int, payload: str) -> None:
    counting.work()


with app.producer_pool.acquire(block=True) as producer:
    for n in range(counting.MESSAGES):
        handle.apply_async((n, counting.PAYLOAD), producer=producer)
pool = "threads" if counting.SLEEP else "solo"
app.worker_main(
    [
        "worker",
        f"--pool={pool}",
        f"--concurrency={counting.CONCURRENCY}",
        "--loglevel=ERROR",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    ]
)
