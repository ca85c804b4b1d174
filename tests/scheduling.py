"""Which tests a test process gets at a time."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest
from xdist.scheduler import LoadGroupScheduling

#: The parts of a file.
PARTS = 12


class _Ids(list[str]):
    """The ids of all tests, with their places at hand. xdist looks up the place of each test."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self._places = {each: place for place, each in enumerate(ids)}

    def index(self, nodeid: str, *_: Any) -> int:
        return self._places[nodeid]


class FilesInParts(LoadGroupScheduling):  # type: ignore[misc]
    """Hand out a group as a whole, some files test by test, and all others in parts.

    A part has a few tests, so that a process seldom waits for the next.
    """

    def __init__(self, config: pytest.Config, log: Any, alone: tuple[str, ...]) -> None:
        super().__init__(config, log)
        self._alone = alone

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Ids(collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        # Whenever a test ends, xdist looks through all that its process was given, so forget
        # what it has finished.
        given = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(given[scope].values()):
            del given[scope]

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        if scope != nodeid or nodeid.startswith(self._alone):
            return scope
        file = nodeid.partition("::")[0]
        return f"{file}, part {crc32(nodeid.encode()) % PARTS}"
