"""The scenarios: a workload, a server, and the faults that strike it, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .deployments import Persistence

#: What a process does.
Kind = Literal["consumer", "producer"]
#: Mean seconds between two faults of a kind.
Faults = Mapping[str, float]

KILLS: Faults = {"kill a consumer": 0.12, "kill a producer": 0.5}
#: As many kills as one processor can replace.
MANY_KILLS: Faults = {"kill a consumer": 0.06, "kill a producer": 0.15, "kill the server": 0.5}
#: At a pace that leaves a process time to work.
BULK: Faults = {"kill a consumer": 0.7, "kill a producer": 1.5, "kill the server": 5.0}
#: Kills of worker processes, which a parent replaces slowly if they died young, and of parents.
CHILDREN: Faults = {
    "kill a worker process": 1.5,
    "freeze a worker process": 3.0,
    "kill a consumer": 10.0,
}
#: Kills of Spark drivers, which start slowly, of processes that start them, and of producers.
SPARK: Faults = {"kill a worker process": 20.0, "kill a consumer": 45.0, "kill a producer": 2.0}
PAUSES: Faults = {"pause the queue": 1.0}
RESIZES: Faults = {"resize the queue": 0.7}
FREEZES: Faults = {"freeze a consumer": 0.7, "freeze a producer": 2.0}
CRASHES: Faults = {"kill the server": 0.6}
POWER: Faults = {"cut the power": 0.9}
DISK: Faults = {"stall the disk": 1.5, "fill the disk": 2.5}
CLOCK: Faults = {"set the clock forward": 2.5, "set the clock back": 2.5}
REFUSALS: Faults = {
    "flush the scripts": 0.5,
    "fill the memory": 1.5,
    "read-only": 1.5,
    "busy": 1.5,
    "load slowly": 4.0,
}
NETWORK: Faults = {
    "cut connections": 1.0,
    "mute connections": 3.0,
    "silence": 3.0,
    "lose a reply": 1.0,
    "cut a reply": 1.0,
    "lose a request": 1.0,
    "half-close": 2.0,
    "drip a reply": 2.0,
    "delay a reply": 2.0,
}
FAILOVERS: Faults = {
    "fail over: kill": 5.0,
    "fail over: freeze": 9.0,
    "fail over: lag": 7.0,
    "fail over: split": 7.0,
}
PARTITIONS: Faults = {"partition": 12.0}
CLUSTER: Faults = {"fail over in the cluster": 4.0, "move the slot": 2.5}
#: Everything that one server can suffer, at a pace that leaves time to work.
ALL: Faults = {
    nemesis: 2 * interval
    for faults in (KILLS, FREEZES, CRASHES, POWER, DISK, REFUSALS)
    for nemesis, interval in faults.items()
}


@dataclass(frozen=True)
class Scenario:
    """One row of the results."""

    name: str
    workload: str
    faults: Faults
    persistence: Persistence = "always"
    binary: str = "redis"
    proxied: bool = False
    on: Literal["server", "sentinel", "sentinels", "cluster"] = "server"
    #: What the documentation says that it may lose; empty: nothing.
    loses: str = ""
    sizes: Mapping[Kind, int] = field(default_factory=lambda: {"consumer": 3, "producer": 2})


_OTHERS = (
    "queue, asyncio",
    "drop-in",
    "worker, threads",
    "worker, tasks",
    "RSMQ",
    "delay queue",
    "delay queue, partitions",
    "topic",
    "sharded queue",
)

#: Other servers than Redis 7.0, by name.
_SERVERS = {"Redis 6.2": "redis 6.2", "Redis 8": "redis 8", "Valkey": "valkey"}

#: What each of these suffers alone, as the list queue does.
_SINGLE: dict[str, tuple[Faults, dict[str, Any]]] = {
    "kills": ({**KILLS, **FREEZES}, {}),
    "server crashes": (CRASHES, {}),
    "power cuts": (POWER, {}),
    "disk": (DISK, {}),
    "clock": (CLOCK, {}),
    "refusals": (REFUSALS, {}),
    "network": (NETWORK, {"proxied": True}),
    "slot moves": ({"move the slot": 0.5}, {"on": "cluster"}),
}
#: The same, with pushes that are confirmed by a replica.
_CONFIRMED: dict[str, tuple[Faults, dict[str, Any]]] = {
    "failovers": (FAILOVERS, {"on": "sentinel"}),
    "partitions": (PARTITIONS, {"on": "sentinels", "sizes": {"consumer": 4, "producer": 2}}),
    "cluster": (CLUSTER, {"on": "cluster"}),
}
_CUT_OFF = "what the cut-off primary accepted"
_BEHIND = "what the replica had not received"

_ALL = (
    Scenario("queue: kills", "queue", {**KILLS, **FREEZES}),
    Scenario("queue: many kills", "queue, small", MANY_KILLS),
    Scenario("queue: bulk", "queue, bulk", BULK),
    Scenario(
        "queue: bulk, failovers, confirmed", "queue, bulk, confirmed", FAILOVERS, on="sentinel"
    ),
    Scenario("delay queue: bulk", "delay queue, bulk", BULK),
    Scenario("topic: bulk", "topic, bulk", BULK),
    Scenario("queue: server crashes", "queue", CRASHES),
    Scenario("queue: power cuts", "queue", POWER),
    Scenario("queue: disk", "queue", DISK),
    Scenario("queue: clock", "queue", CLOCK),
    Scenario("queue: refusals", "queue", REFUSALS),
    Scenario("queue: network", "queue", NETWORK, proxied=True),
    Scenario("queue: equal ids", "queue, equal ids", {**KILLS, **CRASHES}),
    Scenario("sharded queue: resizes", "sharded queue, resized", {**RESIZES, **KILLS, **FREEZES}),
    Scenario("queue: settled late", "queue, late", {**KILLS, **CRASHES}),
    *(
        scenario
        for name in ("operated", "unique")
        for scenario in (
            Scenario(f"queue: {name}", f"queue, {name}", {**KILLS, **FREEZES, **CRASHES}),
            Scenario(f"queue: {name}, network", f"queue, {name}", NETWORK, proxied=True),
            Scenario(
                f"queue: {name}, failovers, confirmed",
                f"queue, {name}, confirmed",
                FAILOVERS,
                on="sentinel",
            ),
        )
    ),
    *(
        Scenario(f"queue, groups: {name}", "queue, groups", faults, **settings)
        for name, (faults, settings) in _SINGLE.items()
    ),
    Scenario("queue, groups: everything", "queue, groups", ALL),
    Scenario("queue, groups: bulk", "queue, groups, bulk", BULK),
    Scenario("queue, groups, limited: kills", "queue, groups, limited", {**KILLS, **CRASHES}),
    Scenario("queue, groups, limited: network", "queue, groups, limited", NETWORK, proxied=True),
    Scenario("queue, groups, limited: clock", "queue, groups, limited", CLOCK),
    Scenario(
        "queue, groups, limited: failovers, confirmed",
        "queue, groups, limited, confirmed",
        FAILOVERS,
        on="sentinel",
    ),
    Scenario(
        "queue, groups: operated",
        "queue, groups, operated",
        {**KILLS, **FREEZES, **CRASHES, **PAUSES},
    ),
    Scenario("queue, groups: stopped", "queue, groups, stopped", {**KILLS, **FREEZES, **CRASHES}),
    Scenario("delay queue: operated", "delay queue, operated", {**KILLS, **FREEZES, **CRASHES}),
    Scenario("queue, groups, asyncio: cancellations", "queue, groups, asyncio", {}),
    *(
        Scenario(f"worker, {each}, groups: kills", f"worker, {each}, groups", {**KILLS, **CRASHES})
        for each in ("threads", "tasks")
    ),
    Scenario("queue: dead letters", "queue, dead letters", {**KILLS, **FREEZES, **CRASHES}),
    Scenario(
        "delay queue: dead letters", "delay queue, dead letters", {**KILLS, **FREEZES, **CRASHES}
    ),
    *(
        Scenario(f"{workload}: everything, {name}", workload, ALL, binary=binary)
        for name, binary in _SERVERS.items()
        for workload in (
            "queue",
            "queue, groups",
            "drop-in",
            "RSMQ",
            "delay queue, partitions",
            "topic",
            "sharded queue",
        )
    ),
    Scenario("queue: failovers, confirmed", "queue, confirmed", FAILOVERS, on="sentinel"),
    Scenario(
        "queue: partitions, confirmed",
        "queue, confirmed",
        PARTITIONS,
        on="sentinels",
        sizes={"consumer": 4, "producer": 2},
    ),
    Scenario("queue: slot moves", "queue", {"move the slot": 0.5}, on="cluster"),
    Scenario("queue: cluster, confirmed", "queue, confirmed", CLUSTER, on="cluster"),
    Scenario("batches: kills", "queue, batches", {**KILLS, **FREEZES}),
    Scenario("batches: everything", "queue, batches", ALL),
    Scenario("asyncio: cancellations", "queue, asyncio", {}),
    *(
        Scenario(f"{each}, asyncio: cancellations", f"{each}, asyncio", {})
        for each in ("drop-in", "RSMQ", "topic", "sharded queue")
    ),
    *(
        Scenario(f"{workload}: {name}", workload, faults, **settings)
        for workload in ("drop-in", "RSMQ", "topic", "sharded queue")
        for name, (faults, settings) in _SINGLE.items()
    ),
    *(
        Scenario(f"{workload}: {name}, confirmed", f"{workload}, confirmed", faults, **settings)
        for workload in ("queue, groups", "drop-in", "topic", "sharded queue")
        for name, (faults, settings) in _CONFIRMED.items()
    ),
    Scenario("asyncio: network", "queue, asyncio", NETWORK, proxied=True),
    *(
        Scenario(f"worker, {each}: kills", f"worker, {each}", {**KILLS, **CRASHES})
        for each in (
            "threads, typed",
            "tasks, typed",
            "threads, batches",
            "tasks, batches",
            "threads, typed, limited",
            "threads, batches, limited",
        )
    ),
    *(
        Scenario(
            f"{workload}: kills",
            workload,
            {**CHILDREN, "kill a producer": 1.0, "kill the server": 5.0},
            sizes={"consumer": 2, "producer": 2},
        )
        for workload in ("worker, processes", "worker, processes, groups")
    ),
    *(
        Scenario(f"{each}: kills", each, SPARK, sizes={"consumer": 1, "producer": 1})
        for each in ("Spark, files", "Spark, queue", "Spark source", "Spark sink")
    ),
    *(
        Scenario(
            f"{workload}: kills, {name}",
            workload,
            SPARK,
            binary=_SERVERS[name],
            sizes={"consumer": 1, "producer": 1},
        )
        for workload in ("Spark source", "Spark sink")
        for name in ("Redis 8", "Valkey")
    ),
    *(Scenario(f"{each}: everything", each, ALL) for each in _OTHERS),
    Scenario(
        "queue: crashes without persistence",
        "queue",
        CRASHES,
        "none",
        loses="everything that was stored",
    ),
    Scenario(
        "queue: crashes under everysec",
        "queue",
        {**CRASHES, **DISK},
        "everysec",
        loses="up to about 2 s, if an fsync was running",
    ),
    Scenario(
        "queue: power cuts under everysec",
        "queue",
        {"cut the power": 4.0},
        "everysec",
        loses="about the last 2 s, more on a slow disk",
    ),
    Scenario("queue: failovers without confirm", "queue", FAILOVERS, on="sentinel", loses=_BEHIND),
    Scenario(
        "queue: partitions without confirm",
        "queue",
        PARTITIONS,
        on="sentinels",
        sizes={"consumer": 4, "producer": 2},
        loses=_CUT_OFF,
    ),
    # RSMQ's pushes cannot be confirmed.
    *(
        Scenario(
            f"RSMQ: {name} without confirm",
            "RSMQ",
            faults,
            **settings,
            loses=_CUT_OFF if name == "partitions" else _BEHIND,
        )
        for name, (faults, settings) in _CONFIRMED.items()
    ),
)
SCENARIOS = {scenario.name: scenario for scenario in _ALL}
