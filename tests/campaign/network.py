"""A network between servers, which can be divided into two sides that do not reach each other."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any

#: Where every server listens, and how servers call each other.
HOME = "127.0.0.1"


class Network:
    """Passes connections on, unless they would cross the border of a partition.

    A server is known by the address that it connects from. A client is known by the address that
    it connects to: each group of clients reaches all servers at an address of its own. As in a
    real partition, nothing is closed: what was sent across the border arrives when it is gone.
    """

    def __init__(self, groups: Sequence[str]) -> None:
        """Start, with these groups of clients, named by their addresses."""
        self._groups = groups
        self._cut_off: frozenset[str] = frozenset()
        self._loop = asyncio.new_event_loop()
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._listeners: list[asyncio.Server] = []
        self._passing: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._thread.start()

    def open(self) -> int:
        """Return a port at which a server is to be reached; see `connect`."""
        with socket.create_server((HOME, 0)) as free:
            return int(free.getsockname()[1])

    def connect(self, address: str, port: int, upstream: int) -> None:
        """Pass connections to ``port`` on to a server's own port.

        Args:
            address: where the server connects from.
            port: what `open` returned.
            upstream: where the server listens.
        """
        self._do(self._listen(address, port, upstream))

    def divide(self, cut_off: Collection[str]) -> None:
        """Let these addresses reach only each other, and the others only each other."""
        self._do(self._set(frozenset(cut_off)))

    def heal(self) -> None:
        """End the partition."""
        self.divide(())

    def close(self) -> None:
        """End all connections."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> None:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(30)

    async def _set(self, cut_off: frozenset[str]) -> None:
        self._cut_off = cut_off
        if cut_off:
            self._is_whole.clear()
        else:
            self._is_whole.set()

    async def _end(self) -> None:
        for listener in self._listeners:
            listener.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _listen(self, server: str, port: int, upstream: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._passing.add(task)
            called = writer.get_extra_info("sockname")[0]
            caller = called if called != HOME else writer.get_extra_info("peername")[0]
            try:
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await self._pass_on(caller, server, reader, writer, upstream)
            finally:
                self._passing.discard(task)
                writer.transport.abort()

        for address in (HOME, *self._groups):
            self._listeners.append(await asyncio.start_server(accept, address, port))

    async def _pass_on(
        self,
        caller: str,
        server: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: int,
    ) -> None:
        await self._crossing(caller, server)
        back_reader, back_writer = await asyncio.open_connection(HOME, upstream)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pump(caller, server, reader, back_writer))
                tasks.create_task(self._pump(caller, server, back_reader, writer))
        except* (OSError, _Ended):
            pass
        finally:
            back_writer.transport.abort()

    async def _pump(
        self, caller: str, server: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(1 << 16):
            await self._crossing(caller, server)
            writer.write(data)
            await writer.drain()
        await self._crossing(caller, server)
        raise _Ended

    async def _crossing(self, one: str, other: str) -> None:
        """Return when the two reach each other."""
        while (one in self._cut_off) != (other in self._cut_off):
            await self._is_whole.wait()


class _Ended(Exception):
    """One side has closed the connection."""
