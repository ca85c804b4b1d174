"""Run a demo: start all processes, watch, inject faults, end the processes, make the account."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import redis

from ackq.demo.account import Check, Evidence, check
from ackq.demo.children import Child, Producer, Worker
from ackq.demo.display import Display, Snapshot, WorkerRow
from ackq.demo.faults import Faults
from ackq.demo.journal import Reader
from ackq.demo.source import JOBS, fingerprint
from ackq.demo.tally import PushTally, WorkTally
from ackq.embedded import Server
from ackq.queue.client import Queue
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import QueueStats

C = TypeVar("C", bound=Child)
T = TypeVar("T", PushTally, WorkTally)

#: Seconds between two checks of the journals, and between two of the queue.
TICK, STATS_TICK = 0.02, 0.2
#: Seconds without progress after which the demo gives up.
STALL = 30.0
#: Longest time, in seconds, that a worker holds a batch, and the most messages in one.
BATCH_SECONDS, BATCH_LIMIT = 0.5, 1000


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

    @property
    def pause(self) -> float:
        """Seconds that a worker spends on a message. A batch takes much less than the lease."""
        return min(self.lease * 0.4, self.seconds * self.workers / len(self.bodies))

    @property
    def batch(self) -> int:
        """Messages that a worker takes per batch."""
        return min(BATCH_LIMIT, max(1, round(min(BATCH_SECONDS, self.lease / 4) / self.pause)))


def run(plan: Plan, display: Display) -> bool:
    """Run a demo, show its account, and return whether every check holds.

    However it ends, it leaves no process, no file and no key behind.
    """
    name = f"ackq-demo-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackq-demo-")))
        url = plan.url or stack.enter_context(Server(folder / "redis")).url
        queue = stack.enter_context(_queue(url, name, plan))
        stage = Stage(plan, display, queue, url, folder)
        stack.callback(stage.end)
        stack.enter_context(display)
        stage.play()
        checks = stage.account()
    display.account(checks)
    return all(each.ok for each in checks)


@contextlib.contextmanager
def _queue(url: str, name: str, plan: Plan) -> Iterator[Queue]:
    """Yield a queue whose keys are deleted at the end."""
    with Queue.from_url(url, name, visibility_timeout=plan.lease) as queue:
        try:
            yield queue
        finally:
            with contextlib.closing(redis.Redis.from_url(url)) as client:
                client.delete(*QueueKeys.of(name).all())


class Stage:
    """The processes of one demo, and the code that watches them."""

    def __init__(self, plan: Plan, display: Display, queue: Queue, url: str, folder: Path) -> None:
        self._plan, self._display, self._queue = plan, display, queue
        self._url, self._folder = url, folder
        job = JOBS[plan.job]
        self._digests = {fingerprint(body): job(body) for body in plan.bodies}
        self._producers: list[Producer] = []
        self._workers: list[Worker] = []
        self._start = self._progress_at = time.monotonic()
        self._progress = -1
        self._faults = Faults(self._workers, len(plan.bodies), self._tell)

    def play(self) -> None:
        """Start the processes, watch them until the queue is empty, and end them."""
        place = "the given Redis" if self._plan.url else "a private Redis"
        where = f"{self._queue.name} of {place}"
        self._display.open(self._plan.title, len(self._plan.bodies), where)
        self._start_all()
        next_look, empty_since = 0.0, None
        while True:
            for child in self._children():
                child.read()
            self._faults.step()
            now = time.monotonic()
            if now >= next_look:
                next_look = now + STATS_TICK
                stats = self._queue.stats()
                self._display.update(self._snapshot(stats))
                empty_since = (empty_since or now) if self._is_over(stats) else None
                # Wait a moment: a late ack may still be under way.
                if empty_since and (self._faults.done or now - empty_since > 1):
                    break
                if self._stalled():
                    self._tell(f"nothing happened for {STALL:g} seconds: giving up")
                    break
            time.sleep(TICK)
        self.end()
        self._display.update(self._snapshot(self._queue.stats()))

    def end(self) -> None:
        """End every process that still runs, and read all journals to the end."""
        running = [child for child in self._children() if not child.ended()]
        for child in running:
            child.stop()
        for child in running:
            child.end()
        for child in self._children():
            child.read()

    def account(self) -> list[Check]:
        """Read every journal again from the first line, and check them together."""
        return check(
            Evidence(
                input=Counter(fingerprint(body) for body in self._plan.bodies),
                digests=self._digests,
                producers={child.name: _reread(child, PushTally()) for child in self._producers},
                workers={
                    child.name: _reread(child, WorkTally(self._digests)) for child in self._workers
                },
                killed=self._faults.killed,
                killed_held=self._faults.killed_held,
                stats=self._queue.stats(),
                audit=self._queue.audit(),
                crashes=[crash for child in self._children() if (crash := child.crash())],
            )
        )

    def _children(self) -> list[Producer | Worker]:
        return [*self._producers, *self._workers]

    def _start_all(self) -> None:
        plan, share = self._plan, self._plan.bodies
        orders: dict[str, Any] = {"queue": self._queue.name}
        orders |= {"lease": plan.lease, "job": plan.job, "batch": plan.batch, "pause": plan.pause}
        for number in range(1, plan.workers + 1):
            tally = WorkTally(self._digests)
            self._workers.append(self._start_child(Worker, "worker", number, orders, tally))
        for number in range(1, min(plan.producers, len(share)) + 1):
            bodies = self._folder / f"bodies-{number}"
            own = share[number - 1 :: plan.producers]
            bodies.write_bytes(b"".join(body + b"\n" for body in own))
            orders |= {"bodies": str(bodies), "seconds": plan.seconds / 2}
            push = PushTally()
            self._producers.append(self._start_child(Producer, "producer", number, orders, push))

    def _start_child(
        self, kind: Callable[..., C], module: str, number: int, orders: dict[str, Any], tally: Any
    ) -> C:
        name = f"{module} {number}"
        return kind(name, module, orders, self._url, self._folder, tally)

    def _is_over(self, stats: QueueStats) -> bool:
        return all(producer.ended() for producer in self._producers) and not (
            stats.ready or stats.in_flight or stats.delayed
        )

    def _stalled(self) -> bool:
        pushed, processed, acked = self._counts()
        if pushed + processed + acked != self._progress:
            self._progress, self._progress_at = pushed + processed + acked, time.monotonic()
        return time.monotonic() - self._progress_at > STALL

    def _counts(self) -> tuple[int, int, int]:
        tallies = [worker.tally for worker in self._workers]
        return (
            sum(producer.tally.pushed.total() for producer in self._producers),
            sum(tally.processed.total() for tally in tallies),
            sum(tally.acked.total() for tally in tallies),
        )

    def _snapshot(self, stats: QueueStats) -> Snapshot:
        pushed, processed, acked = self._counts()
        return Snapshot(
            elapsed=time.monotonic() - self._start,
            pushed=pushed,
            ready=stats.ready,
            in_flight=stats.in_flight,
            processed=processed,
            acked=acked,
            redelivered=sum(worker.tally.redelivered.total() for worker in self._workers),
            refused=sum(worker.tally.refused for worker in self._workers),
            workers=[
                WorkerRow(worker.name, worker.pid, worker.state, worker.tally.processed.total(),
                          len(worker.tally.held))
                for worker in self._workers
            ],
        )  # fmt: skip

    def _tell(self, text: str) -> None:
        self._display.tell(time.monotonic() - self._start, text)


def _reread(child: Child, tally: T) -> T:
    tally.add(Reader(child.journal).read())
    return tally
