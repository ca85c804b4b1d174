"""The server refuses: full memory, read-only, busy, scripts forgotten."""

import contextlib
import random
import time
from typing import Any

import redis

from tests.waiting import wait_until

from .stage import Stage, nemesis


@contextlib.contextmanager
def _client(stage: Stage) -> Any:
    with redis.Redis(port=stage.on.server.port, socket_timeout=2) as client:
        yield client


@nemesis("flush the scripts")
def flush_scripts(stage: Stage, draw: random.Random) -> None:
    with stage.fault("flush the scripts"), _client(stage) as client:
        client.script_flush()


@nemesis("fill the memory")
def fill_memory(stage: Stage, draw: random.Random) -> None:
    with stage.fault("fill the memory"), _client(stage) as client:
        client.config_set("maxmemory", 1)
        time.sleep(draw.uniform(0.1, 0.5))
        client.config_set("maxmemory", 0)


@nemesis("read-only")
def read_only(stage: Stage, draw: random.Random) -> None:
    """It becomes the replica of a server that is not there, and a primary again."""
    with stage.fault("read-only"), _client(stage) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        time.sleep(draw.uniform(0.05, 0.3))
        client.execute_command("REPLICAOF", "NO", "ONE")


@nemesis("busy")
def busy(stage: Stage, draw: random.Random) -> None:
    """A script of somebody else runs on and on, until it is killed."""
    with stage.fault("busy"), _client(stage) as client, _client(stage) as other:
        other.ping()
        connection = client.connection_pool.get_connection()
        connection.send_command("EVAL", "while true do end", 0)
        time.sleep(draw.uniform(0.1, 0.4))
        with contextlib.suppress(redis.ResponseError):
            # The server notices it after its time limit.
            wait_until(lambda: _is_killed(other), "the script to be killed")
            connection.read_response()
        connection.disconnect()


def _is_killed(client: Any) -> bool:
    try:
        return bool(client.script_kill())
    except redis.ResponseError:
        return False
