"""The longest times that scripts accept."""

from __future__ import annotations

#: The latest instant that a sorted set's score holds exactly, in µs: the year 2255.
LATEST = 2**53 - 1
#: Longest delay of a list queue's message, in seconds.
MAX_DELAY = LATEST / 1_000_000

#: Longest lifetime of a push marker, in seconds: ten years.
MAX_DEDUP_WINDOW = 315_360_000.0
