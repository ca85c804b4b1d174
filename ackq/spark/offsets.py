"""Offsets as stored in a checkpoint: source, batch and version."""

from __future__ import annotations

from typing import Any, TypeAlias

from ackq.errors import ConfigurationError

Offset: TypeAlias = dict[str, Any]

VERSION = 2


def made(source: str, **fields: int | list[int]) -> Offset:
    """Return an offset of this version for a source, as named by `Reading.source`."""
    return {"version": VERSION, "source": source, **fields}


def read(offset: Offset, source: str, *fields: str) -> tuple[int, ...]:
    """Return the fields of an offset.

    Raises:
        ConfigurationError: the offset is of another version or another source, so it does not
            describe what has been done here.
    """
    version = offset.get("version")
    if version != VERSION:
        raise ConfigurationError(
            f"the checkpoint holds an offset of version {version!r}, and this ackq reads version"
            f" {VERSION}: go on with the ackq that wrote it, or begin with a new checkpoint; what"
            " was claimed and not acked is offered again"
        )
    if offset.get("source") != source:
        raise ConfigurationError(
            f"the checkpoint is that of {offset.get('source')}, and not of {source}, where nothing"
            " of what it says was done: begin with a new checkpoint. A query keeps to its queue or"
            " topic, and to its group"
        )
    return tuple(offset[field] for field in fields)
