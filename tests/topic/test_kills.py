"""Producers and readers as real processes, killed all the time, and the server killed once."""

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq.embedded import Server
from ackq.topic import Topic
from tests.faults.children import end, start
from tests.faults.roles import read_log
from tests.servers import private_server
from tests.topic.conftest import Keys
from tests.topic.roles import LEASE, produce, read
from tests.waiting import wait_until

SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
SECONDS = 6 * SOAK
NAME = "prices"
CREW: list[tuple[Callable[..., None], tuple[str, ...]]] = [
    (produce, ()),
    (produce, ()),
    (produce, ()),
    (read, ("at_least_once",)),
    (read, ("at_least_once",)),
    (read, ("at_least_once",)),
    (read, ("at_most_once",)),
    (read, ("at_most_once",)),
]
MAX_READ = 8  # messages that a reader takes at once

Event = dict[str, Any]


class Crew:
    """Processes that are killed and replaced one at a time."""

    def __init__(self, url: str, log: Path, stop: Path, draw: random.Random) -> None:
        self._args = url, NAME, log
        self._stop = stop
        self._draw = draw
        self.kills: Counter[str] = Counter()
        self._started = 0
        self._members = [self._start(place) for place in range(len(CREW))]

    def kill_one(self) -> None:
        place = self._draw.randrange(len(CREW))
        role, rest = CREW[place]
        end(self._members[place])
        self.kills[rest[0] if rest else role.__name__] += 1
        self._members[place] = self._start(place)

    def finish(self) -> None:
        self._stop.touch()
        for member in self._members:
            member.join(20)
            assert member.exitcode == 0

    def close(self) -> None:
        for member in self._members:
            end(member)

    def _start(self, place: int) -> Any:
        role, rest = CREW[place]
        self._started += 1
        return start(role, *self._args, f"{role.__name__}{self._started}", self._stop, *rest)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that has written whatever it answered, so that a killed one knows it afterwards.

    Under everysec it would answer before it writes, while an fsync runs.
    """
    with private_server(tmp_path, appendfsync="always") as server:
        yield server


@pytest.mark.timeout(60 + 3 * SECONDS)
def test_every_consumer_reads_a_gap_free_prefix_and_a_replay_gives_the_same_bytes(
    own_server: Server, journal: Path, tmp_path: Path
) -> None:
    draw = random.Random(1)
    stop = tmp_path / "stop"
    with (
        redis.Redis.from_url(own_server.url) as client,
        Topic.from_url(own_server.url, NAME) as topic,
    ):
        for consumer in ("at_least_once", "at_most_once"):
            topic.subscribe(consumer)
        with contextlib.closing(Crew(own_server.url, journal, stop, draw)) as crew:
            wait_until(lambda: len(read_log(journal)) > 20, "them to work")
            begin, server_kills = time.monotonic(), 0
            while (passed := time.monotonic() - begin) < SECONDS:
                size = journal.stat().st_size
                wait_until(lambda: journal.stat().st_size > size + 10_000, "them to work")  # noqa: B023
                crew.kill_one()
                if passed > SECONDS * (server_kills + 1) / (1 + SOAK):
                    own_server.kill()
                    own_server.start()
                    server_kills += 1
            crew.finish()
        keys = Keys(client, NAME)
        before_draining = read_log(journal)
        places = {consumer: keys.place(consumer) for consumer in ("at_least_once", "at_most_once")}
        time.sleep(2 * LEASE)  # what killed readers held comes back
        drained = drain(topic, "at_least_once") + drain(topic, "at_most_once")
        stored = [
            client.get(keys.key(f"messages:{index}")) for index in range(1, keys.newest() + 1)
        ]
        events = before_draining + drained
        check_publishing(events, stored)
        committed = check_at_least_once(before_draining, events, stored, places["at_least_once"])
        lost = check_at_most_once(events, stored)
        assert lost <= crew.kills["at_most_once"] * MAX_READ + server_kills * 2 * MAX_READ
        assert replay(topic) == replay(topic) == stored
    print(
        f"{len(stored)} messages, kills: {dict(crew.kills)}, server: {server_kills};"
        f" 0 lost, {committed['refused']} stale commits refused; at most once: {lost} not delivered"
    )


def drain(topic: Topic, consumer: str) -> list[Event]:
    """Read and commit what is left."""
    events = []
    while batch := topic.consume(consumer, 1000):
        events.append(
            {
                "kind": "deliver",
                "consumer": consumer,
                "first": batch.first,
                "bodies": [message.body.decode() for message in batch],
            }
        )
        topic.commit(batch)
        if consumer == "at_least_once":
            events.append(
                {"kind": "commit", "state": "ok", "first": batch.first, "last": batch.last}
            )
    assert topic.lag(consumer) == 0
    return events


def replay(topic: Topic) -> list[bytes]:
    """Read everything under an id of its own."""
    topic.unsubscribe("replay")
    topic.subscribe("replay")
    found: list[bytes] = []
    while batch := topic.consume("replay", 100):
        assert batch.first == len(found) + 1
        found += [message.body for message in batch]
        topic.commit(batch)
    return found


def check_publishing(events: list[Event], stored: list[bytes | None]) -> None:
    """No gap, no overwrite, nothing twice, and every batch whole and together."""
    assert None not in stored
    texts = [body.decode() for body in stored if body is not None]
    assert len(set(texts)) == len(texts)
    place = {body: index for index, body in enumerate(texts, 1)}
    attempted = {body for event in events if event["kind"] == "publish" for body in event["bodies"]}
    assert set(texts) <= attempted
    for event in events:
        if event["kind"] == "published":
            assert [place[body] for body in event["bodies"]] == event["indexes"]
        elif event["kind"] == "publish":
            found = [place.get(body) for body in event["bodies"]]
            if found[0] is not None:
                assert found == list(range(found[0], found[0] + len(found)))
            else:
                assert set(found) == {None}


def check_at_least_once(
    before: list[Event], events: list[Event], stored: list[bytes | None], place: int | None
) -> Counter[str]:
    """All was committed, by one holder each, in the bytes that were stored; the place was late."""
    delivered = _delivered(events, "at_least_once", stored)
    assert set(delivered) == set(range(1, len(stored) + 1))
    invoked = _indexes(before, {"invoked"})
    assert place is not None
    assert set(range(1, place + 1)) <= set(invoked)
    ok = _indexes(events, {"ok"})
    assert max(ok.values()) == 1
    assert set(ok) | set(invoked) == set(range(1, len(stored) + 1))
    return Counter(event["state"] for event in events if event["kind"] == "commit")


def check_at_most_once(events: list[Event], stored: list[bytes | None]) -> int:
    """Nothing was delivered twice; return how many were taken by readers that were killed."""
    delivered = _delivered(events, "at_most_once", stored)
    assert max(delivered.values()) == 1
    return len(stored) - len(delivered)


def _delivered(events: list[Event], consumer: str, stored: list[bytes | None]) -> Counter[int]:
    found: Counter[int] = Counter()
    for event in events:
        if event["kind"] == "deliver" and event["consumer"] == consumer:
            for index, body in enumerate(event["bodies"], event["first"]):
                assert stored[index - 1] == body.encode()
                found[index] += 1
    return found


def _indexes(events: list[Event], states: set[str]) -> Counter[int]:
    found: Counter[int] = Counter()
    for event in events:
        if event["kind"] == "commit" and event["state"] in states:
            found.update(range(event["first"], event["last"] + 1))
    return found
