"""Processes and the server are killed: a sent message is received until it is deleted."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ackq.embedded import Server
from ackq.rsmq import RSMQ
from tests.faults.children import child, end, freeze
from tests.rsmq import roles
from tests.servers import private_server
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with private_server(tmp_path / "server") as server:
        yield server


@pytest.fixture
def rsmq(server: Server) -> Iterator[RSMQ]:
    with RSMQ.from_url(server.url) as rsmq:
        rsmq.create_queue("q")
        yield rsmq


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    path.touch()
    return path


def test_a_message_of_a_killed_receiver_comes_back(
    server: Server, rsmq: RSMQ, journal: Path
) -> None:
    with child(roles.receive_and_hold, server.url, "rsmq", journal) as receiver:
        id = rsmq.send_message("q", "m")
        wait_until(lambda: journal.read_text() == f"{id}\n", "it to be received")
        end(receiver)
    again = rsmq.receive_message("q", timeout=10)
    assert again is not None
    assert (again.id, again.message, again.rc) == (id, "m", 2)
    with redis.Redis.from_url(server.url) as client:
        assert int(client.time()[0]) * 1000 + 999 >= again.fr + 1000


@pytest.mark.parametrize("batch", [1, 10])
def test_nothing_is_lost_while_receivers_are_killed(
    server: Server, rsmq: RSMQ, journal: Path, batch: int
) -> None:
    expected = {str(n) for n in range(4000)}
    rsmq.send_messages("q", sorted(expected, key=int))
    chance = random.Random(1)
    for _ in range(12):
        with child(roles.work, server.url, "rsmq", journal, batch) as receiver:
            before = journal.stat().st_size
            wait_until(lambda b=before: journal.stat().st_size > b, "it to work")  # type: ignore[misc]
            time.sleep(chance.random() * 0.02)
            end(receiver)
    handled = set(journal.read_text().split())
    assert handled < expected, "the receivers did not die at work"
    rest = set()
    while messages := rsmq.receive_messages("q", 1000, vt=60, timeout=2):
        rest |= {message.message for message in messages}
        rsmq.delete_messages("q", [message.id for message in messages])
    assert handled | rest == expected
    assert rsmq.get_queue_attributes("q").msgs == 0


def test_a_frozen_waiter_delays_no_other_by_more_than_its_block_limit(
    server: Server, rsmq: RSMQ, journal: Path
) -> None:
    with redis.Redis.from_url(server.url) as client:

        def waiting() -> int:
            return int(client.info("clients")["blocked_clients"])

        with child(roles.wait, server.url, "rsmq", journal) as frozen:
            wait_until(lambda: waiting() == 1, "the first to wait")
            freeze(frozen)
            with child(roles.wait, server.url, "rsmq", journal) as live:
                wait_until(lambda: waiting() >= 1, "a waiter")
                rsmq.send_message("q", "m")
                wait_until(lambda: journal.read_text() == "m\n", "the live one to get it", 4)
                live.join(5)


def test_what_a_killed_sender_stored_is_whole(server: Server, rsmq: RSMQ, journal: Path) -> None:
    for _ in range(4):
        with child(roles.send, server.url, "rsmq", journal) as sender:
            before = journal.stat().st_size
            wait_until(lambda b=before: journal.stat().st_size > b, "it to send")  # type: ignore[misc]
            end(sender)
    noted = len(journal.read_text().split())
    found = []
    while messages := rsmq.receive_messages("q", 1000):
        found += messages
    assert len(found) % 20 == 0, "half a batch was stored"
    assert noted <= len(found) <= noted + 4 * 20
    assert len({message.id for message in found}) == len(found)


def test_a_server_that_is_killed_keeps_what_it_confirmed(server: Server, rsmq: RSMQ) -> None:
    ids = rsmq.send_messages("q", [str(n) for n in range(50)])
    held = rsmq.receive_messages("q", 20, vt=600)
    rsmq.delete_messages("q", ids[:5])
    server.kill()
    server.start()
    assert len(rsmq.receive_messages("q", 100)) == 30
    counts = rsmq.get_queue_attributes("q")
    assert (counts.msgs, counts.totalsent, counts.totalrecv) == (45, 50, 50)
    assert rsmq.delete_messages("q", [message.id for message in held]) == 15
