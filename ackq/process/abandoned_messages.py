"""Settles what a killed process held, instead of letting the leases end."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ackq.errors import LeaseLost
from ackq.ops.sharded import at_its_stage
from ackq.process.held_messages import FINISHED, Held
from ackq.queue.client import Queue
from ackq.worker.logs import log
from ackq.worker.outages import TEMPORARY

#: Seconds between two tries while Redis is unreachable.
PAUSE = 0.5


def settle(url: str | None, held: Iterable[Held]) -> None:
    """Settle messages of a process that has ended.

    A message whose handler failed just before or was over its limit is retried later, and counted,
    or is dead if this was its last permitted delivery. A finished one is acked. The others go back
    to their queues, uncounted. What the process settled itself, or others have by now, is left
    alone. While Redis is unreachable, this tries again until the leases have ended.
    """

    def by_queue(one: Held) -> str:
        return one.message.queue

    for name, group in itertools.groupby(sorted(held, key=by_queue), by_queue):
        of_queue = list(group)
        until = time.monotonic() + of_queue[0].config.visibility_timeout
        with opened(url, of_queue[0]) as queue:
            while True:
                try:
                    _settle(at_its_stage(queue), of_queue)
                    break
                except TEMPORARY as error:
                    if time.monotonic() >= until:
                        log.warning("%r: messages of a killed process wait: %s", name, error)
                        break
                    time.sleep(PAUSE)


def opened(url: str | None, held: Held) -> Queue:
    """Return the queue of a message."""
    # How often a message may be received was decided when it was taken.
    config = dataclasses.replace(held.config, max_receives=None)
    return Queue.from_url(url, held.message.queue, **config.settings())


def _settle(queue: Queue, held: Sequence[Held]) -> None:
    finished = [one.message for one in held if one.state == FINISHED]
    overdue = [one for one in held if one.overdue and one.state != FINISHED]
    others = [one.message for one in held if not one.overdue and one.state != FINISHED]
    # Those that others have by now are refused; the rest is settled.
    with suppress(LeaseLost):
        queue.ack(*finished)
    with suppress(LeaseLost):
        queue.release(*others)
    for one in overdue:
        verb, argument = one.settlement
        with suppress(LeaseLost):
            if verb == "reject":
                queue.reject(one.message, reason=str(argument), error=one.error)
            else:
                queue.nack(one.message, delay=float(argument), error=one.error)
