"""A machine for one server, whose clock, disk and power obey a test."""

import contextlib
import mmap
import os
import random
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ackq.embedded import Server
from tests.servers.binaries import best_server
from tests.servers.target import Absent
from tests.waiting import wait_until

_SOURCE = Path(__file__).with_name("machine.c")
#: The page that the preloaded library maps: clock, stalled, waiting, full, the clock's fixed time,
#: when the last write to the log began, and the last one that is synced.
_PAGE = struct.Struct("qiiiqqq")
_STALLED, _WAITING, _FULL, _SHOWN, _WRITTEN, _DURABLE = 8, 12, 16, 24, 32, 40


class Machine:
    """The machine of the server that `executable` starts."""

    def __init__(self, folder: Path, server: Path | None = None) -> None:
        """Build the library, and the program that starts a server with it.

        Raises:
            Absent: it cannot be built here.
        """
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "machine.so"
        _build(library)
        self._page_file = folder / "page"
        self._synced = folder / "page.synced"
        self._page_file.write_bytes(bytes(_PAGE.size))
        with self._page_file.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _PAGE.size)
        #: Bytes of each file, by inode, that survive a power cut.
        self._durable: dict[int, int] = {}
        binary = server or best_server()
        # A server called by this name checks logs instead.
        self._checker = folder / "redis-check-aof"
        self._checker.symlink_to(binary)
        self.executable = folder / "redis-server"
        settings = (
            f"LD_PRELOAD={shlex.quote(str(library))}"
            f" ACKQ_MACHINE={shlex.quote(str(self._page_file))}"
        )
        command = f'{settings} exec {shlex.quote(str(binary))} "$@"'
        self.executable.write_text(f"#!/bin/sh\n{command}\n")
        self.executable.chmod(0o755)

    def step_clock(self, seconds: float) -> None:
        """Set the server's clock forward, or back."""
        (ahead,) = struct.unpack_from("q", self._page)
        struct.pack_into("q", self._page, 0, ahead + round(seconds * 1_000_000))

    def stop_clock(self, microseconds: int) -> None:
        """Let the server's clock stand still at this time since the epoch."""
        # In one piece: `struct.pack_into` writes zeros first, and for a moment the clock would go.
        memoryview(self._page).cast("q")[_SHOWN // 8] = microseconds

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Let no sync that begins in this block end before its end."""
        self._set(_WAITING, False)
        self._set(_STALLED, True)
        try:
            yield
        finally:
            self._set(_STALLED, False)

    @property
    def waiting(self) -> bool:
        """Whether a sync has met the stall."""
        return bool(struct.unpack_from("i", self._page, _WAITING)[0])

    def wait_for_a_sync(self) -> None:
        """Return when a sync waits."""
        wait_until(lambda: self.waiting, "an fsync to begin")

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Let every write to a file fail in this block: no space left."""
        self._set(_FULL, True)
        try:
            yield
        finally:
            self._set(_FULL, False)

    @property
    def written(self) -> float:
        """When the last write to the log began, as `time.monotonic` counts.

        All that the server had answered before is in the log, and survives the server's death.
        """
        return float(struct.unpack_from("q", self._page, _WRITTEN)[0]) / 1e9

    @property
    def durable(self) -> float:
        """The same for the last write that a sync has covered, which survives a power cut."""
        return float(struct.unpack_from("q", self._page, _DURABLE)[0]) / 1e9

    def cut_power(self, server: Server, draw: random.Random) -> None:
        """Kill the server and take away what its disk had not synced.

        Half of the times a part of that has reached the disk, so that the log ends in the middle
        of a command.
        """
        server.kill()
        for line in self._synced.read_text().splitlines() if self._synced.exists() else ():
            inode, size = map(int, line.split())
            self._durable[inode] = size
        self._synced.unlink(missing_ok=True)
        for path in server.directory.rglob("*"):
            if path.is_file() and path.suffix in (".aof", ".rdb", ".manifest"):
                self._lose_unsynced(path, draw)

    def repair_log(self, server: Server) -> None:
        """Cut off a transaction that a power cut or a kill has torn, as docs/guarantees.md advises.

        Redis itself leaves the beginning of the transaction in the log. Valkey does not.
        """
        if server.release is not None and server.release.product == "valkey":
            return
        manifests = list(server.directory.glob("appendonlydir/*.manifest"))
        for log in manifests or server.directory.glob("appendonly.aof"):
            command = [str(self._checker), "--fix", str(log)]
            subprocess.run(command, input=b"y\n", capture_output=True, check=True)

    def _lose_unsynced(self, path: Path, draw: random.Random) -> None:
        about = path.stat()
        kept = min(self._durable.get(about.st_ino, 0), about.st_size)
        if draw.random() < 0.5:
            kept = draw.randint(kept, about.st_size)
        if kept < about.st_size:
            os.truncate(path, kept)
        self._durable[about.st_ino] = kept

    def _set(self, field: int, value: bool) -> None:
        struct.pack_into("i", self._page, field, value)


def _build(library: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not sys.platform.startswith("linux") or compiler is None:
        raise Absent("an unreliable machine needs Linux and a C compiler (apt install gcc)")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise Absent(f"{compiler} cannot build {_SOURCE.name}: {built.stderr.strip()}")
