"""The faults of a demo: one worker is killed, another is frozen until its lease has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ackq.demo.children import Worker
from ackq.demo.tally import Delivery, counted

#: Shares of the input that are taken when one worker is killed, and when another is frozen.
KILL_AT, FREEZE_AT = 0.2, 0.45
#: Most times that a worker is frozen until one of its acks comes too late.
ATTEMPTS = 5


class Faults:
    """Inject each fault when it is due, one step per call, and wait for its effect."""

    def __init__(self, workers: Sequence[Worker], total: int, tell: Callable[[str], None]) -> None:
        self._workers = workers
        self._total = total
        self._tell = tell
        self._next: Callable[[], None] = self._kill
        self._attempts = 0
        self._frozen: Worker | None = None
        self._asleep: frozenset[Delivery] = frozenset()
        self.killed = ""
        self.killed_held: frozenset[Delivery] = frozenset()
        self.done = False

    def step(self) -> None:
        """Do the next step, if it is due."""
        if not self.done:
            self._next()

    def _kill(self) -> None:
        worker = self._catch_with_hands_full(KILL_AT)
        if worker is None:
            return
        worker.kill()
        worker.state = "killed"
        self.killed, self.killed_held = worker.name, frozenset(worker.tally.held)
        self._tell(
            f"SIGKILL to {worker.name}, which holds {counted(len(worker.tally.held), 'message')}"
        )
        self._next = self._freeze

    def _freeze(self) -> None:
        worker = self._catch_with_hands_full(FREEZE_AT)
        if worker is None:
            return
        worker.state = "frozen"
        self._frozen, self._asleep = worker, frozenset(worker.tally.held)
        self._attempts += 1
        self._tell(
            f"SIGSTOP to {worker.name}, which holds {counted(len(worker.tally.held), 'message')}"
        )
        self._next = self._thaw

    def _thaw(self) -> None:
        """Resume the frozen worker while another worker holds one of its messages."""
        worker = self._frozen
        assert worker is not None
        asleep = dict(self._asleep)
        for other in self._workers:
            if other.state == "running" and any(
                receipt > asleep.get(key, receipt) for key, receipt in other.tally.held
            ):
                worker.thaw()
                worker.state = "running"
                self._tell(f"SIGCONT to {worker.name}: {other.name} holds its messages by now")
                self._next = self._refusal
                return

    def _refusal(self) -> None:
        worker = self._frozen
        assert worker is not None
        if not self._asleep.isdisjoint(worker.tally.held):
            return
        if worker.tally.refused:
            self._tell(f"{worker.name} acked too late: {worker.tally.refused} refused (LeaseLost)")
            self.done = True
        else:
            # The other worker acked first, so there was no late ack to reject.
            self._next = self._freeze
            self.done = self._attempts >= ATTEMPTS

    def _catch_with_hands_full(self, share: float) -> Worker | None:
        """Freeze and return a worker that holds messages, once ``share`` of all were taken.

        Freeze it before checking: between a check and the signal it could have acked.
        """
        running = [worker for worker in self._workers if worker.state == "running"]
        tallies = [worker.tally for worker in self._workers]
        taken = sum(tally.acked.total() + len(tally.held) for tally in tallies)
        if taken < share * self._total:
            return None
        for worker in running:
            if worker.tally.held and worker.freeze():
                if worker.has_hands_full():
                    return worker
                worker.thaw()
        return None
