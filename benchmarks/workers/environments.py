"""Environments for the peers, made once and kept in a cache: none is a dependency of ackq."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: The files that are run, each in the environment of its peer.
HERE = Path(__file__).parent / "peers"
#: Seconds that an installation may take.
TIMEOUT = 600


class Absent(Exception):
    """The peer is not available on this machine; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A worker to compare with: what to install, and which file to run."""

    name: str
    file: str
    #: Distributions on PyPI, the peer itself first; for Node.js packages on npm.
    packages: tuple[str, ...]
    node: bool = False
    #: Whether it handles one message at a time, whatever it is asked for.
    single: bool = False


PEERS = (
    Peer("dramatiq", "dramatiq_worker.py", ("dramatiq[redis,gevent]", "hiredis")),
    Peer("celery", "celery_worker.py", ("celery[redis]", "hiredis")),
    Peer("rq", "rq_worker.py", ("rq", "hiredis"), single=True),
    Peer("taskiq", "taskiq_worker.py", ("taskiq", "taskiq-redis", "hiredis", "uvloop")),
    Peer("huey", "huey_worker.py", ("huey", "redis", "hiredis")),
    Peer("streaq", "streaq_worker.py", ("streaq", "uvloop")),
    Peer("arq", "arq_worker.py", ("arq", "uvloop")),
    Peer("saq", "saq_worker.py", ("saq[redis,hiredis]", "typing_extensions", "uvloop")),
    Peer("bullmq", "bullmq_worker.mjs", ("bullmq", "ioredis"), node=True),
)


def cache() -> Path:
    """Return the folder that the environments are kept in."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "ackq-benchmarks"


def command_for(peer: Peer) -> list[str]:
    """Return how to start the peer, installing it first if need be.

    Raises:
        Absent: it cannot be installed.
    """
    wanted = hashlib.sha1(repr(peer.packages).encode(), usedforsecurity=False).hexdigest()[:8]
    folder = cache() / f"{peer.name}-{wanted}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _install_node(peer, folder) if peer.node else _install(peer, folder)
        (folder / "complete").touch()
    if not peer.node:
        return [str(folder / "bin" / "python"), str(HERE / peer.file)]
    # Node.js looks for packages beside the file that imports them.
    shutil.copy(HERE / peer.file, folder)
    return [_node(), str(folder / peer.file)]


def version_of(peer: Peer) -> str:
    """Return the installed version of a peer that is installed."""
    command = command_for(peer)
    if peer.node:
        folder = Path(command[1]).parent
        package = folder / "node_modules" / peer.packages[0] / "package.json"
        return str(json.loads(package.read_text())["version"])
    code = f"import importlib.metadata as m; print(m.version({peer.name!r}))"
    done = subprocess.run([command[0], "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _install(peer: Peer, folder: Path) -> None:
    _run(peer, [sys.executable, "-m", "venv", str(folder)])
    _run(peer, [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.packages])


def _install_node(peer: Peer, folder: Path) -> None:
    _node()
    npm = shutil.which("npm")
    if npm is None:
        raise Absent("npm is not installed")
    _run(peer, [npm, "install", "--silent", "--prefix", str(folder), *peer.packages])


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise Absent("Node.js is not installed")
    return node


def _run(peer: Peer, command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Absent(f"it cannot be installed: {last}") from error
    except subprocess.TimeoutExpired as error:
        raise Absent(f"it was not installed within {TIMEOUT} s") from error
