"""The offset log and the commit log of a query, in Spark's own format, on a local disk."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from ackq.errors import ConfigurationError, Fenced
from ackq.spark.offsets import Offset

#: The newest batches whose files are kept, as Spark keeps them.
KEPT = 100
_VERSION = "v1"
_METADATA, OFFSETS, _COMMITS = "metadata", "offsets", "commits"


class CheckpointLog:
    """Plans and commits the batches of a query that has one source.

    Guarantee: a file is complete and on the disk before it has its name, and a batch is planned or
    committed by one process only. Spark can continue a query from these files, and the other way
    round.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def query_id(self) -> str:
        """Return the id of the query. The first call for a checkpoint creates it."""
        path = self._folder / _METADATA
        if not path.exists():
            self._write(path, json.dumps({"id": str(uuid4())}, separators=(",", ":")))
        return str(json.loads(path.read_text())["id"])

    def committed(self) -> int:
        """Return the number of the last batch that is done; -1: none is."""
        return max(self._numbers(_COMMITS), default=-1)

    def committed_at(self, batch: int) -> float:
        """Return when a batch was done, in seconds since the epoch."""
        return (self._folder / _COMMITS / str(batch)).stat().st_mtime

    def planned(self, batch: int) -> Offset | None:
        """Return the offset at which a batch ends; None if the batch is not planned.

        Raises:
            ConfigurationError: another release of Spark wrote the file in another format.
        """
        text = self._text(batch)
        return None if text is None else end_of(text, str(self._folder / OFFSETS / str(batch)))

    def ends(self) -> tuple[Offset | None, Offset | None]:
        """Return where the last batch that is done ends, and the last one that is planned."""
        done = self.committed()
        return self.planned(done), self.planned(done + 1) or self.planned(done)

    def plan(self, batch: int, end: Offset) -> None:
        """Record the offset at which a batch ends, before the batch is read.

        Raises:
            Fenced: another process has planned the batch.
        """
        # Spark compares settings of stateful queries. It has written those of the first batch,
        # unless it has not run this query yet; then it takes those of its session.
        before = self._text(batch - 1)
        metadata: dict[str, Any] = {} if before is None else json.loads(before.splitlines()[1])
        metadata = {"batchWatermarkMs": 0, "conf": {}, **metadata}
        metadata["batchTimestampMs"] = time.time_ns() // 1_000_000
        lines = (_VERSION, json.dumps(metadata, separators=(",", ":")), json.dumps(end))
        self._write(self._folder / OFFSETS / str(batch), "\n".join(lines))

    def commit(self, batch: int) -> None:
        """Record that a batch is done, and delete the files of old batches.

        Raises:
            Fenced: another process has committed the batch.
        """
        done = json.dumps({"nextBatchWatermarkMs": 0}, separators=(",", ":"))
        self._write(self._folder / _COMMITS / str(batch), f"{_VERSION}\n{done}")
        for name in (OFFSETS, _COMMITS):
            for number in self._numbers(name):
                if number <= batch - KEPT:
                    _remove(self._folder / name / str(number))

    def _text(self, batch: int) -> str | None:
        try:
            return (self._folder / OFFSETS / str(batch)).read_text()
        except FileNotFoundError:
            return None

    def _numbers(self, name: str) -> list[int]:
        folder = self._folder / name
        names = os.listdir(folder) if folder.exists() else []
        return [int(each) for each in names if each.isdecimal()]

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid4()}.tmp")
        try:
            with draft.open("x") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            # Hadoop would compare the file with a checksum that was left behind.
            _checksum(path).unlink(missing_ok=True)
            _name(draft, path)
        except FileExistsError:
            raise Fenced(
                f"another run with this checkpoint has written {path.parent.name}/{path.name} first"
            ) from None
        finally:
            draft.unlink(missing_ok=True)
        _sync(path.parent)


def end_of(text: str, path: str) -> Offset:
    """Return the offset in a file of the offset log; ``path`` is for errors.

    Raises:
        ConfigurationError: another release of Spark wrote the file in another format.
    """
    lines = text.splitlines()
    if len(lines) != 3 or lines[0] != _VERSION:
        raise ConfigurationError(
            f"{path} is not an offset of one source in version {_VERSION}: use the release of"
            " Spark that wrote it, or a new checkpoint"
        )
    return dict(json.loads(lines[2]))


def _name(draft: Path, path: Path) -> None:
    """Give a file its name, unless another one has it."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        if path.exists():
            raise FileExistsError(path) from None
        draft.rename(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _checksum(path).unlink(missing_ok=True)


def _checksum(path: Path) -> Path:
    """Return the file in which Hadoop keeps the checksum of another one."""
    return path.with_name(f".{path.name}.crc")


def _sync(folder: Path) -> None:
    """Write the names of a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
