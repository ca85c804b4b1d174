"""Worker processes, one or more, and the parent process that supervises them."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ackq.process.abandoned_messages import Takes, settle
from ackq.process.figures import Reported
from ackq.process.held_messages import HANDED, RUNNING, Held, HeldBy
from ackq.process.kinship import adopts, reap_adopted
from ackq.process.plan import ORDERED_TO_STOP, RECYCLED, UNNAMED, Plan
from ackq.process.quarantine import Quarantine
from ackq.process.service import Service
from ackq.process.spares import Spares, Started
from ackq.worker.base import SHUTDOWN_TIMEOUT
from ackq.worker.logs import log, reason_of
from ackq.worker.signals import stopping_on_signals

#: Exit code of a child whose plan cannot work. It is not restarted.
CANNOT_WORK = 3
#: The parent's folder begins like this; the parent keeps the file locked that is in it.
FOLDER_PREFIX, LOCK_NAME = "ackq-work-", "lock"
#: Seconds between two checks of the children.
CHECK_INTERVAL = 0.1
#: The same while there are suspects, which wait for each other.
BUSY_INTERVAL = 0.02
#: Seconds before a dead child is replaced; doubled each time that a child dies early.
FIRST_PAUSE = 0.1
MAX_PAUSE = 10.0
#: Longest report from a child, in bytes: small enough to send before the parent reads it.
MAX_REPORT = 4096
_REPORTS = re.compile(r"(?:server (\S+)\n)?(?:end (\S+) (.*))?.*", re.DOTALL)
#: Seconds after which the death of a child no longer counts as early.
EARLY_DEATH = 10.0
#: With more suspects than these, a process that messages have ended is replaced after a pause, too.
MANY = 200


class Child:
    """A place for one process. When the process dies, another takes its place."""

    def __init__(self, number: int, plan: Plan, folder: Path) -> None:
        self.number = number
        self.health = folder / str(number)
        self.figures = self.health.with_suffix(".figures")
        self.held = HeldBy(self.health.with_suffix(".held"))
        self.plan = plan.of_child(self.health, self.figures, self.held.file)
        self._started: Started | None = None
        self._reported = b""  #: what the process has reported
        self.server: str | None = None  #: the URL of its server, or `UNNAMED`, if it reported one
        self.reason = ""  #: why the plan cannot work, as the ended process reported it
        self.crashed = False  #: whether the process ended without reporting that it does
        self.taker = ""  #: names the process in the notes of its takes
        self.started = 0.0
        self.restarting = False  #: whether it is being restarted on purpose
        self.killed = False  #: whether it was killed because a handler did not end
        self.overdue: set[int] = set()  #: the records of these handlers
        self.finished = False  #: whether it needs no successor
        self.due = 0.0  #: when to start the next one
        self._deaths = 0

    @property
    def pid(self) -> int | None:
        """The id of the running process, or None."""
        return self._started.process.pid if self._started is not None else None

    @property
    def works(self) -> bool:
        """Whether the process has started to work, or waits for Redis."""
        return self._started is not None and self.health.exists()

    @property
    def starts(self) -> bool:
        """Whether the process has started, but does not work yet."""
        return self._started is not None and not self.health.exists()

    def start(self, spares: Spares) -> None:
        """Start a process, or let a spare one begin."""
        self.health.unlink(missing_ok=True)
        self.held.forget()
        self.killed, self._reported = False, b""
        self.taker = secrets.token_hex(8)
        self.restarting = self.finished = False
        self.started = time.monotonic()
        try:
            self._started = spares.start(self.plan.replaced(taker=self.taker))
        except OSError as error:  # too many processes or open files, perhaps only for now
            log.warning("a worker process could not be started: %s", reason_of(error))
            self._pause()
            return
        self._started.lifeline.setblocking(False)

    def restart(self) -> None:
        """End the process, so that another starts with the changed files."""
        self.restarting, self.finished, self.due = True, False, 0.0
        self.send(signal.SIGTERM)

    def kill_if_stuck(self) -> None:
        """Kill the process, and what it started, if a handler has not ended in time."""
        if self.pid is None or self.killed:
            return
        self.overdue = self.held.overdue(self.pid)
        if not self.overdue:
            return
        # Its handlers may have started processes, which are in its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        count = len(self.overdue)
        handlers = "a handler" if count == 1 else f"{count} handlers"
        log.warning("worker process %d: %s did not end in time: killed", self.pid, handlers)
        self.killed = self.restarting = True
        self.due = 0.0

    def poll(self) -> int | None:
        """Read what the process reports. Return the exit code once, when it has ended."""
        if self._started is None:
            return None
        code = self._started.process.poll()
        with contextlib.suppress(OSError):  # nothing, or its process was killed before it read all
            self._reported += self._started.lifeline.recv(2 * MAX_REPORT)
        found = _REPORTS.fullmatch(self._reported.decode(errors="replace"))
        assert found is not None
        server, stated, reason = found.groups()
        self.server = server or self.server
        if code is None:
            return None
        self._started.close()
        self.reason, self.crashed = reason or "", stated != str(code)
        self._started = None
        if not self.restarting:
            self._pause()
        return code

    def _pause(self) -> None:
        """Decide when to start the next process."""
        now = time.monotonic()
        if now - self.started >= EARLY_DEATH:
            self._deaths = 0
        self.due = now + min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(self._deaths, 10))
        self._deaths += 1

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process runs."""
        if self._started is not None and self._started.process.poll() is None:
            self._started.process.send_signal(number)

    def write(self, line: bytes) -> bool:
        """Pass a line to the process. Return False if it cannot be passed now."""
        if self._started is None or self._started.process.stdin is None:
            return False
        try:
            return os.write(self._started.process.stdin.fileno(), line) == len(line)
        except OSError:
            return False

    def problem(self, stalled_after: float) -> str:
        """Return why the process is not healthy, or an empty string."""
        now = time.monotonic()
        if self._started is None:
            return ""
        try:
            age = time.time() - self.health.stat().st_mtime
        except FileNotFoundError:
            # It may still be starting.
            young = now - self.started < stalled_after
            return "" if young else f"process {self.pid} is not healthy; see its log"
        return "" if age < stalled_after else f"process {self.pid} hangs"


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new temporary folder. Delete it at the end, and now those that others left behind.

    A process that is killed leaves its folder behind, but not its lock on a file in it.
    """
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as name:
        folder = Path(name)
        unnamed = folder / "new"
        with unnamed.open("w") as lock:
            # Locked before it has its name: without a lock it would look left behind.
            fcntl.flock(lock, fcntl.LOCK_EX)
            unnamed.rename(folder / LOCK_NAME)
            for other in folder.parent.glob(f"{FOLDER_PREFIX}*"):
                _delete_if_left(other)
            yield folder


def _delete_if_left(folder: Path) -> None:
    """Delete the folder of a process that has ended; not that of another user."""
    with contextlib.suppress(OSError), (folder / LOCK_NAME).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)


class Processes:
    """Run a plan in one or more processes and replace those that die."""

    def __init__(self, plan: Plan, changed: threading.Event | None = None) -> None:
        """Prepare; nothing starts before `run`.

        Args:
            plan: what each process does, and the number of processes.
            changed: when this event is set, all processes are restarting. Defaults to None:
                never restart them.
        """
        self._plan = plan
        self._changed = changed
        self._stop_requests = self._stops_sent = 0
        self._kill_at = 0.0
        self._code = 0
        self._last_warning = ""
        self._reported = Reported(())
        self._settling: list[threading.Thread] = []
        #: The server of the queues, or `UNNAMED`. None: the embedded server.
        self._url = plan.url
        self._quarantine = Quarantine(lambda: self._url, self._settle)
        self._spares = Spares(plan)

    def stop(self) -> None:
        """Stop all processes. A second call ends their grace at once."""
        self._stop_requests += 1

    def run(self) -> int:
        """Run until a signal or `stop`, or until every process has finished by itself.

        Returns:
            The exit code: 0, or `CANNOT_WORK` if the plan cannot work, which ends all processes.
        """
        with private_folder() as folder:
            children = [Child(number, self._plan, folder) for number in range(self._plan.processes)]
            alone = Child(self._plan.processes, self._plan.of_quarantine(), folder)
            alone.finished = True
            everyone = [*children, alone]
            self._reported = Reported([child.figures for child in everyone])
            health, adopting = self._plan.health(), adopts()
            if health is not None:
                health.served = self._reported
            with (
                health or contextlib.nullcontext(),
                Service() as service,
                stopping_on_signals(self.stop),
                contextlib.closing(self._spares),
            ):
                while not self._is_over(everyone):
                    for child in children:
                        self._supervise(child)
                    # Before suspects run, since one of them will end its process.
                    self._spares.renew(sum(child.starts for child in everyone))
                    self._supervise_alone(alone)
                    self._pass_on(everyone)
                    problems = [child.problem(self._plan.stalled_after) for child in everyone]
                    problem = "; ".join(filter(None, problems))
                    if health is not None:
                        health.show(problem)
                    service.show(
                        ready=all(child.works for child in children),
                        healthy=not problem,
                        stopping=bool(self._stop_requests),
                    )
                    if adopting:
                        reap_adopted({child.pid for child in everyone} | self._spares.pids)
                    time.sleep(BUSY_INTERVAL if self._quarantine else CHECK_INTERVAL)
            self._quarantine.end()
            for thread in self._settling:
                thread.join(SHUTDOWN_TIMEOUT)
        return self._code

    def _is_over(self, children: list[Child]) -> bool:
        if any(child.pid is not None for child in children):
            return False
        if self._quarantine and not self._stop_requests:
            return False
        return bool(self._stop_requests) or all(child.finished for child in children)

    def _supervise(self, child: Child) -> None:
        child.kill_if_stuck()
        self._quarantine.take(child.held.handed())
        code = child.poll()
        self._url = child.server or self._url
        if code is not None:
            self._reported.end(child.figures)
            self._sort(child)
        if code is not None and not self._stop_requests and not child.restarting:
            self._ended(child, code)
        idle = child.pid is None and not child.finished and not self._stop_requests
        if idle and time.monotonic() >= child.due:
            child.start(self._spares)

    def _supervise_alone(self, child: Child) -> None:
        """Run suspects in their own process, as long as there are any."""
        child.kill_if_stuck()
        code = child.poll()
        if code is not None:
            self._reported.end(child.figures)
            on_purpose = child.killed or bool(self._stop_requests)
            held = child.held.read(child.overdue if child.killed else ())
            if not child.crashed:
                self._quarantine.process_finished()
            elif self._quarantine.process_crashed(code, held, on_purpose):
                child.due = 0.0
                if self._quarantine.due:
                    self._spares.keep()
        child.finished = child.pid is None
        if self._stop_requests:
            return
        if child.finished and self._quarantine.due and time.monotonic() >= child.due:
            child.start(self._spares)
        if child.works:  # until then, it would not renew their leases
            self._quarantine.send(child.write)

    def _sort(self, child: Child) -> None:
        """Settle or suspect what a process held that did not end as it should."""
        if not child.crashed:
            return
        on_purpose = child.killed or self._stop_requests
        held = child.held.read(child.overdue if child.killed else ())
        ran = [one for one in held if one.state == RUNNING and not on_purpose]
        self._quarantine.take([*ran, *(one for one in held if one.state == HANDED)])
        takes = Takes(child.taker, child.held.queues(), {one.id for one in held} | child.held.taken)
        self._settle((one for one in held if one.state != HANDED and one not in ran), takes)
        if ran and len(self._quarantine) <= MANY:  # one of them is the reason, and runs elsewhere
            child.due = 0.0
            self._spares.keep()

    def _ended(self, child: Child, code: int) -> None:
        if child.reason:
            if child.reason != self._last_warning:
                log.error("%s", child.reason)
                self._last_warning = child.reason
            # With --reload the files may be fixed, so the next try may succeed.
            if self._changed is None:
                self._code = CANNOT_WORK
                self.stop()
            return
        if code == RECYCLED and not child.crashed:
            log.info("worker process %d has ended: starting another", child.number)
            child.due = 0.0
            return
        ends = code == ORDERED_TO_STOP or (code == 0 and self._plan.drain)
        child.finished = ends and not child.crashed
        if not child.finished:
            log.warning("worker process %d ended (%d): starting another", child.number, code)

    def _settle(self, held: Iterable[Held], takes: Takes | None = None) -> None:
        """Settle what a process held, beside the supervision: Redis may be unreachable."""
        held = [*held]
        if not held and not takes:
            return
        if self._url == UNNAMED:
            log.warning("the messages of the process wait for the ends of their leases: give --url")
            return
        thread = threading.Thread(target=settle, args=(self._url, held, takes), daemon=True)
        thread.start()
        self._settling.append(thread)

    def _pass_on(self, children: list[Child]) -> None:
        """Pass file changes and stops on to the children."""
        if self._changed is not None and self._changed.is_set() and not self._stop_requests:
            self._changed.clear()
            self._last_warning = ""
            log.info("files changed: restarting")
            self._spares.close()
            for child in children:
                child.restart()
        while self._stops_sent < self._stop_requests:
            grace = self._plan.grace if self._stops_sent == 0 else 0.0
            self._kill_at = time.monotonic() + grace + 2 * SHUTDOWN_TIMEOUT
            self._stops_sent += 1
            # The second ends the grace at once; see `stopping_on_signals`.
            number = signal.SIGTERM if self._stops_sent == 1 else signal.SIGINT
            for child in children:
                child.send(number)
        if self._stops_sent and time.monotonic() > self._kill_at:
            self._kill_at = math.inf
            for child in children:
                if child.pid is not None:
                    log.warning("worker process %d does not end: killing it", child.pid)
                    child.send(signal.SIGKILL)
