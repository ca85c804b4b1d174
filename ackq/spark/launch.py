"""Create a Spark session that finds Python, Java and the format ``ackq``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from ackq.errors import ConfigurationError
from ackq.spark.checkpoint import quicken
from ackq.spark.home import choose_home
from ackq.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: In a value, what would end a line or begin an escape; in a key, also what would end the key.
_VALUE = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_KEY = {**_VALUE, " ": "\\ ", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"}


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
    /usr/lib/jvm if it is 17 or later, otherwise from the extra ``spark``. A local session sets
    SPARK_HOME, if it is not set, to a folder of links from which Python processes start faster. If
    files are on a local disk by default, checkpoints are written without the processes that Hadoop
    starts for each file. If a session is already running, it is returned unchanged.

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
    running = _running()
    if url is not None:
        if running is not None and os.environ.get("ACKQ_REDIS_URL") != url:
            raise ConfigurationError(
                "a Spark session is already running, and its processes would not see another url:"
                " stop it first, or pass option('url', ...) without a password"
            )
        os.environ["ACKQ_REDIS_URL"] = url
    if running is not None:
        return running
    settings = {name: _text(value) for name, value in (config or {}).items()}
    if master is not None or not is_submitted():
        settings = {"spark.master": master or "local[*]", **settings}
    if not is_submitted():
        _choose_python(settings)
        choose_home(settings["spark.master"])
        os.environ["JAVA_HOME"] = str(find_java())
        _add_to_python_path()
        _start_java(settings)
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    quicken(made)
    return made


def is_submitted() -> bool:
    """Return whether spark-submit started this process, so that Spark's JVM is already running."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _running() -> SparkSession | None:
    """Return the session that runs in this process; None: there is none."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        # A thread that has not used Spark has no active session, only the default one. A context
        # that the caller has made may have neither.
        with suppress(PySparkRuntimeError):
            return SparkSession.active()
    return active


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Spark's JVM with the settings in a file that only this user can read.

    PySpark would put them on its command line. spark-defaults.conf still applies to others.
    """
    from pyspark import SparkContext

    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    with NamedTemporaryFile("w", suffix=".properties") as file:
        for key, value in settings.items():
            file.write(f"{_escaped(key, _KEY)}={_escaped(value, _VALUE)}\n")
        file.flush()
        passed = ["--properties-file", file.name, "--load-spark-defaults"]
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(passed) + " " + arguments
        try:
            SparkContext._ensure_initialized()
        finally:
            os.environ["PYSPARK_SUBMIT_ARGS"] = arguments


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(each, each) for each in text)


def _choose_python(config: Mapping[str, object]) -> None:
    # Outside of spark-submit, Spark reads only the environment and ignores the settings. It would
    # prefer PYSPARK_DRIVER_PYTHON for reading the format ackq, even on executors.
    if setting := config.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = str(setting)
        os.environ.pop("PYSPARK_DRIVER_PYTHON", None)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _add_to_python_path() -> None:
    """Let Spark's processes import ackq and PySpark even if only this process's path has them."""
    import pyspark

    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for package in (Path(pyspark.__file__).parent, Path(__file__).parents[1]):
        folder = str(package.parent)
        if "site-packages" not in folder and folder not in paths:
            paths.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
