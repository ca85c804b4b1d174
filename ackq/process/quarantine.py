"""Runs suspects, one at a time, in a process beside the others.

A message that ran in a process that ended is suspect, and so is one whose last permitted delivery
ended without anyone seeing how. If the process ends while a suspect runs in it, that delivery
has failed; the message stays here, and is tried again after the usual delay.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from ackq.core.failure import capture
from ackq.errors import LeaseLost
from ackq.ops.sharded import at_its_stage
from ackq.process.abandoned_messages import opened
from ackq.process.held_messages import FINISHED, RUNNING, Held, ended
from ackq.process.inbox import written
from ackq.process.plan import UNNAMED
from ackq.queue.client import Queue
from ackq.worker.logs import about, log, reason_of
from ackq.worker.policy import RENEW_AFTER, Settlement
from ackq.worker.suspects import Suspect

#: Seconds between two looks at the leases, and until the next try while Redis is unreachable.
INTERVAL, PAUSE = 0.05, 0.5


@dataclass(slots=True, eq=False)
class Kept:
    """A suspect that waits here."""

    held: Held
    count: int
    due: float = 0.0  #: when to run it
    renew_at: float = 0.0  #: when to renew its lease

    @property
    def charged(self) -> bool:
        """Whether a delivery of it has failed, which is not recorded yet."""
        return self.count > self.held.message.receive_count

    @property
    def line(self) -> bytes:
        """What its process gets."""
        held, message = self.held, self.held.message
        failure = capture(held.error, held.config.record_errors).decode() if self.charged else None
        fields = message.queue, message.key, message.receipt, self.count, held.limit, failure
        return written(Suspect(held.number, *fields))


class Quarantine:
    """The suspects of a supervisor: those that wait here, and those that their process has."""

    def __init__(
        self, url: Callable[[], str | None], settle: Callable[[Iterable[Held]], None]
    ) -> None:
        """Begin with none.

        Args:
            url: returns that of the server; see `Child.server`.
            settle: settles messages that a process held.
        """
        self._url = url
        self._settle = settle
        self._waiting: list[Kept] = []
        self._sent: dict[tuple[str, bytes, int], Kept] = {}
        self._lock = threading.Lock()
        self._keeper: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    @property
    def due(self) -> bool:
        """Whether a suspect is to run now. Its lease was renewed, so it is still ours."""
        now = time.monotonic()
        return any(kept.due <= now and kept.renew_at for kept in self._waiting)

    def take(self, held: Iterable[Held]) -> None:
        """Take messages, and keep their leases until they run."""
        self._keep(Kept(one, one.message.receive_count) for one in held)

    def send(self, write: Callable[[bytes], bool]) -> None:
        """Pass those that are due to their process, which keeps their leases from then on.

        Those that have failed come last: they may end it again.
        """
        now = time.monotonic()
        with self._lock:
            due = [each for each in self._waiting if each.due <= now]
            for kept in sorted(due, key=attrgetter("due")):
                if not write(kept.line):
                    return
                self._waiting.remove(kept)
                self._sent[kept.held.id] = kept

    def process_finished(self) -> None:
        """Forget what the process had: it has settled all of that, or given it back."""
        self._sent.clear()

    def process_crashed(self, code: int, held: Iterable[Held], on_purpose: bool) -> bool:
        """Judge what the process had. Return whether a suspect ended it.

        Args:
            code: the exit code.
            held: what it held.
            on_purpose: whether it was killed by its supervisor.
        """
        found: Mapping[tuple[str, bytes, int], Held] = {one.id: one for one in held}
        with self._lock:
            sent, self._sent = self._sent, {}
        ran = False
        for id, kept in sent.items():
            one = found.get(id)
            if one is not None and (one.state == FINISHED or one.overdue):
                self._settle([one])
            elif one is not None and one.state == RUNNING and not on_purpose:
                ran = True
                self._charge(kept, one, code)
            else:
                # If the process has settled it, its lease cannot be renewed.
                kept.renew_at = 0.0
                self._keep([kept])
        return ran

    def end(self) -> None:
        """Give back those that wait: uncounted, or later if a delivery of them has failed."""
        now = time.monotonic()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for kept in waiting:
            if kept.charged:
                later = Settlement("nack", max(0.0, kept.due - now))
                kept.held = replace(kept.held, overdue=True, settlement=later)
        self._settle(kept.held for kept in waiting)

    def _charge(self, kept: Kept, one: Held, code: int) -> None:
        """Count a delivery that ended its process: try it again later, or not any more."""
        error = ended(code)
        verb, delay = one.settlement
        if verb == "reject":
            dead = Settlement("reject", str(error))
            self._settle([replace(one, overdue=True, settlement=dead, error=error)])
            outlook = f"dead after {kept.count}"
        else:
            outlook = f"again in {delay:.3g} s"
            failed = replace(kept.held, error=error)
            self._keep([Kept(failed, kept.count + 1, time.monotonic() + float(delay))])
        about(logging.WARNING, "failed", one.message, error=str(error), outlook=outlook)

    def _keep(self, several: Iterable[Kept]) -> None:
        with self._lock:
            self._waiting += several
            if self._waiting and (self._keeper is None or not self._keeper.is_alive()):
                self._keeper = threading.Thread(target=self._renew_all, daemon=True)
                self._keeper.start()

    def _renew_all(self) -> None:
        """Renew leases until no suspect waits any more."""
        queues: dict[str, Queue] = {}
        while self._renew_due(queues):
            time.sleep(INTERVAL)
        for queue in queues.values():
            queue.close()

    def _renew_due(self, queues: dict[str, Queue]) -> bool:
        """Renew the leases that are due. Return False if no suspect waits any more.

        Args:
            queues: those that are open, by name.
        """
        now = time.monotonic()
        with self._lock:
            if not self._waiting:
                self._keeper = None
                return False
            due = [kept for kept in self._waiting if kept.renew_at <= now]
        for _, several in itertools.groupby(sorted(due, key=_queue), _queue):
            self._renew([*several], now, queues)
        return True

    def _renew(self, several: list[Kept], now: float, queues: dict[str, Queue]) -> None:
        held = several[0].held
        name = held.message.queue
        lost: set[tuple[str, bytes, int]] = set()
        pause, url = held.config.visibility_timeout * RENEW_AFTER, self._url()
        if url == UNNAMED:  # only their process knows it
            for kept in several:
                kept.renew_at = math.inf
            return
        try:
            if name not in queues:
                queues[name] = opened(url, name, held.config)
            at_its_stage(queues[name]).extend(*(kept.held.message for kept in several))
        except LeaseLost as error:
            lost = {(name, one.key, one.receipt) for one in error.messages}
        except Exception as error:  # whatever it is, the others must keep their leases
            log.warning("%r: suspects wait: %s", name, reason_of(error))
            pause = min(pause, PAUSE)
        with self._lock:
            self._waiting = [kept for kept in self._waiting if kept.held.id not in lost]
        for kept in several:
            kept.renew_at = now + pause


def _queue(kept: Kept) -> str:
    return kept.held.message.queue
