"""Fixtures: tasks of both flavours on one plain server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ackq import Queue
from ackq.tasks import AsyncTasks, Tasks
from tests.facade import Portal
from tests.waiting import wait_until


class Rig:
    """Tasks of the test's flavour; a test uses the asynchronous ones like the blocking ones."""

    def __init__(self, tasks: Any, queue: Queue, portal: Portal) -> None:
        #: Asynchronous ones define tasks in the same way.
        self.tasks: Tasks = tasks
        self.is_async = isinstance(tasks, AsyncTasks)
        self.queue = queue
        self._portal = portal

    def middleware(self, register: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> None:
        """Register middleware that calls ``wrap(what it was called with)`` before the call."""

        def plain(message: Any, call: Callable[[], Any]) -> Any:
            with wrap(message):
                return call()

        async def awaits(message: Any, call: Callable[[], Any]) -> Any:
            with wrap(message):
                return await call()

        register(awaits if self.is_async else plain)

    def push(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        pushed = task.push
        return (
            self._portal.call(pushed, *args, **kwargs) if self.is_async else pushed(*args, **kwargs)
        )

    def drain(self, **settings: Any) -> None:
        """Handle what is ready."""
        self.run(self.tasks, drain=True, **settings)

    def worker(self, **settings: Any) -> Any:
        """Return a worker for the tasks."""
        make = self.tasks.worker
        return self._portal.call(make, **settings) if self.is_async else make(**settings)

    def run(self, worker: Any, **settings: Any) -> None:
        """Let a worker run, or tasks."""
        if self.is_async:
            self._portal.call(worker.run, **settings)
        else:
            worker.run(**settings)

    @contextlib.contextmanager
    def working(self, **settings: Any) -> Iterator[None]:
        """Let a worker run beside the test."""
        worker = self.worker(**settings)
        thread = threading.Thread(target=self.run, args=(worker,))
        thread.start()
        try:
            yield
        finally:
            worker.stop()
            thread.join()

    def drain_until_dead(self, count: int = 1, **settings: Any) -> None:
        """Handle what is ready until there are ``count`` dead letters."""

        def are_dead() -> bool:
            self.drain(**settings)
            return self.queue.stats().dead >= count

        wait_until(are_dead, f"{count} dead letters")

    def reasons(self) -> list[str]:
        """Return why messages are dead, oldest first, without the name of the task."""
        return [letter.reason.rpartition("': ")[2] for letter in self.queue.dead_letters()]


@pytest.fixture
def rig_of(url: str, token: str, flavour: str, portal: Portal) -> Iterator[Callable[..., Rig]]:
    """``rig_of(**settings)``: tasks with these settings."""
    with contextlib.ExitStack() as stack:

        def make(**settings: Any) -> Rig:
            queue = Queue.from_url(url, token)
            stack.callback(queue.close)
            if flavour == "sync":
                tasks: Any = Tasks(url, queue=token, **settings)
                stack.callback(tasks.close)
            else:
                tasks = portal.call(AsyncTasks, url, queue=token, **settings)
                stack.callback(portal.call, tasks.aclose)
            return Rig(tasks, queue, portal)

        yield make


@pytest.fixture
def rig(rig_of: Callable[..., Rig]) -> Rig:
    return rig_of()
