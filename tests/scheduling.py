"""Which tests a test process gets at a time."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from xdist.scheduler import LoadGroupScheduling

#: The parts of a file.
PARTS = 12


class FilesInParts(LoadGroupScheduling):  # type: ignore[misc]
    """Hand out a group as a whole, some files test by test, and all others in parts.

    Whenever a test ends, xdist looks through all that its process was ever given. With parts that
    is little; test by test it takes ten seconds of the whole run, in the process that hands out.
    """

    def __init__(self, config: pytest.Config, log: Any, alone: tuple[str, ...]) -> None:
        super().__init__(config, log)
        self._alone = alone

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        if scope != nodeid or nodeid.startswith(self._alone):
            return scope
        file = nodeid.partition("::")[0]
        return f"{file}, part {crc32(nodeid.encode()) % PARTS}"
