"""Rounds, statistics and the server's CPU."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import redis


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the least and the greatest of the values it stands for."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Round:
    """What one contestant did in one round."""

    messages: int
    seconds: float
    server_seconds: float

    @property
    def rate(self) -> float:
        """Messages a second, as the client sees it."""
        return self.messages / self.seconds

    @property
    def client_us(self) -> float:
        """Microseconds of waiting and work that a message costs the client."""
        return self.seconds / self.messages * 1e6

    @property
    def server_us(self) -> float:
        """Microseconds of CPU that a message costs the server."""
        return self.server_seconds / self.messages * 1e6


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two contestants compared within each round; ``target`` is a floor or a ceiling."""

    what: str
    spread: Spread
    target: float | None = None
    ceiling: bool = False

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        median, sign = self.spread.median, "<=" if self.ceiling else ">="
        reached = median <= self.target if self.ceiling else median >= self.target
        return f"target {sign} {self.target:g}: {'reached' if reached else 'MISSED'}"

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, **asdict(self.spread), "verdict": self.verdict}


def paired(
    above: Sequence[Round], below: Sequence[Round], figure: Callable[[Round], float]
) -> Spread:
    """Divide round by round: what disturbs the machine for a while disturbs both."""
    return Spread.of([figure(a) / figure(b) for a, b in zip(above, below, strict=True)])


def rotations(names: Sequence[str], rounds: int) -> Iterator[Sequence[str]]:
    """Yield an order for each round: everybody is first in turn, and neighbours swap sides."""
    for index in range(rounds):
        shift = index // 2 % len(names)
        order = [*names[shift:], *names[:shift]]
        yield order[::-1] if index % 2 else order


class ServerCpu:
    """The CPU time that the server has used, as it says itself."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = redis.Redis.from_url(url)

    def seconds(self) -> float:
        info: Any = self._client.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def close(self) -> None:
        self._client.close()


def measure(cycle: Callable[[], int], batch: int, cycles: int, cpu: ServerCpu) -> Round:
    """Run ``cycles`` cycles and check that each brought ``batch`` messages."""
    gc.collect()
    cpu_before = cpu.seconds()
    before = time.perf_counter()
    messages = 0
    for _ in range(cycles):
        messages += cycle()
    seconds = time.perf_counter() - before
    server_seconds = cpu.seconds() - cpu_before
    if messages != cycles * batch:
        raise AssertionError(f"{messages} of {cycles * batch} messages came")
    return Round(messages, seconds, server_seconds)


def cycles_for(cycle: Callable[[], int], seconds: float) -> int:
    """Warm up for ``seconds`` and return how many cycles fit into that time."""
    before = time.perf_counter()
    cycles = 0
    while time.perf_counter() - before < seconds:
        cycle()
        cycles += 1
    return max(1, cycles)
