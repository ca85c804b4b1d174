"""Which benchmarks there are."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from benchmarks.frame import Benchmark

#: Name of each benchmark, and the module that has it.
BENCHMARKS = {
    "cycle": "benchmarks.cycle",
    "depth": "benchmarks.depth",
    "blocked": "benchmarks.blocked",
    "memory": "benchmarks.memory",
    "wakeup": "benchmarks.wakeup",
    "latency": "benchmarks.latency",
    "scaleout": "benchmarks.scaleout",
    "worker": "benchmarks.worker",
    "rsmq": "benchmarks.rsmq",
    "delay": "benchmarks.delay",
    "topic": "benchmarks.topic",
    "spark": "benchmarks.spark",
}


def benchmark(name: str) -> Benchmark:
    """Return a benchmark; its module, and what that needs, is imported only now."""
    return cast(Benchmark, import_module(BENCHMARKS[name]))
