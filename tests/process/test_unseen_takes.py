"""What a process took just before its end, and never saw, is given back at once."""

from pathlib import Path
from typing import Any

import pytest
import redis

import ackq
from ackq import Groups
from ackq.core.io.outside import SYSTEM
from ackq.embedded import Server
from ackq.process.abandoned_messages import Takes, settle
from ackq.queue import take
from ackq.sharded import ShardedQueue

from .commands import working

TAKER = "a process"


def plain(server: Server, name: str, **settings: Any) -> tuple[Any, Any]:
    queue = ackq.Queue.from_url(server.url, name, visibility_timeout=600, **settings)
    return queue, queue.with_config()


def sharded(server: Server, name: str, **settings: Any) -> tuple[Any, Any]:
    client = redis.Redis.from_url(server.url)
    queue = ShardedQueue(client, name, 2, visibility_timeout=600, **settings)
    queue.stats()  # creates it
    return queue, ShardedQueue(client, name, 2, visibility_timeout=600, **settings)


@pytest.mark.parametrize(
    ("make", "settings", "prepare"),
    [
        (plain, {}, lambda queue: None),
        (plain, {"pop_from": "left"}, lambda queue: None),
        (plain, {"groups": Groups("group", in_flight=1)}, lambda queue: None),
        (plain, {}, lambda queue: queue.nack(queue.pop(), delay=0)),
        (sharded, {}, lambda queue: None),
        (sharded, {"groups": Groups("group")}, lambda queue: None),
    ],
    ids=["right", "left", "groups", "came back", "sharded", "sharded groups"],
)
def test_only_what_the_process_never_saw_is_given_back_uncounted(
    server: Server,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
    make: Any,
    settings: Any,
    prepare: Any,
) -> None:
    queue, child = make(server, token, **settings)
    with queue, child:
        queue.push_many({"id": f"m{n}", "group": f"g{n}"} for n in range(24))
        prepare(queue)
        others = queue.pop_many(4)
        monkeypatch.setattr(SYSTEM, "taker", TAKER)
        seen, unseen = child.pop_many(4), child.pop_many(8)
        assert others
        assert len(unseen) > 1
        had = [*seen, unseen[0]]
        known = {(each.queue, each.key, each.receipt) for each in had}
        takes = Takes(TAKER, [(queue.config, queue.name, make is sharded)], known)
        for _ in range(2):  # a second look finds no more
            settle(server.url, [], takes)
            assert queue.stats().in_flight == len(others) + len(had)
        again = {each.id: each for _ in range(24) for each in queue.pop_many(24)}
        assert {each.id: each.receive_count for each in unseen[1:]}.items() <= {
            id: each.receive_count for id, each in again.items()
        }.items()
        assert queue.ack(*others, *had, *again.values()) == 24


def test_what_was_settled_since_the_note_was_read_is_left_alone(
    server: Server,
    queue: ackq.Queue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue.push({"id": "a"})
    message = queue.pop()
    assert message is not None
    stale = ackq.Message(queue.name, message.key, b"", message.receipt, 1)
    queue.ack(message)

    def latest(*args: Any) -> Any:
        yield from ()
        return [stale]

    monkeypatch.setattr(take, "latest", latest)
    settle(server.url, [], Takes(TAKER, [(queue.config, queue.name, False)], ()))
    assert not caplog.messages


def test_the_note_of_a_take_expires_with_its_leases(
    server: Server, queue: ackq.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SYSTEM, "taker", TAKER)
    queue.push({"id": "a"})
    message = queue.pop(visibility_timeout=60)
    assert message is not None
    note = f"{queue.name}TAKEN:{TAKER}"
    with redis.Redis.from_url(server.url) as client:
        assert client.get(note) == str(message.receipt).encode()
        assert 50_000 < client.pttl(note) <= 60_000


def test_a_process_that_ends_before_it_has_seen_what_it_took_gives_it_back(
    tmp_path: Path, server: Server, queue: ackq.Queue
) -> None:
    queue.push_many({"id": f"m{n}"} for n in range(5))
    options = ("-q", queue.name, "--lease", "600", "--drain")
    variables = {"ENDS_AT_FIRST_TAKE": str(tmp_path / "ended")}
    handler = "tests.process.killers:handle"
    with working(tmp_path, server.url, handler, *options, variables=variables) as command:
        assert command.wait(60) == 0
        events = command.events("end")
    assert (tmp_path / "ended").exists()
    assert sorted((event["id"], event["count"]) for event in events) == [
        (f"m{n}", 1) for n in range(5)
    ]
    assert queue.stats().in_flight == 0
