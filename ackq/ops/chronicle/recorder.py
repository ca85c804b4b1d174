"""Record what whoever watches has read: `Recorder`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import redis
from redis.exceptions import NoPermissionError, ReadOnlyError

from ackq.core.client import Closable
from ackq.core.effects import Operation
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.io.together import run_all
from ackq.ops.chronicle.causes import count_dead
from ackq.ops.chronicle.minutes import MINUTE, record
from ackq.ops.chronicle.store import history_key
from ackq.ops.overview import Snapshot
from ackq.ops.readings import Reading

#: Seconds between two records of a queue to which nothing happens.
UNCHANGED = 5 * MINUTE
#: Most queues that are recorded after one reading. The others follow after the next one.
MAX_RECORDED = 2000
#: Most queues and parts whose dead letters are counted after one reading.
MAX_COUNTED = 100
#: Seconds until the next attempt if this user may not write, or the server does not take writes.
REFUSED_PAUSE = 600.0
#: What of a reading is compared to see whether anything happened.
_Shown = tuple[object, ...]


class Recorder(Closable):
    """Records each queue once a minute if anything happened to it, else once in five.

    It also counts new dead letters by cause after each reading.

    An error is no error of the reading: a figure that was not recorded is part of the next record.
    Not for several threads at once.
    """

    def __init__(self, client: redis.Redis | redis.RedisCluster) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of any node of the cluster.
        """
        self._route = route_of(client, b"")
        #: When each queue was last recorded, by the server's clock, and what was shown then.
        self._recorded: dict[tuple[str, str], tuple[float, _Shown]] = {}
        #: The dead letters of each queue or part when all of them had been counted by cause.
        self._counted: dict[tuple[str, str], object] = {}
        #: Until when not to try a queue again, by a monotonic clock.
        self._refused: dict[tuple[str, str], float] = {}

    def note(self, snapshot: Snapshot) -> None:
        """Record the queues of a reading for which it is time."""
        at = snapshot.at if snapshot.at is not None else time.time()
        due = [reading for reading in snapshot.queues if self._is_due(reading, at)][:MAX_RECORDED]
        operations = [
            (Driver(self._route.beside(key)), _recording(key, reading, at))
            for reading in due
            for key in (history_key(reading.kind, reading.name),)
        ]
        self._settle(due, at, run_all(operations))
        self._count_dead(snapshot)
        known = {(reading.kind, reading.name) for reading in snapshot.queues}
        for gone in self._recorded.keys() - known:
            del self._recorded[gone]
            self._refused.pop(gone, None)

    def _count_dead(self, snapshot: Snapshot) -> None:
        """Count the dead letters by cause where there may be some that were not counted."""
        due: list[tuple[Reading, object]] = []
        for queue in snapshot.queues:
            for part in queue.parts or (queue,):
                dead = part.states.get("dead"), part.totals.dead if part.totals else {}
                if dead[0] and self._counted.get((part.kind, part.name)) != dead:
                    due.append((part, dead))
        results = run_all(
            [
                (Driver(self._route.beside(history_key(part.kind, part.name))), _counting(part))
                for part, _ in due[:MAX_COUNTED]
            ]
        )
        for (part, shown), result in zip(due, results, strict=False):
            # After an error, too, wait until there are more.
            if result is not False:
                self._counted[part.kind, part.name] = shown

    def _settle(self, due: Sequence[Reading], at: float, results: Sequence[object]) -> None:
        for reading, result in zip(due, results, strict=True):
            if isinstance(result, NoPermissionError | ReadOnlyError):
                self._refused[reading.kind, reading.name] = time.monotonic() + REFUSED_PAUSE
            # After another error, or if others wrote at the same time, wait for the next minute.
            self._recorded[reading.kind, reading.name] = at, _shown(reading)

    def _is_due(self, reading: Reading, at: float) -> bool:
        if time.monotonic() < self._refused.get((reading.kind, reading.name), 0.0):
            return False
        before, shown = self._recorded.get((reading.kind, reading.name), (0.0, ()))
        if before // MINUTE == at // MINUTE:
            return False
        if shown == _shown(reading) and at - before < UNCHANGED:
            return False
        return not reading.empty or bool(reading.totals and any(reading.totals.counts.values()))

    def close(self) -> None:
        """Close the connections."""
        self._route.close()


def _recording(key: bytes, reading: Reading, at: float) -> Operation[bool]:
    totals = reading.totals
    counted_at = totals.at if totals is not None and totals.at is not None else at
    return record(key, reading, counted_at, secrets.token_hex(8))


def _counting(part: Reading) -> Operation[bool]:
    return count_dead(part.kind, part.name, secrets.token_hex(8))


def _shown(reading: Reading) -> _Shown:
    return reading.backlog, reading.states, reading.totals
