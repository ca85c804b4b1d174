"""A standalone cluster of Spark: a master and workers, each a process of its own."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from ackq.spark.launch import find_java
from tests.servers import free_port
from tests.spark.home import JAVA
from tests.waiting import wait_until

#: The Python under the virtual environment: workers find neither ackq nor what it needs beside it.
BARE = Path(sys.base_prefix) / "bin"
SPARK = Path(pyspark.__file__).parent


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    #: The URL for spark-submit.
    master: str
    #: The page of the master.
    page: str
    #: The folder with the working directories of the executors, one folder for each worker.
    folder: Path


@contextlib.contextmanager
def standalone(
    folder: Path, workers: int, environment: Mapping[str, str] = {}, path: Path = BARE
) -> Iterator[Cluster]:
    """Run a cluster of workers with one core each, which know the Python in ``path``.

    At the end of the block all its processes are killed.
    """
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        log = _started(
            stack,
            folder / "master",
            environment,
            path,
            "master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            str(page),
        )
        _wait_for(log, "elected leader")
        logs = [
            _started(
                stack,
                folder / f"worker-{number}",
                environment,
                path,
                "worker.Worker",
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                str(free_port()),
                "--work-dir",
                str(folder / f"worker-{number}"),
                url,
            )
            for number in range(workers)
        ]
        for log in logs:
            _wait_for(log, "Successfully registered with master")
        yield Cluster(url, f"http://127.0.0.1:{page}", folder)


def _started(
    stack: contextlib.ExitStack,
    folder: Path,
    environment: Mapping[str, str],
    path: Path,
    main: str,
    *arguments: str,
) -> Path:
    """Start a process that ends with the stack; return its log."""
    folder.mkdir(parents=True)
    log = folder / "log"
    with log.open("wb") as output:
        process = psutil.Popen(
            [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{main}", *arguments],
            env={
                "PATH": f"{path}:/usr/bin:/bin",
                "JAVA_HOME": str(find_java()),
                "SPARK_HOME": str(SPARK),
                "SPARK_DAEMON_JAVA_OPTS": JAVA,
                "HOME": os.environ.get("HOME", "/"),
                **environment,
            },
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    stack.callback(kill, process)
    return log


def _wait_for(log: Path, text: str) -> None:
    wait_until(lambda: text in log.read_text(errors="replace"), f"{log}: {text}", timeout=100)


def kill(process: psutil.Process) -> None:
    """Kill a process and its children."""
    family = process.children(recursive=True) if process.is_running() else []
    for each in (process, *family):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    psutil.wait_procs(family, timeout=10)
