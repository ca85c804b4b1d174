"""The files in a server's folder: its settings, its socket, its log."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from ackq.errors import AckqError

#: Lines of redis.conf: each value as written there, or a list for a repeated line.
Options = Mapping[str, str | list[str]]

#: The beginning of a log line: process, time, and (looked ahead) a mark of the severity.
_LOGGED = re.compile(r"^\d+:[A-Z] \d+ \w+ \d+ [\d:.]+ (?=[#*.-] )")
#: Beginnings of harmless lines, and of those that every start writes.
_USUAL = (
    "* ",
    "- ",
    ". ",
    "# oO0O",
    "# Redis version",
    "# Configuration loaded",
    "# Server initialized",
    "# WARNING",
)
#: Log lines that an error shows.
_SHOWN = 5
#: The files in a server's folder.
_OWN = re.compile(
    r"redis\.(conf|log|pid|sock)|appendonly(\.aof|dir)|dump\.rdb|temp-.*\.(rdb|aof)|lock|server"
    r"|password"
)
#: Seconds between two checks while waiting.
POLL = 0.01
#: The kernel's limit is 108 bytes on Linux and 104 on macOS.
_MAX_SOCKET_PATH = 100


def write_config(directory: Path, port: int | None, options: Options) -> Path:
    """Write redis.conf into ``directory``: a socket, an append-only log, no eviction."""
    settings: dict[str, str | list[str]] = {
        "bind": "127.0.0.1",
        "port": str(port or 0),
        "unixsocket": quoted(socket_path(directory)),
        "unixsocketperm": "700",
        "dir": quoted(directory),
        "appendonly": "yes",
        "save": '""',
        "maxmemory-policy": "noeviction",
    }
    settings |= options
    lines = [
        f"{name} {value}\n"
        for name, values in settings.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    config = directory / "redis.conf"
    try:
        with open(config, "w", encoding="utf-8", opener=private) as file:
            file.write("".join(lines))
    except OSError as error:
        raise AckqError(f"cannot write to {directory}: {error.strerror}") from error
    return config


def private(path: str, flags: int) -> int:
    """Open a file that other users may not read; an opener for `open`."""
    return os.open(path, flags, 0o600)


def make_private(directory: Path) -> None:
    """Deny other users access to the data in ``directory``, which is created if needed.

    A folder that also contains other files keeps its mode.

    Raises:
        AckqError: the folder belongs to another user, or anyone may write to it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    entries = {path: _OWN.fullmatch(path.name) for path in directory.iterdir()}
    try:
        for entry in (entry for entry, own in entries.items() if own):
            _take_from_others(entry)
            for file in entry.iterdir() if entry.is_dir() and not entry.is_symlink() else ():
                _take_from_others(file)
        if all(entries.values()):
            _take_from_others(directory)
    except PermissionError:
        raise AckqError(f"{directory} is not yours: choose a folder of your own") from None
    if directory.stat().st_mode & stat.S_IWOTH:
        raise AckqError(f"anyone may write to {directory}: choose a folder of your own")


def _take_from_others(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_IMODE(mode) & 0o077 and not stat.S_ISLNK(mode):
        path.chmod(stat.S_IMODE(mode) & ~0o077)


def quoted(path: Path) -> str:
    """Return a path quoted for redis.conf."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def socket_path(directory: Path) -> Path:
    """Return the socket of the server of ``directory``: inside it, unless the path is too long.

    Otherwise it is below /tmp. TMPDIR is ignored: every process must find the same place.
    """
    path = directory / "redis.sock"
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    folder = Path(f"/tmp/ackq-{os.geteuid()}-{digest}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        raise AckqError(
            f"{folder} may be used by others: remove it, or choose a shorter data folder"
        )
    return folder / "redis.sock"


def remove_socket(directory: Path) -> None:
    """Remove a socket that a crash left behind. A new server replaces its socket by itself."""
    path = socket_path(directory)
    path.unlink(missing_ok=True)
    if path.parent != directory:
        path.parent.rmdir()


def unix_url(path: Path) -> str:
    """Return the URL of a socket, as redis-py reads it."""
    return f"unix://{quote(str(path))}"


def answers(path: Path) -> bool:
    """Return whether a server listens at this socket and is ready for commands.

    A server that cannot write to its disk rejects even PING (MISCONF), but can be read from.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith((b"+PONG", b"-NOAUTH", b"-MISCONF"))
        except OSError:
            return False


def port_of(directory: Path) -> int:
    """Return the port in the redis.conf of ``directory``; 0: its server has none."""
    written = (directory / "redis.conf").read_text(encoding="utf-8")
    matched = re.search(r"^port (\d+)$", written, re.MULTILINE)
    return int(matched[1]) if matched else 0


def log_size(directory: Path) -> int:
    """Return the size in bytes of the log of the server of ``directory``."""
    log = directory / "redis.log"
    return log.stat().st_size if log.is_file() else 0


def failure(what: str, directory: Path, logged: int = 0) -> AckqError:
    """Return an error with the log lines of the last start, after the first ``logged`` bytes."""
    log = directory / "redis.log"
    text = log.read_bytes()[logged:].decode(errors="replace") if log.is_file() else ""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if "oO0OoO0OoO0Oo" in line]
    texts = [_LOGGED.sub("", line) for line in lines[max(starts, default=0) :]]
    worth = [line.removeprefix("# ") for line in texts if line and not line.startswith(_USUAL)]
    error = f"the redis-server in {directory} {what}"
    if not lines:
        return AckqError(f"{error}. It has logged nothing: is its disk full?")
    return AckqError(f"{error}: {'; '.join(worth[-_SHOWN:])}" if worth else error)
