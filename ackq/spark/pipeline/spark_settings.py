"""Check the settings of a Spark session, whose mistakes Spark reports in pages."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from ackq.spark.pipeline.section import Section, nearest, refused

#: How a master begins, or what it is.
_MASTER = re.compile(
    r"local(\[(\*|\d+)(, ?\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+", re.ASCII
)
_MASTERS = ("local", "local[2]", "local[*]", "yarn", "spark://HOST:7077", "k8s://https://HOST")
#: Java takes no other form of these sizes.
_SIZE = re.compile(r"[1-9]\d*[kmgt]", re.ASCII | re.IGNORECASE)
_SIZES = ("spark.driver.memory", "spark.executor.memory")
_PREFIX = "spark."
_MASTER_KEY, _STANDALONE = "spark.master", "spark://"
_FOLDERS_KEY, _FOLDERS_VARIABLE = "spark.local.dir", "SPARK_LOCAL_DIRS"
#: Seconds for which a master of a standalone cluster may be unreachable, and between two attempts.
PATIENCE, _PAUSE = 10.0, 0.5


def spark_settings(section: Section) -> dict[str, str]:
    """Return the settings in a section.

    Raises:
        PipelineConfigError: a name is none of Spark, or Spark would not start with a value.
    """
    settings = section.rest()
    for name, value in settings.items():
        if not name.startswith(_PREFIX):
            section.wrong(name, f'is no setting of Spark: write "{_PREFIX}{name}"')
        if name == _MASTER_KEY and _MASTER.fullmatch(value) is None:
            section.wrong(name, f"{value!r} is no master; {nearest(value, _MASTERS)}")
        if name in _SIZES and _SIZE.fullmatch(value) is None:
            section.wrong(name, f"must be a number with k, m, g or t, such as '2g', not {value!r}")
    return settings


def check_places(where: str, settings: Mapping[str, str]) -> None:
    """Check that a master answers, and that Spark has a folder for its own files.

    Without a master, Spark would wait for over a minute. Without a folder, its process ends. It
    gives no reason in either case.

    Args:
        where: names the configuration in errors.
        settings: of the session that is about to start in this process.

    Raises:
        PipelineConfigError: there is no master within `PATIENCE`, or no folder.
    """
    master = settings.get(_MASTER_KEY, "")
    if master.startswith(_STANDALONE) and (problem := _no_master(master)):
        raise refused(where, "spark", _MASTER_KEY, problem)
    folders = settings.get(_FOLDERS_KEY)
    # Spark prefers the variable.
    if folders and _FOLDERS_VARIABLE not in os.environ and (problem := _no_folder(folders)):
        raise refused(where, "spark", _FOLDERS_KEY, problem)


def _no_master(master: str) -> str | None:
    """Return why none of the masters in a URL can be reached; None: one can."""
    try:
        hosts = [urlsplit(f"//{host}") for host in master.removeprefix(_STANDALONE).split(",")]
        addresses = [(host.hostname or "", host.port or 0) for host in hosts]
    except ValueError:
        addresses = []
    if not addresses or not all(map(all, addresses)):
        return f"{master!r} is no master; write spark://HOST:7077"
    until = time.monotonic() + PATIENCE
    while True:
        for address in addresses:
            try:
                socket.create_connection(address, timeout=max(1.0, PATIENCE / 2)).close()
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                return None
        if time.monotonic() + _PAUSE > until:
            return f"no master answers at {master}: {reason}. Start it, or correct the address"
        time.sleep(_PAUSE)


def _no_folder(folders: str) -> str | None:
    """Return why none of the folders can be used; None: one can. It is made, as Spark would."""
    reason = ""
    for folder in folders.split(","):
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix="ackq-", dir=folder):
                return None
        except OSError as error:
            reason = error.strerror or str(error)
    return f"Spark cannot write to {folders}: {reason}. Name a folder that exists and is writable"
