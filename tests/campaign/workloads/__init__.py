"""The ways in which a run uses ackq, by name."""

from typing import Any

from .delayed import DelayRig, PartitionedRig
from .dropin import DropInRig
from .listed import GroupsRig, ListRig
from .processes import GroupsProcessWorkerRig, ProcessWorkerRig
from .rig import Workload
from .rsmq import RSMQRig
from .sharded import ResizedRig, ShardedRig
from .spark import PipelineRig, SinkRig, SourceRig
from .topics import TopicRig
from .workers import (
    AsyncGroupsWorkerRig,
    BatchTasksRig,
    GroupsWorkerRig,
    TaskWorkerRig,
    ThreadWorkerRig,
    TypedTasksRig,
)

__all__ = ["WORKLOADS", "Workload"]

#: For large numbers of messages.
_BULK: dict[str, Any] = {
    "batches": (1000,),
    "crews": 2,
    "pace": 0.0,
    "straddling": 0.05,
    "backlog": 30_000,
}
#: Workers are quicker than a producer. With this they always find messages, so planted faults show.
_BACKLOG: dict[str, Any] = {"batches": (100,), "pace": 0.0}
#: A rate of each group, with which groups do not take turns, and a limit of the whole queue.
_LIMITED = {"group_rate": (20, 1.0, 5), "max_in_flight": 30, "group_turns": False}
_ALL = [
    Workload("queue", ListRig),
    Workload("queue, asyncio", ListRig, asynchronous=True, crews=24),
    Workload("queue, batches", ListRig, batches=(100,), pace=0.0),
    Workload("queue, bulk", ListRig, **_BULK),
    Workload("queue, bulk, confirmed", ListRig, **_BULK, settings={"confirm": 1}),
    Workload("delay queue, bulk", DelayRig, **_BULK),
    Workload("topic, bulk", TopicRig, **_BULK | {"pace": 0.05}),
    Workload("queue, small", ListRig, crews=1),
    Workload("queue, equal ids", ListRig, sharers=3),
    Workload("queue, confirmed", ListRig, settings={"confirm": 1}),
    Workload("queue, operated", ListRig, settings={"near": 20}),
    Workload("queue, operated, confirmed", ListRig, settings={"near": 20, "confirm": 1}),
    Workload("queue, unique", ListRig, settings={"unique": 40}),
    Workload("queue, unique, confirmed", ListRig, settings={"unique": 40, "confirm": 1}),
    Workload(
        "queue, late",
        ListRig,
        crews=12,
        straddling=0.6,
        verbs={"ack": 25, "nack": 30, "fused": 30, "release": 15},
    ),
    Workload(
        "queue, dead letters",
        ListRig,
        settings={"max_receives": 3},
        verbs={"ack": 40, "nack": 50, "fused": 10},
    ),
    Workload("queue, groups", GroupsRig),
    Workload("queue, groups, asyncio", GroupsRig, asynchronous=True, crews=24),
    Workload("queue, groups, bulk", GroupsRig, **_BULK),
    Workload("queue, groups, limited", GroupsRig, settings=_LIMITED),
    Workload("queue, groups, limited, confirmed", GroupsRig, settings=_LIMITED | {"confirm": 1}),
    Workload("queue, groups, confirmed", GroupsRig, settings={"confirm": 1}),
    Workload("queue, groups, operated", GroupsRig, settings={"near": 20}),
    Workload(
        "queue, groups, stopped",
        GroupsRig,
        settings={"group_stops": True, "group_turns": False, "max_receives": 3},
        verbs={"ack": 60, "nack": 20, "fused": 15, "reject": 5},
    ),
    Workload("drop-in", DropInRig),
    *(
        Workload(f"{name}{of}", rig, asynchronous="tasks" in name, **settings)
        for name, rig in (
            ("worker, threads", ThreadWorkerRig),
            ("worker, tasks", TaskWorkerRig),
            ("worker, threads, groups", GroupsWorkerRig),
            ("worker, tasks, groups", AsyncGroupsWorkerRig),
        )
        for of, settings in (("", {}), (", backlog", _BACKLOG))
    ),
    Workload("worker, threads, typed", TypedTasksRig),
    Workload("worker, tasks, typed", TypedTasksRig, asynchronous=True),
    Workload("worker, threads, batches", BatchTasksRig),
    Workload("worker, tasks, batches", BatchTasksRig, asynchronous=True),
    Workload("worker, threads, typed, limited", TypedTasksRig, settings={"max_receives": 3}),
    Workload("worker, threads, batches, limited", BatchTasksRig, settings={"max_receives": 3}),
    Workload("worker, processes", ProcessWorkerRig),
    Workload("worker, processes, groups", GroupsProcessWorkerRig),
    Workload("Spark, files", PipelineRig, settings={"sink": "files"}),
    Workload("Spark, queue", PipelineRig, settings={"sink": "queue"}),
    Workload("Spark source", SourceRig, settings={"sink": "files"}),
    Workload("Spark sink", SinkRig, batches=(20, 50), pace=0.1, settings={"sink": "queue"}),
    Workload("RSMQ", RSMQRig),
    Workload("delay queue", DelayRig),
    Workload("delay queue, operated", DelayRig, settings={"operated": True}),
    # What is ready comes in the order of its time, so a backlog would put off redeliveries.
    Workload(
        "delay queue, late",
        DelayRig,
        crews=12,
        straddling=0.6,
        backlog=5,
        batches=(1,),
        pace=0.02,
        verbs={"ack": 50, "nack": 35, "release": 15},
    ),
    Workload("delay queue, partitions", PartitionedRig),
    Workload(
        "delay queue, dead letters",
        DelayRig,
        settings={"max_receives": 3},
        verbs={"ack": 50, "nack": 45, "release": 5},
    ),
    Workload("topic", TopicRig),
    Workload("sharded queue", ShardedRig),
    Workload("sharded queue, resized", ResizedRig),
    *(
        Workload(f"{name}, confirmed", rig, settings={"confirm": 1})
        for name, rig in (
            ("drop-in", DropInRig),
            ("topic", TopicRig),
            ("sharded queue", ShardedRig),
        )
    ),
    *(
        Workload(f"{name}, asyncio", rig, asynchronous=True, crews=24)
        for name, rig in (
            ("drop-in", DropInRig),
            ("RSMQ", RSMQRig),
            ("topic", TopicRig),
            ("sharded queue", ShardedRig),
        )
    ),
]
WORKLOADS = {workload.name: workload for workload in _ALL}
