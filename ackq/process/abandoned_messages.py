"""Settles what a killed process held, instead of letting the leases end."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from ackq.config import QueueConfig
from ackq.errors import EXPECTED, LeaseLost
from ackq.ops.sharded import at_its_stage, shard_names_of
from ackq.process.held_messages import FINISHED, Held
from ackq.queue import take
from ackq.queue.client import Queue
from ackq.worker.logs import log, reason_of

#: Seconds between two tries while Redis is unreachable.
PAUSE = 0.5


class Takes(NamedTuple):
    """The latest takes of a process that has ended: their replies may not have reached it."""

    taker: str
    #: The settings and the name of each queue, and whether it is sharded.
    queues: Sequence[tuple[QueueConfig, str, bool]]
    #: What names the leases that it had.
    known: Collection[tuple[str, bytes, int]]


def settle(url: str | None, held: Iterable[Held], takes: Takes | None = None) -> None:
    """Settle messages of a process that has ended.

    A message whose handler failed just before or was over its limit is retried later, and counted,
    or is dead if this was its last permitted delivery. A finished one is acked. The others go back
    to their queues, uncounted, and so do those that never reached the process. What the process
    settled itself, or others have by now, is left alone. While Redis is unreachable, this tries
    again until the leases have ended.
    """

    by_queue = attrgetter("message.queue")
    for name, group in itertools.groupby(sorted(held, key=by_queue), by_queue):
        of_queue = list(group)
        _repeat(url, name, of_queue[0].config, partial(_settle, of_queue))
    for config, name, is_sharded in takes.queues if takes is not None else ():
        names = [] if is_sharded else [name]
        if is_sharded:
            _repeat(url, f"{{{name}}}", config, partial(_add_shards, names, name))
        for each in names:
            _repeat(url, each, config, partial(_give_back, takes))


def opened(url: str | None, name: str, config: QueueConfig) -> Queue:
    """Return a queue."""
    # How often a message may be received was decided when it was taken.
    config = dataclasses.replace(config, max_receives=None)
    return Queue.from_url(url, name, **config.settings())


def _repeat(
    url: str | None, name: str, config: QueueConfig, steps: Callable[[Queue], None]
) -> None:
    """Run steps on a queue. While Redis is unreachable, try again until its leases have ended."""
    until = time.monotonic() + config.visibility_timeout
    with opened(url, name, config) as queue:
        while True:
            try:
                steps(queue)
                return
            except Exception as error:
                if time.monotonic() >= until or not isinstance(error, EXPECTED):
                    reason = reason_of(error)
                    log.warning("%r: messages of a killed process wait: %s", name, reason)
                    return
                time.sleep(PAUSE)


def _add_shards(names: list[str], name: str, queue: Queue) -> None:
    names[:] = queue.execute(lambda spec: shard_names_of(name))


def _give_back(takes: Takes | None, queue: Queue) -> None:
    """Give back what has not reached the process."""
    assert takes is not None
    queue = at_its_stage(queue)
    latest = queue.execute(take.latest, takes.taker)
    with suppress(LeaseLost):
        queue.release(
            each for each in latest if (each.queue, each.key, each.receipt) not in takes.known
        )


def _settle(held: Sequence[Held], queue: Queue) -> None:
    queue = at_its_stage(queue)
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
