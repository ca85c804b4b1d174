"""Keep troubles from flapping: `Steady`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ackq.ops.attention.model import Key, Limits, Trouble


class Steady:
    """What goes on, from one look to the next. A trouble keeps its begin until it is over."""

    def __init__(self, limits: Limits) -> None:
        """Prepare.

        Args:
            limits: of them, those for which a server cannot be read, and until a trouble is over.
        """
        self._limits = limits
        #: What goes on, and when it was last seen.
        self._seen: dict[Key, tuple[Trouble, float]] = {}

    def settle(self, found: Iterable[Trouble], now: float) -> list[Trouble]:
        """Return what goes on.

        While a server cannot be read, nothing is known of its queues: their troubles go on.

        Args:
            found: what is seen.
            now: the time in seconds since the epoch, which may be set back.
        """
        for trouble in found:
            begun, _ = self._seen.get(trouble.key, (None, 0.0))
            since = now if trouble.since is None else trouble.since
            if begun is not None and begun.since is not None:
                since = min(since, begun.since)
            self._seen[trouble.key] = replace(trouble, since=since), now
        blind = any(
            key.kind in ("unreadable", "loading") and at == now
            for key, (_, at) in self._seen.items()
        )
        for key, (trouble, at) in [*self._seen.items()]:
            if at != now and blind and key.queue:
                self._seen[key] = trouble, now
            elif at != now and not 0 <= now - at < self._limits.calm:
                del self._seen[key]
        return [trouble for trouble, _ in self._seen.values() if self._lasts(trouble, now)]

    def _lasts(self, trouble: Trouble, now: float) -> bool:
        limit = self._limits.unreadable
        if trouble.key.kind != "unreadable":
            return True
        return bool(limit) and now - (trouble.since or now) >= limit
