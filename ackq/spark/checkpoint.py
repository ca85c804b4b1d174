"""Find a checkpoint on a local disk, and let Spark write it faster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_WRITER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def quicken(spark: SparkSession, checkpoint: str = "checkpoint") -> bool:
    """Let Spark write a local checkpoint with Hadoop's older interface; return whether it will.

    The default is any checkpoint on the file system that Spark uses by default.

    Without Hadoop's native library, which PySpark does not include, the newer one starts several
    processes (chmod) for every file. That takes up to a third of the time of a small batch. Both
    write a file under another name first and then rename it, so neither leaves part of a file.
    A setting of the user is kept.
    """
    session: Any = spark
    jvm = session._jvm
    if spark.conf.get(_SETTING, None) is not None or not _exists(jvm, _WRITER):
        return False
    if local_folder(spark, checkpoint) is None:
        return False
    spark.conf.set(_SETTING, _WRITER)
    return True


def local_folder(spark: SparkSession, checkpoint: str) -> Path | None:
    """Return the folder of a checkpoint; None: it is not on a local disk."""
    session: Any = spark
    path = session._jvm.org.apache.hadoop.fs.Path(checkpoint)
    is_local = file_system(spark, checkpoint).getUri().getScheme() == "file"
    return Path(path.toUri().getPath()) if is_local else None


def file_system(spark: SparkSession, path: str) -> Any:
    """Return the file system of a path. Only the JVM can use all those that Spark writes to."""
    session: Any = spark
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    return session._jvm.org.apache.hadoop.fs.Path(path).getFileSystem(configuration)


def text_of(spark: SparkSession, path: str) -> str:
    """Return the text of a file.

    Raises:
        Py4JJavaError: it cannot be read.
    """
    session: Any = spark
    jvm = session._jvm
    stream = file_system(spark, path).open(jvm.org.apache.hadoop.fs.Path(path))
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _exists(jvm: Any, name: str) -> bool:
    """Return whether this Spark has a class, since its internals move between releases."""
    try:
        jvm.org.apache.spark.util.Utils.classForName(name, False, False)
    except Py4JJavaError:
        return False
    return True
