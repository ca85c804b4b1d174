"""Operations on many messages, in the background and at a chosen pace: `Jobs`."""

from __future__ import annotations

import atexit
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import redis

from ackq.errors import AckqError, ConfigurationError, redact
from ackq.web.log import OperationLog

#: Most jobs that run at a time, and most that are remembered when they have ended.
MAX_RUNNING, MAX_ENDED = 8, 20
#: Seconds that a step may take up of a job's pace: at 1,000 per second, a step is 100 messages.
STEP_SECONDS = 0.1
#: Most messages of a step.
MAX_STEP = 500
#: Seconds that the page waits for the end of a job that it has started, and of one that it stops.
WAIT, STOP_WAIT = 1.0, 5.0

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

    id: str
    who: str
    #: A sentence such as "Redrive 3 dead letters", and what it did to those that it moved.
    what: str
    done: str
    kind: str
    name: str
    #: How many messages it will look at.
    total: int
    pace: int
    begun: str
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
    ) -> Job:
        """Start a job, and return it when it has ended or after `WAIT`.

        Raises:
            ConfigurationError: too many are running.
        """
        with self._lock:
            if sum(each.state == "running" for each in self._jobs.values()) >= MAX_RUNNING:
                raise ConfigurationError(
                    f"{MAX_RUNNING} operations are running: wait for one to end, or stop it"
                )
            begun = self._log.begin(who, what, kind, name)
            job = Job(secrets.token_hex(8), who, what, done, kind, name, total, pace, begun)
            for old in [key for key, each in self._jobs.items() if each.over.is_set()][:-MAX_ENDED]:
                del self._jobs[old]
            self._jobs[job.id] = job
            # An application that this page is mounted in may not tell it of its end.
            atexit.register(self.close)
        threading.Thread(
            target=self._run, args=(job, steps), name=f"ackq-web-{job.id}", daemon=True
        ).start()
        job.over.wait(WAIT)
        return job

    def _run(self, job: Job, steps: Steps) -> None:
        try:
            self._work(job, steps)
        except (AckqError, redis.RedisError, OSError) as error:
            job.state, job.problem = "failed", redact(str(error)) or type(error).__name__
        except BaseException as error:  # the log must not say that it still runs
            job.state, job.problem = "failed", type(error).__name__
            raise
        finally:
            try:
                job.ended = self._log.end(job.begun, job.result)
            except (AckqError, redis.RedisError, OSError):
                pass  # the log then shows that there is no result
            finally:
                job.over.set()

    def _work(self, job: Job, steps: Steps) -> None:
        began = time.monotonic()
        for step in steps(max(1, min(MAX_STEP, round(job.pace * STEP_SECONDS)))):
            job.looked += step.looked
            job.moved += step.moved
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

    def find(self, id: str) -> Job | None:
        """Return a job, or None if it is not known."""
        with self._lock:
            return self._jobs.get(id)

    def stop(self, job: Job, who: str) -> None:
        """Stop a job after its present step, and wait for that."""
        if not job.over.is_set() and not job.stopped_by:
            job.stopped_by = who
        job.stop.set()
        job.over.wait(STOP_WAIT)

    def close(self) -> None:
        """Stop all jobs, and wait for their steps to end."""
        atexit.unregister(self.close)
        for job in self.all():
            self.stop(job, "the end of the page")
            job.over.wait()
