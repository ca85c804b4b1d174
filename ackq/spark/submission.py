"""Run a pipeline on a cluster: what is sent there, and the settings and command that send it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from ackq.errors import ConfigurationError
from ackq.spark import packages
from ackq.spark.connection import URL_VARIABLE, holds_secret
from ackq.spark.formats.body_format import SCHEMA_FILE
from ackq.spark.pipeline.config import PipelineConfig
from ackq.spark.pipeline.plan import Plan
from ackq.spark.pipeline.section import refused
from ackq.spark.properties import write_properties

#: Where Kubernetes' driver gets the files from, which it does not share with this machine.
_UPLOAD = "spark.kubernetes.file.upload.path"
#: Settings that are lists, to which ours are added.
_LISTS = ("spark.archives", "spark.files")
#: What spark-submit runs: the command ``ackq``.
_MAIN = Path(__file__).parents[1] / "cli" / "__main__.py"


@dataclass(frozen=True, slots=True)
class Submission:
    """A pipeline, and the cluster that it is to run on."""

    #: The file of the configuration.
    file: Path
    #: The cluster, as spark-submit knows it: ``spark://…``, ``yarn``, ``k8s://…``.
    master: str
    #: Whether the driver runs on the cluster, too. Otherwise, it runs on this machine.
    cluster: bool = False
    #: The Python of the cluster's machines, which has ackq. None: ackq is sent to them.
    python: str | None = None
    #: The URL of Redis, in the environment of this machine.
    url: str | None = None

    def config(self) -> PipelineConfig:
        """Return the configuration, as the driver will read it.

        Raises:
            PipelineConfigError: it is not valid, or does not work on this cluster.
            ConfigurationError: Spark does not run pipelines like this.
        """
        config = PipelineConfig.read(self.file)
        Plan(config)  # imports the transform's function
        if self.master.startswith("sc://"):
            raise ConfigurationError(
                "a pipeline cannot run over Spark Connect, whose callbacks run in another process:"
                " submit it to the cluster of the server, such as --master spark://host:7077"
            )
        if self.cluster:
            if self.master.startswith(("spark://", "local")):
                raise ConfigurationError(
                    f"Spark does not start Python drivers on {self.master}: leave --deploy-mode"
                    " out, and run the command on a machine that the workers can connect to"
                )
            if self.master.startswith("k8s://") and _UPLOAD not in config.spark:
                raise refused(
                    str(self.file),
                    "spark",
                    _UPLOAD,
                    "is required: a place for the files of the driver, such as s3a://bucket/path",
                )
            for section, key, path in _paths(config):
                # The driver has only the file, so there is no folder that a path could start at.
                if PurePath(path).is_relative_to(self.file.absolute().parent):
                    raise refused(
                        str(self.file),
                        section,
                        key,
                        "is a folder of this machine: use a URL that all machines know, such as"
                        " hdfs:///pipelines/cars or s3a://bucket/cars",
                    )
            schema = config.source.format.get(SCHEMA_FILE)
            if schema is not None and PurePath(schema).parent != self.file.absolute().parent:
                raise refused(
                    str(self.file),
                    "source",
                    "schema_file",
                    "must be in the folder of the configuration, with which it is sent",
                )
        return config

    @property
    def executable(self) -> str:
        """The Python that driver and executors run."""
        return self.python or f"python{sys.version_info[0]}.{sys.version_info[1]}"

    def settings(self, folder: Path) -> dict[str, str]:
        """Return all settings of Spark, after writing what is sent to ``folder``.

        They contain no password of Redis.

        Raises:
            PipelineConfigError: as in `config`.
            ConfigurationError: as in `config`.
        """
        config = self.config()
        ours = {
            "spark.master": self.master,
            "spark.submit.deployMode": "cluster" if self.cluster else "client",
            "spark.app.name": f"ackq pipeline {config.name}",
            "spark.pyspark.python": self.executable,
        }
        if self.cluster:
            schema = config.source.format.get(SCHEMA_FILE)
            files = [str(self.file.absolute()), *([schema] if schema else [])]
            ours["spark.files"] = ",".join(files)
        environment = {}
        if self.python is None:
            archive = folder / f"{packages.FOLDER}.tar.gz"
            transform = config.transform.callable
            packages.pack(
                archive, transform.partition(":")[0] if isinstance(transform, str) else None
            )
            ours["spark.archives"] = f"{archive}#{packages.FOLDER}"
            environment["PYTHONPATH"] = f"./{packages.FOLDER}"
        if self.url is not None and not holds_secret(self.url):
            environment[URL_VARIABLE] = self.url
        for name, value in environment.items():
            ours[f"spark.executorEnv.{name}"] = value
            if self.cluster:
                ours[f"spark.yarn.appMasterEnv.{name}"] = value
                ours[f"spark.kubernetes.driverEnv.{name}"] = value
        if self.cluster:
            ours["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] = self.executable
        theirs = dict(config.spark)
        for name in _LISTS:
            if name in ours and name in theirs:
                ours[name] = f"{theirs[name]},{ours[name]}"
        return {**theirs, **ours}

    def configured(self, folder: Path) -> PipelineConfig:
        """Return the configuration with all settings, for a driver in this process.

        Raises:
            PipelineConfigError: as in `config`.
            ConfigurationError: as in `settings`.
        """
        return replace(self.config(), spark=self.settings(folder))

    def prepare(self, folder: Path, arguments: Sequence[str]) -> list[str]:
        """Write everything to ``folder``, and return the command that runs the pipeline.

        Args:
            folder: exists; only this user should be able to read it.
            arguments: for ``ackq pipeline run``, after the configuration.

        Raises:
            PipelineConfigError: as in `config`.
            ConfigurationError: as in `settings`.
        """
        passed = write_properties(folder / "spark.properties", self.settings(folder))
        main = shutil.copy(_MAIN, folder / "ackq_pipeline.py")
        config = self.file.name if self.cluster else str(self.file.absolute())
        return ["spark-submit", *passed, str(main), "pipeline", "run", config, *arguments]


def _paths(config: PipelineConfig) -> Iterator[tuple[str, str, str]]:
    """Yield section, key and value of each folder."""
    yield "", "checkpoint", config.checkpoint
    for sink in config.sinks:
        if sink.path is not None:
            yield sink.section, "path", sink.path
    for table in config.tables:
        yield f"tables.{table.name}", "path", table.path
