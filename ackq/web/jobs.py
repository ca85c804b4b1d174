"""Operations on many messages, in the background and at a chosen pace: `Jobs`."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import redis
from redis.exceptions import NoPermissionError

from ackq.errors import EXPECTED, ConfigurationError, redact
from ackq.ops.dead_letters import is_after
from ackq.ops.operation_log import FIRST_DUE, OperationLog, Progress

#: Most jobs that run at a time, and most that are remembered when they have ended.
MAX_RUNNING, MAX_ENDED = 8, 20
#: Seconds that a step may take up of a job's pace: at 1,000 per second, a step is 100 messages.
STEP_SECONDS = 0.1
#: Most messages of a step.
MAX_STEP = 500
#: Seconds that the page waits for the end of a job that it has started, and of one that it stops.
WAIT, STOP_WAIT = 1.0, 5.0
#: Seconds between two records of the progress of a job. A page whose record is overdue by `LATE`
#: times as long is taken for dead.
NOTES, LATE = 2.0, 5.0
#: Seconds for which the result of a job is tried to be recorded, and between two attempts.
END_TIME, END_PAUSE = 600.0, 1.0

State = Literal["running", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of a job did."""

    #: How many messages it looked at, and how many of them it moved or deleted.
    looked: int
    moved: int


#: Does the work in steps of at most this many messages, each a few calls of bounded length.
Steps = Callable[[int], Iterator[Step]]


@dataclass(slots=True)
class Job:
    """An operation on many messages. Its thread writes; others read."""

    #: The entry of the log that was recorded before it began.
    begun: str
    who: str
    #: A sentence such as "Redrive 3 dead letters", and what it did to those that it moved.
    what: str
    done: str
    kind: str
    name: str
    #: How many messages it will look at.
    total: int
    pace: int
    state: State = "running"
    looked: int = 0
    moved: int = 0
    problem: str = ""
    #: Who stopped it.
    stopped_by: str = ""
    #: The entry of the log with its result.
    ended: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def result(self) -> str:
        """What it did, as a sentence."""
        text = f"{self.moved:,} {self.done}"
        if self.state == "stopped":
            return f"{text}, then stopped by {self.stopped_by}"
        return f"{text}, then failed: {self.problem}" if self.state == "failed" else text


class Jobs:
    """The jobs of this process. Safe to share between threads."""

    def __init__(self, log: OperationLog) -> None:
        """Prepare.

        Args:
            log: where the beginning and the end of each job are recorded.
        """
        self._log = log
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._closing = threading.Event()

    def start(
        self,
        who: str,
        what: str,
        done: str,
        kind: str,
        name: str,
        total: int,
        pace: int,
        steps: Steps,
        *,
        chosen: bool,
    ) -> Job:
        """Start a job, and return it when it has ended or after `WAIT`.

        Args:
            who: starts it.
            what: it does, as a sentence.
            done: to the messages.
            kind: of the queue.
            name: of the queue.
            total: number of messages that it examines.
            pace: most messages per second.
            steps: does the work.
            chosen: whether the messages were chosen one by one. Of other jobs, only one runs on a
                queue at a time, whichever page started it.

        Raises:
            ConfigurationError: too many are running.
        """
        with self._lock:
            if sum(each.state == "running" for each in self._jobs.values()) >= MAX_RUNNING:
                raise ConfigurationError(
                    f"{MAX_RUNNING} operations are running: wait for one to end, or stop it"
                )
            begun = self._log.begin(who, what, kind, name, "chosen" if chosen else "all")
            if not chosen:
                self._check_alone(begun, kind, name)
            job = Job(begun, who, what, done, kind, name, total, pace)
            for old in [key for key, each in self._jobs.items() if each.over.is_set()][:-MAX_ENDED]:
                del self._jobs[old]
            self._jobs[job.begun] = job
            # An application that this page is mounted in may not tell it of its end.
            atexit.register(self.close)
        threading.Thread(
            target=self._run, args=(job, steps), name=f"ackq-web-{job.begun}", daemon=True
        ).start()
        job.over.wait(WAIT)
        return job

    def _run(self, job: Job, steps: Steps) -> None:
        try:
            self._work(job, steps)
        except EXPECTED as error:
            job.state, job.problem = "failed", redact(str(error)) or type(error).__name__
        except BaseException as error:  # the log must not say that it still runs
            job.state, job.problem = "failed", type(error).__name__
            raise
        finally:
            self._record_end(job)

    def _record_end(self, job: Job) -> None:
        """Record the result; if Redis is away, when it is back, unless this process ends."""
        give_up = time.monotonic() + END_TIME
        try:
            while True:
                try:
                    job.ended = self._log.end(job.begun, job.result)
                    return
                except NoPermissionError:
                    return
                except (redis.ConnectionError, redis.TimeoutError, OSError):
                    if self._closing.wait(END_PAUSE) or time.monotonic() > give_up:
                        return  # the log then shows that there is no result
        finally:
            job.over.set()

    def _check_alone(self, begun: str, kind: str, name: str) -> None:
        """Raise an error, and record it, if an earlier job works on the whole queue."""
        for other in self._log.running():
            entry = other.entry
            same = (entry.job, entry.kind, entry.name) == ("all", kind, name)
            if same and other.alive and is_after(begun, entry.id):
                text = (
                    f"another operation runs on this queue: {entry.what}, started by {entry.who}."
                    " Wait for its end, or stop it"
                )
                self._log.end(begun, f"nothing: {text}")
                raise ConfigurationError(text)

    def _work(self, job: Job, steps: Steps) -> None:
        began = noted = time.monotonic()
        seen, every = job.begun, NOTES
        for step in steps(max(1, min(MAX_STEP, round(job.pace * STEP_SECONDS)))):
            job.looked += step.looked
            job.moved += step.moved
            if time.monotonic() - noted >= every:
                noted = time.monotonic()
                # The longer it has run, the fewer records: about 20 for each doubling.
                every = max(NOTES, (noted - began) / 30)
                now = Progress(
                    job.looked, job.moved, job.total, job.done, max(FIRST_DUE, LATE * every)
                )
                self._log.note(job.begun, now)
                asked, seen = self._log.stop_asked(job.begun, seen)
                if asked:
                    job.stopped_by = job.stopped_by or asked
                    job.stop.set()
            if job.stop.wait(max(0.0, began + job.moved / job.pace - time.monotonic())):
                job.state = "stopped"
                return
        job.state = "done"

    def running(self) -> bool:
        """Return whether a job is running."""
        return not all(each.over.is_set() for each in self.all())

    def all(self) -> list[Job]:
        """Return the jobs, the newest first."""
        with self._lock:
            return list(self._jobs.values())[::-1]

    def find(self, begun: str) -> Job | None:
        """Return a job of this process, or None if it is not known."""
        with self._lock:
            return self._jobs.get(begun)

    def stop(self, job: Job, who: str) -> None:
        """Stop a job after its present step, and wait for that."""
        if not job.over.is_set() and not job.stopped_by:
            job.stopped_by = who
        job.stop.set()
        job.over.wait(STOP_WAIT)

    def close(self) -> None:
        """Stop all jobs, and wait for their steps to end."""
        atexit.unregister(self.close)
        self._closing.set()
        for job in self.all():
            self.stop(job, "the end of the page")
            job.over.wait()
