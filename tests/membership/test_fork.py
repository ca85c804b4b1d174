"""A member in a process that forks."""

import subprocess
import sys

import redis

from tests.faults.proxy import Proxy
from tests.waiting import wait_until

PARENT = """
import os, signal, sys
import redis
from ackq.membership.client import ConsumerGroup

member = ConsumerGroup(redis.Redis.from_url(sys.argv[1]), sys.argv[2], 4, session_timeout=0.9)
print(member.join().session, flush=True)
sys.stdin.readline()  # until the reply to a heartbeat is on its way, and never comes
if os.fork() == 0:
    signal.alarm(20)
    print(member.join().session, flush=True)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]) != 0)
"""


def test_a_fork_in_the_midst_of_a_beat_leaves_the_child_free_to_join(
    plain_client: redis.Redis, name: str
) -> None:
    port = plain_client.connection_pool.connection_kwargs["port"]
    with Proxy(port) as proxy:
        url = f"{proxy.url}?socket_timeout=60"
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT, url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            session = process.stdout.readline()
            heartbeat = proxy.fail(b"EVALSHA", "swallow_reply")
            wait_until(lambda: heartbeat.hit, "a heartbeat")
            sessions, _ = process.communicate("\n", 30)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0
    assert sessions not in ("", session)
