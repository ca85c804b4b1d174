"""A private redis-server, the child of one process."""

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

#: Seconds that a private server may take to answer its first PING.
START_TIMEOUT = 10.0
#: Seconds that it may take to flush its data before it is killed.
STOP_TIMEOUT = 10.0


class Server:
    """One private redis-server, a child of this process, with its data in ``directory``.

    It listens on a unix socket of its own, with ``port`` also on that port of the
    loopback interface, and nowhere else. Writes go to an append-only log, which ``start``
    reads again. With Redis's default, ``appendfsync everysec``, a ``kill`` can lose up to
    about 2 s of what was answered, if an fsync was running; with ``always`` it loses nothing.
    ``options`` are lines of redis.conf, written as they are; they override the defaults.
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
        #: The product and version of the server, once it was started.
        self.release: Release | None = None

    @property
    def url(self) -> str:
        """The URL of the port, or of the socket where no port was given."""
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
            ServerNotFound: There is no redis-server to start.
            AckqError: It ended, or did not answer in time; the end of its log is in the text.
        """
        if self._process is not None:
            raise AckqError(f"the redis-server in {self.directory} runs already")
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
                process_group=0,  # Ctrl-C is for its owner, which then stops it
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
        # Asked over the socket, since another's server may hold the port and answer there.
        while not answers(socket_path(self.directory)):
            if self._process.poll() is not None:
                raise failure("ended at once", self.directory, logged)
            if time.monotonic() > deadline:
                raise failure(f"did not answer within {START_TIMEOUT:g} s", self.directory)
            time.sleep(POLL)

    def wait(self) -> None:
        """Return when the server has ended, which it only does when somebody ends it."""
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """End the server as a shutdown does: the log of writes is flushed. Idempotent."""
        deadline = time.monotonic() + STOP_TIMEOUT
        while self._process is not None and time.monotonic() < deadline:
            # Again and again: a server refuses while it writes its first log of writes.
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)  # a frozen process would not hear it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.1)
                break
        self.kill()

    def kill(self) -> None:
        """End the server as a crash does. Idempotent; ``start`` starts it again."""
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
