"""A consumer of several shards in a process that forks."""

import subprocess
import sys
from typing import Any

import redis

from ackq.sharded import ShardedQueue
from tests.waiting import wait_until

PARENT = """
import os, sys
import redis
from ackq.sharded import ShardedQueue

queue = ShardedQueue(redis.Redis(port=int(sys.argv[1])), sys.argv[2], 2)
queue.pop(timeout=0.1)
print("waited", flush=True)
sys.stdin.readline()
if os.fork() == 0:
    print(queue.pop(timeout=60).id, flush=True)
    queue.close()
    os._exit(0)
queue.close()  # the child is to have all shards
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_child_waits_on_all_shards_as_its_parent_did(
    plain_client: redis.Redis, token: str
) -> None:
    def waiting() -> int:
        clients: Any = plain_client.client_list()
        return sum("b" in client["flags"] for client in clients)

    port = str(plain_client.connection_pool.connection_kwargs["port"])
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, port, token],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: waiting() == 0, "the end of the parent's wait")
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: waiting() == 2, "the child to wait on both shards")
        with ShardedQueue(plain_client, token, 2) as queue:
            queue.push({"id": "a"})
            assert process.stdout.readline() == "a\n"
            assert queue.stats().in_flight == 1
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
