"""Connects tasks to the server of tests."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ackq.core.client import client_of
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.names import literal
from ackq.errors import ConfigurationError
from ackq.testing.servers import PREFIX, check_name, server_url


@contextmanager
def connected(*tasks: Any, url: str | None = None) -> Iterator[str]:
    """Within this block, tasks push to and take from queues of their own on the server of tests.

    The queues of `ackq.tasks.Tasks` and `ackq.tasks.AsyncTasks` get names that no other block has,
    and tasks that share a queue still share it. At the end, their keys are deleted, and the tasks
    have their former server and names, also if the block raises.

    Args:
        tasks: one or more.
        url: of the server, as `server_url` yields it. Defaults to None: one for this block.

    Raises:
        ConfigurationError: something else than tasks was passed, or the server is not a test's.

    Yields:
        How the names of the queues begin.
    """
    for each in tasks:
        if not hasattr(each, "redirected"):
            raise ConfigurationError(f"connected takes Tasks or AsyncTasks, not {each!r}")
    prefix = f"{PREFIX}{secrets.token_hex(6)}-"
    with ExitStack() as stack:
        chosen = url or stack.enter_context(server_url())
        with client_of(chosen) as client:
            Driver(route_of(client, b"")).run(check_name(prefix))
        stack.callback(_delete, chosen, prefix)
        for each in dict.fromkeys(tasks):
            queues = Opened(inspect.iscoroutinefunction(each.handle))
            stack.callback(queues.close)
            stack.enter_context(each.redirected(chosen, prefix, queues))
        yield prefix


class Opened(dict[str, Any]):
    """The queues that tasks have opened in a test, by name.

    Connections of asyncio belong to the event loop that opened them, which may end before the test
    does. So it closes them at its end, together with its asynchronous generators.
    """

    def __init__(self, asynchronous: bool) -> None:
        self._asynchronous = asynchronous
        self._ends: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}

    def __getitem__(self, name: str) -> Any:
        with suppress(RuntimeError):  # no loop runs here
            loop = asyncio.get_running_loop()
            if self._asynchronous and loop not in self._ends:
                self._ends[loop] = end = self._end()
                with suppress(StopIteration):
                    end.asend(None).send(None)  # to its yield, which waits for nothing
        return super().__getitem__(name)

    async def _end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            for queue in self.values():
                await queue.aclose()

    def close(self) -> None:
        """Close all queues."""
        for queue in () if self._asynchronous else self.values():
            queue.close()
        for loop, end in self._ends.items():
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(end.aclose(), loop)
            elif not loop.is_closed():
                loop.run_until_complete(end.aclose())


def _delete(url: str, prefix: str) -> None:
    with client_of(url) as client:
        # The name of a shard begins with a brace.
        for key in client.scan_iter(b"*" + literal(prefix.encode()) + b"*"):
            client.unlink(key)
