"""The list of benchmarks."""

from importlib import import_module
from typing import cast

from benchmarks.frame import Benchmark

#: The name of each benchmark, and its module.
BENCHMARKS = {
    "cycle": "benchmarks.cycle",
    "depth": "benchmarks.depth",
    "blocked": "benchmarks.blocked",
    "memory": "benchmarks.memory",
    "wakeup": "benchmarks.wakeup",
    "idle": "benchmarks.idle",
    "latency": "benchmarks.latency",
    "scaleout": "benchmarks.scaleout",
    "capacity": "benchmarks.capacity",
    "fleet": "benchmarks.fleet",
    "worker": "benchmarks.worker",
    "tasks": "benchmarks.tasks",
    "rsmq": "benchmarks.rsmq",
    "groups": "benchmarks.groups",
    "delay": "benchmarks.delay",
    "topic": "benchmarks.topic",
    "exporter": "benchmarks.exporter",
    "spark": "benchmarks.spark",
    "parse": "benchmarks.parse",
    "standalone": "benchmarks.standalone",
}


def benchmark(name: str) -> Benchmark:
    """Return a benchmark. Only now is its module imported."""
    return cast(Benchmark, import_module(BENCHMARKS[name]))
