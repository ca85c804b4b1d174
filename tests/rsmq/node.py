"""The original from npm: installed once into a cache, then required by peer.js."""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

VERSION = "0.12.4"
#: Seconds that npm may take.
PATIENCE = 50


class Missing(Exception):
    """This machine cannot have the original; the text says why."""


@cache
def installed() -> Path:
    """Return the folder of the npm package, installing it if it is not there yet.

    Raises:
        Missing: no node, no npm, or npm cannot get the package.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not on PATH")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = home / "ackq-tests" / f"rsmq-{VERSION}"
    if not place.exists():
        _install(place)
    return place / "node_modules" / "rsmq"


def _install(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        command = [
            "npm",
            "install",
            "--prefix",
            folder,
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            f"rsmq@{VERSION}",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Missing(f"npm install rsmq took over {PATIENCE} s") from None
        if done.returncode:
            raise Missing(f"npm install rsmq: {done.stderr.strip().splitlines()[-1:]}")
        try:
            Path(folder).rename(place)
        except OSError:
            if not place.exists():  # else another worker of this run was quicker
                raise
        else:
            Path(folder).mkdir()  # what the context manager expects to remove
