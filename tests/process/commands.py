"""Runs ``ackq work`` as users do, in processes that a test may kill."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests import forked

ROOT = Path(__file__).parents[2]


class Command:
    """A running ``ackq work``, and what its handlers wrote."""

    def __init__(self, process: subprocess.Popen[bytes], journal: Path, log: Path) -> None:
        self.process = process
        self._journal = journal
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[psutil.Process]:
        """Return the worker processes below this one."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [
                child
                for child in psutil.Process(self.pid).children()
                if child.status() != psutil.STATUS_ZOMBIE
            ]
        return []

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return what the handlers wrote; a line cut short by a kill is left out."""
        found = []
        for line in self._journal.read_text().splitlines() if self._journal.exists() else ():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [each for each in found if event in (None, each["event"])]

    def log(self) -> str:
        return self._log.read_text()

    def wait(self, timeout: float = 20) -> int:
        return self.process.wait(timeout)


@contextlib.contextmanager
def working(
    folder: Path,
    url: str,
    handler: str,
    *options: str,
    cwd: Path = ROOT,
    variables: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (),
    before: str = "",
) -> Iterator[Command]:
    """Run ``ackq work handler options``; kill it and its children in the end.

    Args:
        folder: for the journal, the log and temporary files.
        url: of the server.
        handler: module:name.
        options: of the command.
        cwd: where to run it.
        variables: of the environment, beside those of the tests.
        launcher: a command that runs the command.
        before: a statement to run first.
    """
    journal, log = folder / "journal", folder / "log"
    environment = {
        **os.environ,
        "JOURNAL": str(journal),
        "ACKQ_REDIS_URL": url,
        "TMPDIR": str(folder),  # a parent that is killed leaves its own folder there
        "PYTHONDONTWRITEBYTECODE": "1",
        **(variables or {}),
    }
    code = f"{before}\nfrom ackq.cli import main; main()"
    # Like the installed script, without the current folder in front of everything.
    command = [*launcher, sys.executable, "-P", "-c", code, "work", handler, *options]
    with log.open("ab") as output:
        process: forked.Popen[bytes] = forked.Popen(
            command, cwd=cwd, env=environment, stdout=output, stderr=output
        )
    running = Command(process, journal, log)
    try:
        yield running
    finally:
        children = running.children()
        process.kill()
        process.wait()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
