"""A real redis-server that does one request at a time, at a time that the simulation sets."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import redis
from redis.exceptions import ResponseError

from ackq import embedded, scripts
from ackq.core.effects import Arg, pack
from tests.campaign.machine import Machine


class Server:
    """One server and one connection, for any number of histories, one after the other."""

    def __init__(self, folder: Path) -> None:
        """Start the server.

        Raises:
            Absent: the library that sets its clock cannot be built here.
        """
        self._machine = Machine(folder / "machine")
        options = {"appendonly": "no", "save": ""}
        self._server = embedded.Server(folder / "data", self._machine.executable, options=options)
        self._server.start()
        #: For saboteurs, which change keys behind the queue's back.
        self.client = redis.Redis.from_url(self._server.unix_url)
        self._connection = self.client.connection_pool.make_connection()
        self._names = scripts.names()
        self._loaded: set[bytes] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.disconnect()
        self.client.close()
        self._server.stop()

    @property
    def processor_time(self) -> float:
        """Seconds of a processor that the server has used."""
        return sum(psutil.Process(self._server.pid).cpu_times()[:2])

    def begin(self, at: int) -> None:
        """Be empty and know every script, so that no history depends on the one before."""
        self.call((b"FLUSHALL",), at)
        for script in map(scripts.load, self._names):
            if script.sha not in self._loaded:
                self.call((b"SCRIPT", b"LOAD", script.text), at)
                self._loaded.add(script.sha)

    def call(self, command: tuple[Arg, ...], at: int) -> Any:
        """Return the reply, or the error that it is, at a time in µs since the epoch."""
        self._machine.stop_clock(at)
        self._connection.send_packed_command([pack(command)], check_health=False)
        try:
            return self._connection.read_response(disable_decoding=True, disconnect_on_error=True)
        except ResponseError as error:
            return error

    def call_when_full(self, command: tuple[Arg, ...], at: int) -> Any:
        """Return the reply of a server that has no memory left."""
        self.call((b"CONFIG", b"SET", b"maxmemory", 1), at)
        reply = self.call(command, at)
        self.call((b"CONFIG", b"SET", b"maxmemory", 0), at)
        return reply

    def flush_scripts(self, at: int) -> None:
        """Forget every script, as a server that was restarted does."""
        self.call((b"SCRIPT", b"FLUSH"), at)
        self._loaded.clear()
