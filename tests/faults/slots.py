"""Slots of a cluster, moved from node to node."""

from typing import Any, NamedTuple

import redis


class Move(NamedTuple):
    """A slot on its way to the node with this id."""

    slot: int
    node: str


def begin_move(slot: int, source: redis.Redis, target: redis.Redis) -> Move:
    ids = [client.execute_command("CLUSTER MYID").decode() for client in (source, target)]
    target.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[0])
    source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[1])
    return Move(slot, ids[1])


def move_keys(slot: int, source: redis.Redis, port: int) -> None:
    while keys := source.execute_command("CLUSTER GETKEYSINSLOT", slot, 1):
        source.execute_command("MIGRATE", "127.0.0.1", port, keys[0], 0, 5000)


def end_move(move: Move, source: redis.Redis, target: redis.Redis) -> None:
    for client in (target, source):
        client.execute_command("CLUSTER SETSLOT", move.slot, "NODE", move.node)


def move_slot(slot: int, source: redis.Redis, target: redis.Redis, port: int) -> None:
    """Move a slot the way that redis-cli does it, a key at a time.

    If the target had the slot a moment ago, a consumer may still be blocked there: Redis 7.0 and
    older redirect it only after up to a second. It would take from the list that MIGRATE restores,
    and the hand-off list that it so creates would keep MIGRATE from moving the source's.
    """
    _unblock(target)
    move = begin_move(slot, source, target)
    move_keys(slot, source, port)
    end_move(move, source, target)


def _unblock(node: redis.Redis) -> None:
    """End all waits for messages, as if their time was over."""
    for client in node.client_list():
        if "b" in client["flags"] and client["cmd"] != "wait":
            node.client_unblock(int(client["id"]))


def is_whole(node: redis.Redis, nodes: int) -> bool:
    """Return whether a node knows that many nodes, and an owner for every slot."""
    info: Any = node.execute_command("CLUSTER INFO")
    return bool(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(nodes))


def follow(replica: redis.Redis, master: str) -> None:
    """Make a node a replica of another, once it has heard of it."""
    try:
        replica.execute_command("CLUSTER REPLICATE", master)
    except redis.ResponseError as error:
        raise redis.ConnectionError from error
