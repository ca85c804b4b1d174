"""A TCP proxy that speaks enough of Redis to harm one chosen request.

It runs in a thread with an event loop of its own. A connection's requests are passed on one by
one, each when the reply to the one before has been delivered, so that a fault hits exactly the
request that it was meant for.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "lose_reply", "cut_reply", "lose_request", "swallow_reply", "half_close", "drip", "delay"
]
#: Seconds after which a client gives up a silent server. A busy machine needs less for a reply.
SILENCE = 1.5
#: Seconds that a client waits for a reply where the server is not to be silent.
PATIENCE = 30.0


@dataclass
class Fault:
    """What happens to the next ``times`` requests of one command.

    ``lose_request`` closes the connection before the server sees the request; ``lose_reply``
    after the server has answered; ``cut_reply`` when half of the answer has been passed on.
    ``swallow_reply`` keeps the connection open and silent. ``half_close`` ends the client's side
    after the server has answered, and reads on. ``drip`` passes the answer on in pieces, over
    ``seconds``. ``delay`` holds it back for ``seconds``.
    """

    command: bytes
    kind: Kind
    times: int = 1
    skip: int = 0  #: how many of these requests pass before
    seconds: float = 0.0
    containing: bytes = b""  #: only requests that contain this
    hit: int = 0


@dataclass
class Proxy:
    """Forward connections to ``upstream``; use it as a context manager."""

    upstream: int
    port: int = 0
    #: The commands that clients sent, in order; a script call as its command.
    seen: list[bytes] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    #: Whether nothing is passed on, on any connection, old or new; they stay open.
    silent: bool = False
    #: Connections that have been opened.
    opened: int = 0
    #: The first of them that is not muted for good.
    _muted: int = 0

    def __enter__(self) -> Proxy:
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        listening: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(listening,), name="proxy")
        self._thread.start()
        assert listening.wait(10), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    @property
    def url(self) -> str:
        """The URL of the server behind the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    def fail(self, command: bytes, kind: Kind, **details: int | float | bytes) -> Fault:
        """Harm the next request of ``command``, and return the fault, which counts its hits."""
        fault = Fault(command, kind, **details)  # type: ignore[arg-type]
        self.faults.append(fault)
        return fault

    def count(self, *commands: bytes) -> int:
        """Return how many of the requests so far were one of these commands."""
        return sum(command in commands for command in self.seen)

    def cut(self) -> None:
        """Close every connection of now, on both sides."""

        def close() -> None:
            for writer in self._writers:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(close)

    def mute(self) -> None:
        """Pass nothing on any more on the connections of now; later ones are as usual."""
        self._muted = self.opened

    def _serve(self, listening: threading.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen(listening))

    async def _listen(self, listening: threading.Event) -> None:
        self._stopped = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 26)
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        async with server:
            await self._stopped.wait()
            for writer in self._writers:
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                back_reader, back_writer = await asyncio.open_connection(
                    "127.0.0.1", self.upstream, limit=1 << 26
                )
                ends.add(back_writer)
                self._writers |= ends
                await self._pass_on(reader, writer, back_reader, back_writer)
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back_reader: asyncio.StreamReader,
        back_writer: asyncio.StreamWriter,
    ) -> None:
        number, self.opened = self.opened, self.opened + 1
        while True:
            request = await _read_value(reader)
            command = request.split(b"\r\n", 3)[2].upper()
            self.seen.append(command)
            if self.silent or number < self._muted:
                await _until_closed(reader)
                return
            fault, seconds = self._fault_for(command, request)
            if fault == "lose_request":
                return
            back_writer.write(request)
            # A client that gives up must free the server's side too, as a router would.
            answer = asyncio.ensure_future(_read_value(back_reader))
            gone = asyncio.ensure_future(_until_closed(reader))
            try:
                await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    return
                reply = answer.result()
            finally:
                for waiting in (answer, gone):
                    waiting.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await waiting
            if fault == "lose_reply":
                return
            if fault == "cut_reply":
                writer.write(reply[: max(1, len(reply) // 2)])
                await writer.drain()
                return
            if fault == "swallow_reply" or self.silent or number < self._muted:
                await _until_closed(reader)
                return
            if fault == "half_close":
                writer.write_eof()
                await _until_closed(reader)
                return
            if fault == "delay":
                await asyncio.sleep(seconds)
            if fault == "drip":
                await _drip(reply, writer, seconds)
            else:
                writer.write(reply)
            await writer.drain()

    def _fault_for(self, command: bytes, request: bytes) -> tuple[Kind | None, float]:
        for fault in self.faults:
            if fault.command != command or fault.containing not in request:
                continue
            if fault.skip:
                fault.skip -= 1
            elif fault.hit < fault.times:
                fault.hit += 1
                return fault.kind, fault.seconds
        return None, 0.0


async def _drip(reply: bytes, writer: asyncio.StreamWriter, seconds: float) -> None:
    size = max(1, len(reply) // 10)
    for at in range(0, len(reply), size):
        writer.write(reply[at : at + size])
        await writer.drain()
        await asyncio.sleep(seconds / 10)


async def _until_closed(reader: asyncio.StreamReader) -> None:
    # Looks at the end of the stream without taking what a pipeline has sent ahead.
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.002)


async def _read_value(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes of one whole value of the Redis protocol."""
    line = await reader.readuntil(b"\r\n")
    kind, size = line[:1], line[1:-2]
    if kind in b"$=!" and int(size) >= 0:
        return line + await reader.readexactly(int(size) + 2)
    if kind in b"*~>%|" and int(size) > 0:
        parts = [line]
        for _ in range(int(size) * (2 if kind in b"%|" else 1)):
            parts.append(await _read_value(reader))
        return b"".join(parts)
    return line


@contextlib.contextmanager
def listener() -> Iterator[int]:
    """Yield a port that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()[1]
