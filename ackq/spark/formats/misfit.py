"""A decoder of bodies, and its error for a body that it cannot decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Returns the fields of a body as JSON values; raises `Misfit` or another of ``values.MISFITS``.
Decode = Callable[[bytes], dict[str, Any]]


class Misfit(ValueError):
    """A body is not of the format. The text becomes the reason of a dead letter.

    Rejected messages are counted by reason, so a text never contains anything of the body.
    """
