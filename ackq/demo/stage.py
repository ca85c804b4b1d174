"""Run a demo: start all processes, watch, inject faults, end the processes, make the account."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from ackq.demo.account import Check, Evidence, check
from ackq.demo.children import Child
from ackq.demo.display import Display
from ackq.demo.faults import Faults
from ackq.demo.journal import total
from ackq.demo.source import JOBS, fingerprint
from ackq.embedded import Server
from ackq.queue.client import Queue
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import QueueStats

#: Seconds between two checks of the journals, and between two of the queue.
TICK, STATS_TICK = 0.02, 0.2
#: Seconds without progress after which the demo gives up.
STALL = 30.0
#: Longest time, in seconds, that a worker holds a batch, and the most messages in one.
BATCH_SECONDS, MAX_BATCH = 0.5, 1000


@dataclass(frozen=True)
class Plan:
    """The settings of a demo.

    ``job`` is a key of `ackq.demo.source.JOBS`; ``title`` describes the messages. Without a
    ``url``, a private server is started. The work is spread over ``seconds``.
    """

    bodies: list[bytes]
    title: str
    job: str = "line"
    url: str | None = None
    workers: int = 4
    producers: int = 3
    seconds: float = 13.0
    lease: float = 2.0

    def orders(self, queue: str) -> dict[str, Any]:
        """Return what the processes need to know. A batch takes much less than the lease."""
        pause = min(self.lease * 0.4, self.seconds * self.workers / len(self.bodies))
        batch = min(MAX_BATCH, max(1, round(min(BATCH_SECONDS, self.lease / 4) / pause)))
        return {
            "queue": queue,
            "lease": self.lease,
            "job": self.job,
            "batch": batch,
            "pause": pause,
            "push_seconds": self.seconds / 2,
        }


def run(plan: Plan, display: Display) -> bool:
    """Run a demo, show its account, and return whether every check holds.

    However it ends, it leaves no process, no file and no key behind.
    """
    name = f"ackq-demo-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackq-demo-")))
        url = plan.url or stack.enter_context(Server(folder / "redis")).url
        queue = stack.enter_context(Queue.from_url(url, name, visibility_timeout=plan.lease))
        stack.callback(_delete, url, name)
        stage = Stage(plan, display, queue, url, folder)
        stack.callback(stage.end)
        stack.callback(display.close)
        stage.play()
        checks = stage.account()
    display.account(checks)
    return all(result.ok for result in checks)


def _delete(url: str, name: str) -> None:
    keys = QueueKeys.of(name)
    with redis.Redis.from_url(url) as client:
        client.delete(*keys.all(), keys.looks)


class Stage:
    """The processes of one demo, and the code that watches them."""

    def __init__(self, plan: Plan, display: Display, queue: Queue, url: str, folder: Path) -> None:
        self._plan, self._display, self._queue = plan, display, queue
        self._url, self._folder = url, folder
        job = JOBS[plan.job]
        self._digests = {fingerprint(body): job(body) for body in plan.bodies}
        self._producers: list[Child] = []
        self._workers: list[Child] = []
        self._start = time.monotonic()
        self._faults = Faults(self._workers, len(plan.bodies), self._tell)

    def play(self) -> None:
        """Start the processes, watch them until the queue is empty, and end them."""
        place = "the given Redis" if self._plan.url else "a private Redis"
        where = f"{self._queue.name} of {place}"
        self._display.open(self._plan.title, len(self._plan.bodies), where)
        self._start_all()
        self._watch()
        self.end()
        self._show()

    def _watch(self) -> None:
        faults, next_look, empty_since = self._faults.steps(), 0.0, None
        progress_at = time.monotonic()
        while True:
            now = time.monotonic()
            progress_at = now if self._read() else progress_at
            done = next(faults, True)
            if now >= next_look:
                next_look = now + STATS_TICK
                empty_since = (empty_since or now) if self._is_over(self._show()) else None
                # Wait a moment: a late ack may still be under way.
                if empty_since and (done or now - empty_since > 1):
                    return
                if now - progress_at > STALL:
                    self._tell(f"nothing happened for {STALL:g} seconds: giving up")
                    return
            time.sleep(TICK)

    def end(self) -> None:
        """End every process that still runs, and read all journals to the end."""
        running = [child for child in self._children() if not child.ended()]
        for child in running:
            child.stop()
        for child in running:
            child.end()
        self._read()

    def account(self) -> list[Check]:
        """Check the journals of all processes together."""
        bodies = Counter(fingerprint(body) for body in self._plan.bodies)
        pushed = [child.tally for child in self._producers]
        worked = {child.name: child.tally for child in self._workers}
        faults, queue = self._faults, self._queue
        crashes = [crash for child in self._children() if (crash := child.crash())]
        return check(
            Evidence(
                bodies,
                self._digests,
                pushed,
                worked,
                faults.killed,
                faults.killed_held,
                queue.stats(),
                queue.audit(),
                crashes,
            )
        )

    def _children(self) -> list[Child]:
        return [*self._producers, *self._workers]

    def _read(self) -> bool:
        """Read every journal, and return whether anything happened."""
        return sum(child.read() for child in self._children()) > 0

    def _start_all(self) -> None:
        plan, orders = self._plan, self._plan.orders(self._queue.name)
        places = self._url, self._folder, self._digests
        for number in range(1, plan.workers + 1):
            self._workers.append(Child("work", number, orders, *places))
        for number in range(1, min(plan.producers, len(plan.bodies)) + 1):
            bodies = self._folder / f"bodies-{number}"
            own = plan.bodies[number - 1 :: plan.producers]
            bodies.write_bytes(b"".join(body + b"\n" for body in own))
            orders["bodies"] = str(bodies)
            self._producers.append(Child("produce", number, orders, *places))

    def _is_over(self, stats: QueueStats) -> bool:
        return all(producer.ended() for producer in self._producers) and not (
            stats.ready or stats.in_flight or stats.delayed
        )

    def _show(self) -> QueueStats:
        stats = self._queue.stats()
        pushed = total(child.tally.pushed for child in self._producers).total()
        self._display.update(time.monotonic() - self._start, stats, pushed, self._workers)
        return stats

    def _tell(self, text: str) -> None:
        self._display.tell(time.monotonic() - self._start, text)
