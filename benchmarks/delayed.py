"""A TCP proxy that adds delay, in a process of its own: it simulates a network."""

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from urllib.parse import urlsplit, urlunsplit

from benchmarks.processes import beside

#: Bytes read at a time.
CHUNK = 65_536


@contextmanager
def delayed(url: str, milliseconds: float) -> Iterator[str]:
    """Yield the URL of a proxy for the server at ``url``.

    A round trip through it takes ``milliseconds`` longer, half of that each way, plus about a tenth
    of a millisecond for the proxy itself. As on a real network, data does not wait for earlier
    data to be delivered.
    """
    address = urlsplit(url)
    host, port = address.hostname or "127.0.0.1", address.port or 6379
    with beside(_serve, host, port, milliseconds / 2000) as proxy:
        login = address.netloc.rpartition("@")[0]
        there = f"{login}@127.0.0.1:{proxy.recv()}" if login else f"127.0.0.1:{proxy.recv()}"
        yield urlunsplit(address._replace(netloc=there))


def _serve(pipe: Connection, host: str, port: int, delay: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    pipe.send(listener.getsockname()[1])
    threading.Thread(target=_accept, args=(listener, host, port, delay), daemon=True).start()
    with contextlib.suppress(EOFError):
        pipe.recv()


def _accept(listener: socket.socket, host: str, port: int, delay: float) -> None:
    while True:
        near, _ = listener.accept()
        far = socket.create_connection((host, port))
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pending: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            # No asyncio: its timers have a resolution of only a millisecond.
            threading.Thread(target=_read, args=(source, pending, delay), daemon=True).start()
            threading.Thread(target=_write, args=(sink, pending), daemon=True).start()


def _read(
    source: socket.socket, pending: queue.SimpleQueue[tuple[float, bytes]], delay: float
) -> None:
    data = b"begin"
    while data:
        try:
            data = source.recv(CHUNK)
        except OSError:
            data = b""
        pending.put((time.monotonic() + delay, data))


def _write(sink: socket.socket, pending: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    while True:
        due, data = pending.get()
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        try:
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
        except OSError:
            return
