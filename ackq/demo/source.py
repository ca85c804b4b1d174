"""The demo's input: the files of the standard library, or the lines of a given input."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Callable
from pathlib import Path

import orjson

from ackq.errors import ConfigurationError


def standard_library() -> list[bytes]:
    """Return a message for each source file of the running Python's standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts)
    if not paths:
        raise ConfigurationError(f"{root} holds no source files: give the demo an --input")
    return [orjson.dumps({"id": str(path.relative_to(root)), "path": str(path)}) for path in paths]


def lines_of(content: bytes) -> list[bytes]:
    """Return the lines without newlines, otherwise unchanged. They need not be JSON."""
    lines = content.removesuffix(b"\n").split(b"\n")
    if not content:
        raise ConfigurationError("the input is empty: there is nothing to do")
    return lines


def fingerprint(body: bytes) -> str:
    """Return the hash that stands for a body in the journals: bodies need no text and no id."""
    return hashlib.sha256(body).hexdigest()


def _hash_of_file(body: bytes) -> str:
    return fingerprint(Path(orjson.loads(body)["path"]).read_bytes())


#: Jobs: from a message's body to its result, in hexadecimal. "file" hashes the file that the body
#: names, "line" the body.
JOBS: dict[str, Callable[[bytes], str]] = {"file": _hash_of_file, "line": fingerprint}
