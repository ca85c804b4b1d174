"""What lies in a server's folder: its settings, its socket, its log."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from ackq.errors import AckqError

#: Lines of redis.conf: a value as it is written there, or the values of a repeated line.
Options = Mapping[str, str | list[str]]

#: How often a wait looks again, in seconds.
POLL = 0.01
#: The kernel's limit is 108 bytes on Linux and 104 on macOS.
_SOCKET_PATH_LIMIT = 100


def write_config(directory: Path, port: int | None, options: Options) -> Path:
    """Write redis.conf into ``directory``: a socket, a log of writes, nothing evicted."""
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
    config.write_text("".join(lines), encoding="utf-8")
    return config


def quoted(path: Path) -> str:
    """Return a path as redis.conf wants it."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def socket_path(directory: Path) -> Path:
    """Return where the server of ``directory`` listens: inside it, where the path is not too long.

    The other place must be the same for every process, so TMPDIR is not asked.
    """
    path = directory / "redis.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
        return path
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    folder = Path(f"/tmp/ackq-{os.geteuid()}-{digest}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
        raise AckqError(f"{folder} is not ours alone; remove it, or choose a shorter data folder")
    return folder / "redis.sock"


def remove_socket(directory: Path) -> None:
    """Remove what a crash left behind. A server replaces its socket by itself."""
    path = socket_path(directory)
    path.unlink(missing_ok=True)
    if path.parent != directory:
        path.parent.rmdir()


def unix_url(path: Path) -> str:
    """Return the URL of a socket, as redis-py reads it."""
    return f"unix://{quote(str(path))}"


def answers(path: Path) -> bool:
    """Return whether a server listens at this socket and is ready for commands."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def failure(what: str, directory: Path) -> AckqError:
    """Return an error that shows the end of the server's log."""
    log = directory / "redis.log"
    lines = log.read_text(errors="replace").splitlines()[-15:] if log.is_file() else []
    return AckqError("\n".join([f"the redis-server in {directory} {what}", *lines]))
