"""The demo's input: the files of the standard library, or the lines of a given input."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Callable
from pathlib import Path

import orjson

from ackq.errors import ConfigurationError

#: A job: a function from a message's body to its result, in hexadecimal.
Job = Callable[[bytes], str]


def standard_library() -> list[bytes]:
    """Return a message for each source file of the running Python's standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts)
    if not paths:
        raise ConfigurationError(f"{root} holds no source files: give the demo an --input")
    return [orjson.dumps({"id": str(path.relative_to(root)), "path": str(path)}) for path in paths]


def lines_of(content: bytes) -> list[bytes]:
    """Return the lines without newlines, otherwise unchanged. They need not be JSON."""
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ConfigurationError("the input is empty: there is nothing to do")
    return lines


def hash_file(body: bytes) -> str:
    """Hash the file that the message names: the job of the default demo."""
    return hashlib.sha256(Path(orjson.loads(body)["path"]).read_bytes()).hexdigest()


def hash_line(body: bytes) -> str:
    """Hash the message itself: the job of a demo with an input."""
    return fingerprint(body)


def fingerprint(body: bytes) -> str:
    """Return the hash that stands for a body in the journals: bodies need no text and no id."""
    return hashlib.sha256(body).hexdigest()


JOBS: dict[str, Job] = {"file": hash_file, "line": hash_line}
