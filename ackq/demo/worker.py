"""A worker: pops batches, does the job for each message, acks it, and journals every step."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import orjson

from ackq.demo.journal import Event, Journal
from ackq.demo.source import JOBS, Job, fingerprint
from ackq.errors import LeaseLost
from ackq.queue.client import Queue
from ackq.queue.messages import Message

#: Seconds that a worker waits for a message before it checks whether to end.
WAIT = 0.5
#: Longest body: the input's lines are used unchanged.
MAX_BODY_BYTES = 512 * 1024 * 1024


class Worker:
    """Work on a queue until `stop` is called or the parent process has ended."""

    def __init__(self, queue: Queue, journal: Journal, job: Job, batch: int, pause: float) -> None:
        self._queue, self._journal, self._job = queue, journal, job
        self._batch, self._pause = batch, pause
        self._stopping = False

    def stop(self, *_: object) -> None:
        """End after the current batch."""
        self._stopping = True

    def run(self) -> None:
        """Pop, work and ack until the end."""
        parent = os.getppid()
        while not self._stopping and os.getppid() == parent:
            batch = self._queue.pop_many(self._batch, timeout=WAIT)
            if batch:
                self._work(batch)
                self._settle(batch)

    def _work(self, batch: Sequence[Message]) -> None:
        start = time.monotonic()
        self._journal.write(
            _event("took", message, count=message.receive_count) for message in batch
        )
        for place, message in enumerate(batch, 1):
            # The job takes microseconds; the pause makes the demo slow enough to watch.
            if (early := start + place * self._pause - time.monotonic()) > 0.001:
                time.sleep(early)
            self._journal.write([_event("done", message, digest=self._job(message.body))])

    def _settle(self, batch: Sequence[Message]) -> None:
        self._journal.write([_event("acking", batch[0])])
        for message in batch:
            try:
                result = "acked" if self._queue.ack(message) else "gone"
            except LeaseLost:
                result = "refused"
            self._journal.write([_event(result, message)])


def _event(event: str, message: Message, **more: object) -> Event:
    # A key need not be text; Latin-1 preserves every byte.
    key = message.key.decode("latin-1")
    body = fingerprint(message.body)
    return {"event": event, "key": key, "receipt": message.receipt, "body": body, **more}


def main() -> None:
    """Work as ordered by the JSON in the first argument."""
    orders = orjson.loads(sys.argv[1])
    settings = {"visibility_timeout": orders["lease"], "max_body_bytes": MAX_BODY_BYTES}
    with Queue.from_url(os.environ["ACKQ_DEMO_URL"], orders["queue"], **settings) as queue:
        journal = Journal(Path(orders["journal"]))
        worker = Worker(queue, journal, JOBS[orders["job"]], orders["batch"], orders["pause"])
        signal.signal(signal.SIGTERM, worker.stop)
        worker.run()


if __name__ == "__main__":
    main()
