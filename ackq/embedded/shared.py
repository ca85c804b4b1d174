"""The redis-server that all processes of this account share when no URL is given.

The *server process* holds the file ``lock`` in its folder, through an inherited descriptor. The
kernel frees the lock when the process ends for any reason, so a stale socket or pid file blocks
nothing. The process that gets the lock may start a server; the others wait for its PONG.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ackq.embedded.binaries import Binary, find_server_for, note_server
from ackq.embedded.files import (
    POLL,
    answers,
    failure,
    log_size,
    make_private,
    quoted,
    socket_path,
    unix_url,
    write_config,
)
from ackq.errors import AckqError, ConfigurationError

#: Seconds to wait for the server, which may first read a long append-only log.
SHARED_TIMEOUT = 60.0


def shared_url() -> str:
    """Return the URL of the one persistent server of this account; start it if needed.

    Its data is in ``$ACKQ_HOME``, else ``$XDG_DATA_HOME/ackq``, else ``~/.local/share/ackq``.
    Processes that call this at the same time get the same server. The call that starts it prints
    the data folder to stderr.

    Raises:
        ServerNotFound: no redis-server was found.
        AckqError: the server did not start. The text has the end of its log.
    """
    folder = data_folder()
    address = socket_path(folder)
    deadline = time.monotonic() + SHARED_TIMEOUT
    logged, started = log_size(folder), False
    while not answers(address):
        with _lock(folder) as lock:
            if lock is not None and started:
                raise failure("ended at once", folder, logged)
            if lock is not None:
                binary = _start_shared(folder, lock)
                started = True
        if time.monotonic() > deadline:
            raise failure(f"did not answer within {SHARED_TIMEOUT:g} s", folder)
        time.sleep(POLL)
    if started:
        note_server(folder, binary)
        text = f"ackq: started its own server, data in {folder} (to stop it: ackq serve --stop)"
        print(text, file=sys.stderr)
    return unix_url(address)


def stop_shared() -> bool:
    """Stop the shared server and wait until it is gone. Return False if there was none."""
    folder = data_folder()
    deadline = time.monotonic() + SHARED_TIMEOUT
    stopped = False
    while True:
        with _lock(folder) as lock:
            if lock is not None:
                return stopped
        # The pid is only valid while the server answers. It may refuse at first: see Server.stop.
        if answers(socket_path(folder)) and (pid := _shared_pid(folder)):
            os.kill(pid, signal.SIGTERM)
            stopped = True
        if time.monotonic() > deadline:
            raise failure(f"did not stop within {SHARED_TIMEOUT:g} s", folder)
        time.sleep(POLL)


@contextlib.contextmanager
def exclusive(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Prevent a second server on the data in ``folder``, which would corrupt it.

    Other users are denied access to the data.

    Raises:
        AckqError: a server runs or starts there, or the folder is not private to this user.
    """
    path = Path(folder).absolute()
    make_private(path)
    with _lock(path) as lock:
        # A server may have outlived the process that started it.
        if lock is None or answers(socket_path(path)):
            raise AckqError(f"a redis-server is already running on {path}")
        yield


def data_folder() -> Path:
    """Return the folder of this account's data; create it if needed."""
    home = os.environ.get("ACKQ_HOME")
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    folder = Path(home) if home else Path(data) / "ackq"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise ConfigurationError(
            f"ackq's own server cannot keep its data in {folder} ({error.strerror}): set ACKQ_HOME"
            " to a folder that you may write to, or name a server with a URL"
        ) from error
    return folder.resolve()


def _start_shared(folder: Path, lock: int) -> Binary:
    options = {
        "daemonize": "yes",
        "pidfile": quoted(folder / "redis.pid"),
        "logfile": quoted(folder / "redis.log"),
    }
    binary = find_server_for(folder)
    config = write_config(folder, None, options)
    # The server daemonizes itself, and keeps the lock's descriptor while it runs.
    done = subprocess.run(
        [str(binary.path), str(config)],
        capture_output=True,
        text=True,
        pass_fds=[lock],
        umask=0o077,
        check=False,
    )
    if done.returncode != 0:
        output = "; ".join(line for line in done.stderr.splitlines() if line.strip())
        raise AckqError(f"the redis-server in {folder} did not start: {output}")
    return binary


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[int | None]:
    """Yield the descriptor of the folder's lock, or None while another process holds it."""
    import fcntl  # absent on Windows, where a URL is required

    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # not LOCK_UN, which would free the server's lock as well


def _shared_pid(folder: Path) -> int | None:
    try:
        return int((folder / "redis.pid").read_text())
    except (FileNotFoundError, ValueError):
        return None
