"""The worst cases that the inputs of each script allow: a table for each product."""

from __future__ import annotations

from benchmarks.worst import (
    claims,
    delay,
    ready,
    rsmq,
    settling,
    sharded,
    side,
    staging,
    taking,
    topic,
)
from benchmarks.worst.case import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "claims",
    "delay",
    "ready",
    "rsmq",
    "settling",
    "sharded",
    "side",
    "staging",
    "taking",
    "topic",
]
