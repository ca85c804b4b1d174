"""Another server becomes the primary; a slot moves to another node."""

import os
import random
import signal
import time

import redis

from tests.faults.slots import move_slot
from tests.histories.log import now
from tests.waiting import wait_until

from .stage import Stage, nemesis

#: Written before a failover, to know since when the replica may lack what was answered.
WITNESS = "{jobs}:witness"


def _replicated(client: redis.Redis) -> float:
    """Return a time before which all answers of this primary have reached its replica."""
    while True:
        since = now()
        client.incr(WITNESS)
        if client.wait(1, 1000):
            return since


def _promote(stage: Stage, old: int) -> None:
    """Return when the replica has the place of the primary."""

    def is_promoted() -> bool:
        if stage.on.primary == old:
            stage.on.promote()
        return bool(stage.on.primary != old)

    new = stage.on.clients[1 - old]
    wait_until(is_promoted, "the Sentinel to promote the replica", 60)
    wait_until(lambda: new.role()[0] == b"master", "the replica to be a primary", 60)
    wait_until(lambda: not stage.on.is_failing_over, "the Sentinel to be done", 60)


@nemesis("fail over: kill")
def kill(stage: Stage, draw: random.Random) -> None:
    """The primary is killed; later it follows the new one."""
    old = stage.on.primary
    with stage.fault("fail over: kill", _replicated(stage.on.clients[old])):
        stage.on.servers[old].kill()
        _promote(stage, old)
        stage.on.servers[old].start()
        stage.on.follow(old, 1 - old)


@nemesis("fail over: freeze")
def freeze(stage: Stage, draw: random.Random) -> None:
    """The primary is frozen until another has its place. Then it answers whoever still asks it."""
    old = stage.on.primary
    with stage.fault("fail over: freeze", _replicated(stage.on.clients[old])):
        os.kill(stage.on.servers[old].pid, signal.SIGSTOP)
        _promote(stage, old)
        time.sleep(draw.uniform(0.0, 1.0))
        os.kill(stage.on.servers[old].pid, signal.SIGCONT)
        time.sleep(draw.uniform(0.0, 0.3))
        stage.on.follow(old, 1 - old)


@nemesis("fail over: lag")
def lag(stage: Stage, draw: random.Random) -> None:
    """The replica is cut off for a while; then the primary is killed, and the replica promoted."""
    old = stage.on.primary
    replica = stage.on.servers[1 - old].pid
    since = _replicated(stage.on.clients[old])
    os.kill(replica, signal.SIGSTOP)
    stage.on.clients[old].execute_command("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(draw.uniform(0.05, 0.2))
    with stage.fault("fail over: lag", since):
        stage.on.servers[old].kill()
        os.kill(replica, signal.SIGCONT)
        _promote(stage, old)
        stage.on.servers[old].start()
        stage.on.follow(old, 1 - old)


@nemesis("fail over: split")
def split(stage: Stage, draw: random.Random) -> None:
    """The Sentinel does not reach the primary, but clients do: for a while, there are two."""
    old = stage.on.primary
    with stage.fault("fail over: split", _replicated(stage.on.clients[old])):
        _promote(stage, old)
        time.sleep(draw.uniform(0.0, 1.5))
        stage.on.follow(old, 1 - old)


@nemesis("partition")
def partition(stage: Stage, draw: random.Random) -> None:
    """The primary is cut off with a Sentinel and some clients, which go on using it."""
    old = stage.on.primary
    with stage.fault("partition", _replicated(stage.on.clients[old])):
        stage.on.partition()
        time.sleep(draw.uniform(2.0, 6.0))
        stage.on.heal(old)


@nemesis("fail over in the cluster")
def fail_over_in_cluster(stage: Stage, draw: random.Random) -> None:
    """The owner of the slot is killed and its replica takes over; the old owner follows it."""
    owner, replica = _owner_and_replica(stage)
    with stage.fault("fail over in the cluster", _replicated(stage.on.clients[owner])):
        stage.on.servers[owner].kill()
        stage.on.clients[replica].execute_command("CLUSTER", "FAILOVER", "TAKEOVER")
        wait_until(
            lambda: stage.on.clients[replica].role()[0] == b"master", "the replica to take over", 60
        )
        stage.on.servers[owner].start()
        wait_until(lambda: _follows(stage, owner), "the old owner to follow", 60)


@nemesis("move the slot")
def move(stage: Stage, draw: random.Random) -> None:
    """A slot of the queue moves to another node and back, a key at a time, under load."""
    slot = draw.choice(stage.on.slots)
    owner, _ = _owner_and_replica(stage)
    clients, servers = stage.on.clients, stage.on.servers
    with stage.fault("move the slot", times=2):
        move_slot(slot, clients[owner], clients[1], servers[1].port)
        time.sleep(draw.uniform(0.05, 0.3))
        move_slot(slot, clients[1], clients[owner], servers[owner].port)


def _owner_and_replica(stage: Stage) -> tuple[int, int]:
    """Return the numbers of the queue's node and of its replica: of 0 and 2, one is either."""
    is_owner = stage.on.clients[0].role()[0] == b"master"
    return (0, 2) if is_owner else (2, 0)


def _follows(stage: Stage, node: int) -> bool:
    try:
        role = stage.on.clients[node].role()
    except redis.RedisError:
        return False
    return bool(role[0] == b"slave" and role[3] == b"connected")
