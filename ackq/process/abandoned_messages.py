"""Settles what a killed process held, instead of letting the leases end."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ackq.errors import LeaseLost
from ackq.ops.sharded import at_its_stage
from ackq.process.held_messages import FINISHED, Held, killed
from ackq.queue.client import Queue
from ackq.worker.logs import log
from ackq.worker.outages import TEMPORARY

#: Seconds between two tries while Redis is unreachable.
PAUSE = 0.5


def settle(url: str | None, held: Iterable[Held]) -> None:
    """Settle messages of a process that has ended.

    A message whose handler was over its limit has failed: it is retried later, and counted, or is
    dead if this was its last permitted delivery. A finished one is acked. The others go back to
    their queues, uncounted. Messages that the process settled itself, or that others have by now,
    are left alone. While Redis is unreachable, this tries again until the leases have ended.
    """

    def by_queue(one: Held) -> str:
        return one.message.queue

    for name, group in itertools.groupby(sorted(held, key=by_queue), by_queue):
        of_queue = list(group)
        # How often a message may be received was decided when it was taken.
        config = dataclasses.replace(of_queue[0].config, max_receives=None)
        until = time.monotonic() + config.visibility_timeout
        with Queue.from_url(url, name, **config.settings()) as queue:
            while True:
                try:
                    _settle(at_its_stage(queue), of_queue)
                    break
                except TEMPORARY as error:
                    if time.monotonic() >= until:
                        log.warning("%r: messages of a killed process wait: %s", name, error)
                        break
                    time.sleep(PAUSE)


def _settle(queue: Queue, held: Sequence[Held]) -> None:
    finished = [one.message for one in held if one.state == FINISHED]
    overdue = [one for one in held if one.overdue and one.state != FINISHED]
    others = [one.message for one in held if not one.overdue and one.state != FINISHED]
    for one in overdue:
        verb, argument = one.settlement
        with suppress(LeaseLost):
            if verb == "reject":
                queue.reject(one.message, reason=str(argument), error=killed())
            else:
                queue.nack(one.message, delay=float(argument), error=killed())
    # Those that others have by now are refused; the rest is settled.
    with suppress(LeaseLost):
        queue.ack(*finished)
    with suppress(LeaseLost):
        queue.release(*others)
