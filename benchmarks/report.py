"""What a benchmark prints and writes."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import redis

from benchmarks.harness import Ratio, Spread
from benchmarks.servers import Target


def parser(module: str, purpose: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    options = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=purpose)
    options.add_argument("--url", help="measure this server; default: start one")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    options.add_argument("--seed", type=int, default=1, help="of the messages; default: 1")
    options.add_argument(
        "--smoke", action="store_true", help="tiny sizes, to see that it runs; measures nothing"
    )
    return options


def circumstances(target: Target, settings: argparse.Namespace) -> dict[str, Any]:
    """Return what the numbers depend on: versions, machine and settings."""
    with redis.Redis.from_url(target.url) as client:
        info: Any = client.info("server")
    return {
        "server": target.description,
        "versions": {
            "redis-server": info["redis_version"],
            "python": platform.python_version(),
            "redis-py": importlib.metadata.version("redis"),
            "hiredis": importlib.metadata.version("hiredis"),
            "ackq": importlib.metadata.version("ackq"),
        },
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "system": platform.platform()},
        "settings": {
            name: value
            for name, value in sorted(vars(settings).items())
            if name not in ("json", "url")
        },
    }


def cpu_model() -> str:
    """Return the processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def describe(facts: dict[str, Any]) -> str:
    """Return the circumstances as text."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = facts["machine"]
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items())
    return (
        f"server:   {facts['server']}\nversions: {versions}\n"
        f"machine:  {machine['cpu']}, {machine['cores']} cores\nsettings: {settings}\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows in columns: the first to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


#: What was measured of one contestant: medians with their extremes, by name.
Figures = dict[str, dict[str, float]]


def as_figure(values: Sequence[float]) -> dict[str, float]:
    """Return a median with its extremes."""
    return asdict(Spread.of(values))


def figures_table(contestants: dict[str, Figures]) -> str:
    """Return a table with a row for each figure of each contestant."""
    rows = []
    for name, figures in contestants.items():
        for what, spread in figures.items():
            places = digits(spread["median"])
            median, low, high = (f"{spread[at]:,.{places}f}" for at in ("median", "min", "max"))
            rows.append([f"{name}: {what}", median, f"{low}-{high}"])
    return table(["", "median", "min-max"], rows)


def digits(value: float) -> int:
    """Return how many digits after the point are worth reading."""
    return 0 if abs(value) >= 1000 else 2


def ratio_table(head: str, ratios: Iterable[Ratio]) -> str:
    """Return a table with a row for each ratio: what, median, min to max, verdict."""
    rows = [
        [
            ratio.what,
            f"{ratio.spread.median:.2f}",
            f"{ratio.spread.min:.2f}-{ratio.spread.max:.2f}",
            ratio.verdict,
        ]
        for ratio in ratios
    ]
    return table([head, "median", "min-max", ""], rows)


def write(path: Path | None, result: dict[str, Any]) -> None:
    """Write the result as JSON, if a file was asked for."""
    if path is not None:
        path.write_text(json.dumps(result, indent=1) + "\n")
