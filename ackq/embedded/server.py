"""A private redis-server: a child of one process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

from ackq.embedded.binaries import (
    Binary,
    Release,
    find_server_for,
    note_server,
    server_release,
)
from ackq.embedded.files import (
    POLL,
    Options,
    answers,
    failure,
    log_size,
    private,
    remove_socket,
    socket_path,
    unix_url,
    write_config,
)
from ackq.errors import AckqError

#: Longest time, in seconds, until a private server answers its first PING.
START_TIMEOUT = 10.0
#: Longest time, in seconds, for it to flush its data before it is killed.
STOP_TIMEOUT = 10.0


class Server:
    """A private redis-server, a child of this process, with its data in ``directory``.

    It listens only on a unix socket of its own and, with ``port``, on that port of the loopback
    interface. Writes go to an append-only log, which `start` reads again. With Redis's default,
    ``appendfsync everysec``, `kill` can lose up to about 2 s of confirmed writes if an fsync was
    running; with ``always`` it loses nothing. ``options`` are lines of redis.conf, written
    unchanged. They override the defaults.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        executable: Path | None = None,
        port: int | None = None,
        options: Options | None = None,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.port = port
        self._executable = executable
        self._options = dict(options or {})
        self._process: subprocess.Popen[bytes] | None = None
        #: The product and version of the server; None before the first start.
        self.release: Release | None = None

    @property
    def url(self) -> str:
        """The URL of the port, or of the socket if no port was given."""
        if self.port is not None:
            return f"redis://127.0.0.1:{self.port}/0"
        return self.unix_url

    @property
    def unix_url(self) -> str:
        return unix_url(socket_path(self.directory))

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise AckqError(f"the redis-server in {self.directory} is not running")
        return self._process.pid

    def start(self) -> None:
        """Start the server and return when it answers.

        Raises:
            ServerNotFound: no redis-server was found.
            AckqError: the server ended, or did not answer in time. The text has the end of its log.
        """
        if self._process is not None:
            raise AckqError(f"the redis-server in {self.directory} is already running")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        binary = self._binary()
        logged = log_size(self.directory)
        config = write_config(self.directory, self.port, self._options)
        with open(self.directory / "redis.log", "ab", opener=private) as log:
            self._process = subprocess.Popen(
                [str(binary.path), str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ctrl-C reaches only the owner, which then stops it
                umask=0o077,
            )
        try:
            self._wait(logged)
            note_server(self.directory, binary)
            self.release = binary.release
        except BaseException:
            self.kill()
            raise

    def _binary(self) -> Binary:
        if self._executable is None:
            return find_server_for(self.directory)
        return Binary(self._executable, server_release(self._executable))

    def _wait(self, logged: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT
        # Ask over the socket: another server may own the port and answer there.
        while not answers(socket_path(self.directory)):
            if self._process.poll() is not None:
                raise failure("ended at once", self.directory, logged)
            if time.monotonic() > deadline:
                raise failure(f"did not answer within {START_TIMEOUT:g} s", self.directory)
            time.sleep(POLL)

    def wait(self) -> None:
        """Wait until the server has ended. It does not end by itself."""
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """Shut the server down: its append-only log is flushed. Idempotent."""
        deadline = time.monotonic() + STOP_TIMEOUT
        while self._process is not None and time.monotonic() < deadline:
            # Repeat: a server refuses while it writes its first append-only log.
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)  # a frozen process would not handle it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.1)
                break
        self.kill()

    def kill(self) -> None:
        """Kill the server, as a crash would. Idempotent; `start` starts it again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        remove_socket(self.directory)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
