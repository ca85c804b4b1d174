"""The faults of a demo: one worker is killed, another is frozen until its lease has ended."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from ackq.demo.children import Child
from ackq.demo.journal import Delivery, counted

#: Shares of the input that are taken when one worker is killed, and when another is frozen.
KILL_AT, FREEZE_AT = 0.2, 0.45
#: Most times that a worker is frozen until one of its acks comes too late.
ATTEMPTS = 5


class Faults:
    """Injects the faults, in `steps` that the demo takes between two looks at the journals."""

    def __init__(self, workers: Sequence[Child], total: int, tell: Callable[[str], None]) -> None:
        self._workers, self._total, self._tell = workers, total, tell
        self.killed = ""
        self.killed_held: frozenset[Delivery] = frozenset()

    def steps(self) -> Generator[None, None, None]:
        """Kill a worker, then freeze others until an ack comes too late; yield to wait."""
        worker = yield from self._caught(KILL_AT, "SIGKILL")
        worker.kill()
        self.killed, self.killed_held = worker.name, frozenset(worker.tally.held)
        for _ in range(ATTEMPTS):
            worker = yield from self._caught(FREEZE_AT, "SIGSTOP")
            worker.state = "frozen"
            asleep = frozenset(worker.tally.held)
            while not (other := self._taker_of(dict(asleep))):
                yield
            worker.thaw()
            worker.state = "running"
            self._tell(f"SIGCONT to {worker.name}: {other.name} holds its messages by now")
            while not asleep.isdisjoint(worker.tally.held):
                yield
            # Otherwise the other worker acked first, so there was no late ack to reject.
            if refused := worker.tally.refused:
                self._tell(f"{worker.name} acked too late: {refused} refused (LeaseLost)")
                return

    def _caught(self, share: float, signal: str) -> Generator[None, None, Child]:
        """Return a frozen worker that holds messages, once ``share`` of all were taken."""
        while not (worker := self._catch(share)):
            yield
        held = counted(len(worker.tally.held), "message")
        self._tell(f"{signal} to {worker.name}, which holds {held}")
        return worker

    def _catch(self, share: float) -> Child | None:
        tallies = [worker.tally for worker in self._workers]
        taken = sum(tally.acked.total() + len(tally.held) for tally in tallies)
        if taken < share * self._total:
            return None
        for worker in self._workers:
            # Freeze it before checking: between a check and the signal it could have acked.
            if worker.state == "running" and worker.tally.held and worker.freeze():
                if worker.tally.held and not worker.tally.acking:
                    return worker
                worker.thaw()
        return None

    def _taker_of(self, asleep: dict[str, int]) -> Child | None:
        """Return a worker that holds a message of the frozen one, under a later receipt."""
        for worker in self._workers:
            later = (receipt > asleep.get(key, receipt) for key, receipt in worker.tally.held)
            if worker.state == "running" and any(later):
                return worker
        return None
