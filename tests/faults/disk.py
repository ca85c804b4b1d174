"""A disk whose syncs a test can stall, for one redis-server."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.servers.binaries import best_server
from tests.servers.target import Absent
from tests.waiting import wait_until

_SOURCE = Path(__file__).with_name("stalled_fsync.c")


class Disk:
    """The disk of the server that ``executable`` starts."""

    def __init__(self, folder: Path) -> None:
        """Build the preload and the program that starts a server with it.

        Raises:
            Absent: it cannot be built here.
        """
        compiler = shutil.which("gcc") or shutil.which("cc")
        if not sys.platform.startswith("linux") or compiler is None:
            raise Absent("stalling fsync needs Linux and a C compiler (apt install gcc libc6-dev)")
        self._stall = folder / "stall"
        self._waiting = folder / "stall.waiting"
        library = folder / "stalled_fsync.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise Absent(f"{compiler} cannot build {_SOURCE.name}: {built.stderr.strip()}")
        self.executable = folder / "redis-server"
        settings = (
            f"LD_PRELOAD={shlex.quote(str(library))} ACKQ_STALL={shlex.quote(str(self._stall))}"
        )
        server = shlex.quote(str(best_server()))
        self.executable.write_text(f'#!/bin/sh\n{settings} exec {server} "$@"\n')
        self.executable.chmod(0o755)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Let no sync that begins in this block end before its end."""
        self._waiting.unlink(missing_ok=True)
        self._stall.touch()
        try:
            yield
        finally:
            self._stall.unlink()

    @property
    def waiting(self) -> bool:
        """Whether a sync has met the stall."""
        return self._waiting.exists()

    def wait_for_a_sync(self) -> None:
        """Return when a sync waits."""
        wait_until(lambda: self.waiting, "an fsync to begin")
