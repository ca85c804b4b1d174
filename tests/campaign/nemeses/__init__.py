"""The faults, by name. Each is a function of the stage, and of random numbers of its own."""

from . import clock, disk, failover, network, operators, processes, server_states, shards
from .stage import NEMESES, Stage

__all__ = [
    "NEMESES",
    "Stage",
    "clock",
    "disk",
    "failover",
    "network",
    "operators",
    "processes",
    "server_states",
    "shards",
]
