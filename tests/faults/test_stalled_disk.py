"""What is lost if the server is killed while its disk is slow.

Under ``appendfsync everysec`` a server that waits for an fsync postpones its writes for up to two
seconds, and answers all the same. Under ``always`` it answers after the fsync.
"""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

import ackq
from ackq.embedded import Server
from tests.campaign.machine import Machine
from tests.servers import private_server
from tests.servers.target import Absent
from tests.waiting import wait_until

#: A busy machine may be stopped for so long that the server writes before it is killed.
TRIES = 5

MakeQueue = Callable[..., ackq.Queue]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    try:
        return Machine(tmp_path_factory.mktemp("disk"))
    except Absent as reason:
        pytest.skip(str(reason))


def restarted(server: Server) -> set[str]:
    """Start a killed server; return the ids of the messages that it still has."""
    server.start()
    with ackq.Queue.from_url(server.url, "jobs") as queue:
        return {str(message.id) for message in queue.peek(100_000)}


def test_everysec_loses_what_was_answered_while_an_fsync_ran(
    tmp_path: Path, disk: Machine, queue_at: MakeQueue
) -> None:
    with private_server(tmp_path, disk.executable, appendfsync="everysec") as server:
        lost: set[str] = set()
        for _ in range(TRIES):
            queue = queue_at(server.url)
            written = queue.push_many([{"n": n} for n in range(100)])
            wait_until(lambda: not pending(server), "the last fsync to end")
            with disk.stalled():
                while not disk.waiting:
                    queue.push({"begin": "an fsync"})
                answered = queue.push_many([{"n": n} for n in range(100)])
                server.kill()
            found = restarted(server)
            assert set(written) <= found
            lost = set(answered) - found
            if lost:
                break
        assert lost, f"nothing was lost in {TRIES} tries: everysec is better than its documentation"


def test_everysec_loses_no_more_than_about_two_seconds(
    tmp_path: Path, disk: Machine, queue_at: MakeQueue
) -> None:
    with private_server(tmp_path, disk.executable, appendfsync="everysec") as server:
        queue = queue_at(server.url)
        with disk.stalled():
            while not disk.waiting:
                queue.push({"begin": "an fsync"})
            answered = queue.push_many([{"n": n} for n in range(100)])
            # The server gives up waiting, and writes.
            wait_until(lambda: persistence(server)["aof_delayed_fsync"], "the server to write")
            server.kill()
        assert set(answered) <= restarted(server)


def test_always_loses_nothing_that_was_answered(
    tmp_path: Path, disk: Machine, queue_at: MakeQueue
) -> None:
    answered: list[str] = []

    def produce() -> None:
        with contextlib.suppress(redis.ConnectionError, redis.TimeoutError):
            while True:
                answered.append(queue.push({"n": len(answered)}))

    with private_server(tmp_path, disk.executable) as server:
        queue = queue_at(server.url)
        producer = threading.Thread(target=produce)
        producer.start()
        wait_until(lambda: len(answered) > 20, "traffic")
        with disk.stalled():
            disk.wait_for_a_sync()
            server.kill()
        producer.join(20)
        assert set(answered) <= restarted(server)


def pending(server: Server) -> int:
    return int(persistence(server)["aof_pending_bio_fsync"])


def persistence(server: Server) -> dict[str, Any]:
    with redis.Redis.from_url(server.url) as client:
        info: dict[str, Any] = client.info("persistence")
    return info
