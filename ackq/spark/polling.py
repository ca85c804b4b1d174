"""How often a driver looks for new messages."""

from __future__ import annotations

import math
import time

#: The pause before another look, as a share of the time for which nothing has come.
SHARE = 0.1


class Polling:
    """Paces the looks of one driver.

    The pause after a look that found nothing is a tenth of the time for which the source has been
    idle. It is ``longest`` seconds at most, so this is how often a driver looks at an idle source.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._came = time.monotonic()
        self._looked = -math.inf

    def wait(self) -> None:
        """Wait until the next look after one that found nothing is due."""
        now = time.monotonic()
        pause = self._looked + min(self._longest, SHARE * (now - self._came)) - now
        if pause > 0:
            time.sleep(pause)

    def note(self, *, found: bool) -> None:
        """Note whether a look has found messages."""
        now = time.monotonic()
        if found:
            self._came, self._looked = now, -math.inf
        else:
            self._looked = now
