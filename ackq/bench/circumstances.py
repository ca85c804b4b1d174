"""The facts that figures depend on: server, versions, machine and settings; no hosts or paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis


def circumstances(client: redis.Redis, server: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts; ``server`` describes the server in words."""
    info: Any = client.info()
    return {
        "server": server,
        "versions": {
            "ackq": importlib.metadata.version("ackq"),
            "redis-py": importlib.metadata.version("redis"),
            "hiredis": importlib.metadata.version("hiredis"),
            "python": platform.python_version(),
            info.get("server_name", "redis") + "-server": info.get(
                "valkey_version", info["redis_version"]
            ),
            "allocator": info.get("mem_allocator", "unknown"),
        },
        "machine": machine(),
        "settings": dict(sorted(settings.items())),
    }


def machine() -> dict[str, Any]:
    """Return facts on this machine, where the client runs."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def cpu_model() -> str:
    """Return the processor's name, as precisely as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (OSError, ValueError):
        return None


def describe(facts: Mapping[str, Any]) -> str:
    """Return the circumstances as text."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = facts["machine"]
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items())
    return (
        f"server:   {facts['server']}\nversions: {versions}\n"
        f"machine:  {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB,"
        f" {machine['kernel']}\nsettings: {settings}\n"
    )
