"""The history of a simulation, in the campaign's format; see `tests.campaign.history`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson


class Journal:
    """Events in the order in which they happened, at virtual times."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lines: list[bytes] = []
        self._calls = 0
        self._tokens = 0

    def write(self, **event: Any) -> None:
        """Append an event."""
        self._lines.append(orjson.dumps(event))

    def begin(self, do: str, **event: Any) -> int:
        """Write that a request is about to be sent; return the number of the call."""
        self._calls += 1
        self.write(do=do, call=self._calls, begin=self._now(), **event)
        return self._calls

    def end(self, call: int, state: str, **event: Any) -> None:
        """Write the outcome of a request."""
        self.write(do="end", call=call, end=self._now(), state=state, **event)

    def took(self, got: Sequence[Any], **event: Any) -> int:
        """Write that messages were received; return the token of the first."""
        first = self._tokens
        self._tokens += len(got)
        self.write(do="take", end=self._now(), first=first, got=got, **event)
        return first

    @property
    def text(self) -> bytes:
        """One JSON line for each event."""
        return b"".join(line + b"\n" for line in self._lines)
