"""Connects tasks to the server of tests."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ackq.core.client import client_of
from ackq.core.names import literal
from ackq.testing.servers import PREFIX, server_url


@contextmanager
def connected(*tasks: Any, url: str | None = None) -> Iterator[str]:
    """Within this block, tasks push to and take from queues of their own on the server of tests.

    The queues of `ackq.tasks.Tasks` and `ackq.tasks.AsyncTasks` get names that no other block has,
    and tasks that share a queue still share it. At the end, their keys are deleted, and the tasks
    have their former server and names, also if the block raises.

    Args:
        tasks: one or more.
        url: of the server, as `server_url` yields it. Defaults to None: one for this block.

    Yields:
        How the names of the queues begin.
    """
    prefix = f"{PREFIX}{secrets.token_hex(6)}-"
    with ExitStack() as stack:
        chosen = url or stack.enter_context(server_url())
        stack.callback(_delete, chosen, prefix)
        for each in dict.fromkeys(tasks):
            queues = Opened(inspect.iscoroutinefunction(each.handle))
            stack.callback(queues.close)
            stack.enter_context(each.redirected(chosen, prefix, queues))
        yield prefix


class Opened(dict[str, Any]):
    """The queues that tasks have opened in a test, by name.

    Those of asyncio are closed when the event loop of the test ends, which only its end can do.
    """

    def __init__(self, asynchronous: bool) -> None:
        self._asynchronous = asynchronous
        self._ends: list[AsyncGenerator[None, None]] = []

    def __setitem__(self, name: str, queue: Any) -> None:
        if self._asynchronous:
            self._ends.append(_at_end_of_loop(queue.aclose))
        super().__setitem__(name, queue)

    def close(self) -> None:
        """Close the blocking ones."""
        for queue in () if self._asynchronous else self.values():
            queue.close()


def _at_end_of_loop(close: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
    """Call ``close`` when the running event loop ends; it ends its asynchronous generators."""

    async def generate() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await close()

    generator = generate()
    with suppress(StopIteration):
        generator.asend(None).send(None)  # to the yield, which waits for nothing
    return generator


def _delete(url: str, prefix: str) -> None:
    with client_of(url) as client:
        # The name of a shard begins with a brace.
        for key in client.scan_iter(b"*" + literal(prefix.encode()) + b"*"):
            client.unlink(key)
