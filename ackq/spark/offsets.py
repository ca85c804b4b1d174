"""Offsets as they lie in a checkpoint: which batch, and of which version of this format."""

from __future__ import annotations

from typing import Any, TypeAlias

from ackq.errors import ConfigurationError

Offset: TypeAlias = dict[str, Any]

VERSION = 1


def made(**fields: int) -> Offset:
    """Return an offset of this version."""
    return {"version": VERSION, **fields}


def read(offset: Offset, *fields: str) -> tuple[int, ...]:
    """Return the fields of an offset.

    Raises:
        ConfigurationError: it is of another version, or of another kind of source.
    """
    version = offset.get("version")
    if version != VERSION:
        raise ConfigurationError(
            f"the checkpoint holds an offset of version {version!r}, and this ackq reads version"
            f" {VERSION}: go on with the ackq that wrote it, or begin with a new checkpoint; what"
            " was claimed and not acked is offered again"
        )
    values = tuple(offset.get(field) for field in fields)
    if not all(type(value) is int for value in values):
        raise ConfigurationError(
            f"the checkpoint is of another kind of source: its offset {offset} has not"
            f" {' and '.join(fields)}. A query keeps to its queue or topic"
        )
    return values  # type: ignore[return-value]
