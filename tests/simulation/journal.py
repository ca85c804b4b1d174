"""The history of a simulation: events in the order in which they happened, at virtual times."""

from collections.abc import Callable

from tests.histories.log import Log


class Journal(Log):
    """A history in memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._lines: list[bytes] = []

    def now(self) -> float:
        return self._now()

    def append(self, line: bytes) -> None:
        self._lines.append(line)

    @property
    def text(self) -> bytes:
        """One JSON line for each event."""
        return b"".join(self._lines)
