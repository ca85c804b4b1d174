"""The examples for Airflow and Dagster run a pipeline, with the packages from PyPI."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ackq import Queue
from tests.servers.private import private_server
from tests.spark.killed import ROOT

PAGE = (ROOT / "docs" / "schedulers.md").read_text()
CONFIG = """
checkpoint = "state"
source.queue = "cars"
schema.ddl = "id STRING"
sink.path = "rows"
"""
#: The example of each, what to install for it, and the commands that run it once.
SCHEDULERS = {
    "Airflow": (
        "dags/cars.py",
        "apache-airflow",
        ("airflow db migrate", "airflow dags test cars"),
    ),
    "Dagster": ("cars.py", "dagster", ("dagster asset materialize -f cars.py --select cars",)),
}


@pytest.mark.campaign
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_example_of_the_page_runs_a_pipeline(scheduler: str, tmp_path: Path) -> None:
    file, package, commands = SCHEDULERS[scheduler]
    _run(sys.executable, "-m", "venv", tmp_path / "venv")
    _run(tmp_path / "venv" / "bin" / "pip", "install", "--quiet", package)
    _run(tmp_path / "venv" / "bin" / "pip", "check")
    examples = re.findall(r"^```python no-run\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(
        dict(examples)[file]
        .replace("/srv/ackq/bin/ackq", str(Path(sys.executable).with_name("ackq")))
        .replace("/srv/cars", str(tmp_path))
    )
    (tmp_path / "cars.toml").write_text(CONFIG)
    with private_server(tmp_path / "redis") as server, Queue.from_url(server.url, "cars") as queue:
        ids = queue.push_many([{"id": "a"}, {"id": "b"}])
        environment = {
            # Without the path that keeps packages from the processes of other tests.
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "ACKQ_REDIS_URL": server.url,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "DAGSTER_HOME": "",
            "HOME": str(tmp_path),
        }
        for command in commands:
            name, *arguments = command.split()
            _run(tmp_path / "venv" / "bin" / name, *arguments, cwd=tmp_path, env=environment)
        assert queue.stats().ready + queue.stats().in_flight == 0
    assert _rows(tmp_path / "rows") == ids


def _rows(folder: Path) -> list[str]:
    import pyarrow.dataset

    found: list[str] = pyarrow.dataset.dataset(folder).to_table()["id"].to_pylist()
    return sorted(found)


def _run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
