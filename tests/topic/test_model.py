"""Any sequence of operations, of ackq and of readers who know only the article's keys, agrees
with the model, and no place ever passes an index that nobody has handled."""

import itertools
import os
from collections.abc import Callable
from typing import Any, Literal

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run

from ackq.errors import LeaseLost, NotSubscribed
from ackq.topic import AsyncTopic, Batch, Topic
from tests.facade import AsSync, Portal
from tests.topic.conftest import Keys
from tests.topic.model import Group, Range

SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
EXAMPLES = {"sync": 40, "async": 8}

CONSUMERS = ("a", "b")

consumers = st.sampled_from(CONSUMERS)
bodies = st.binary(max_size=6)
ages = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)


class TopicMachine(RuleBasedStateMachine):
    """Give `make_topic`, `client` and `name` to a subclass."""

    make_topic: Callable[..., Any]
    client: redis.Redis
    name: str

    @initialize()
    def open(self) -> None:
        self.keys = Keys(self.client, self.name)
        common = {"on_trimmed": "report", "visibility_timeout": 1000.0}
        self.topics = {
            "at_least_once": [self.make_topic(self.name, **common) for _ in range(2)],
            "at_most_once": [self.make_topic(self.name, delivery="at_most_once", **common)],
        }
        self.topic = self.topics["at_least_once"][0]
        self.messages: dict[int, bytes] = {}
        self.newest = 0
        self.groups: dict[str, Group] = {}
        self.given: list[tuple[Batch, Range]] = []

    @rule(batch=st.lists(bodies, min_size=1, max_size=4), producer=st.integers(0, 2))
    def publish(self, batch: list[bytes], producer: int) -> None:
        topics = [member for members in self.topics.values() for member in members]
        indexes = topics[producer].publish_many(batch)
        assert indexes == list(range(self.newest + 1, self.newest + 1 + len(batch)))
        self.newest += len(batch)
        self.messages.update(zip(indexes, batch, strict=True))

    @rule(body=bodies)
    def publish_as_others_do(self, body: bytes) -> None:
        self.newest += 1
        self.messages[self.newest] = body
        self.client.set(self.keys.key(f"messages:{self.newest}"), body)
        self.client.set(self.keys.key("nextIndex"), self.newest)

    @rule(age=st.integers(0, 30))
    def expire(self, age: int) -> None:
        self.messages.pop(self.newest - age, None)
        self.keys.expire(self.newest - age)

    @rule(keep=st.integers(0, 10))
    def trim(self, keep: int) -> None:
        self.topic.trim(keep)
        for index in [message for message in self.messages if message <= self.newest - keep]:
            del self.messages[index]

    @rule(consumer=consumers, to=st.sampled_from(["oldest", "end", 1, 5]))
    def subscribe(self, consumer: str, to: Any) -> None:
        if isinstance(to, int) and to > self.newest + 1:
            return
        assert self.topic.subscribe(consumer, to) == (consumer not in self.groups)
        if consumer not in self.groups:
            self.groups[consumer] = Group(0)
            self.groups[consumer].reset(self._place(to))

    @rule(consumer=consumers, to=st.sampled_from(["oldest", "end", 1, 4]))
    def seek(self, consumer: str, to: Any) -> None:
        if consumer not in self.groups or (isinstance(to, int) and to > self.newest + 1):
            return
        self.topic.seek(consumer, to)
        self.groups[consumer].reset(self._place(to))

    @rule(consumer=consumers)
    def unsubscribe(self, consumer: str) -> None:
        assert self.topic.unsubscribe(consumer) == (consumer in self.groups)
        self.groups.pop(consumer, None)

    @rule(consumer=consumers)
    def read_as_others_do(self, consumer: str) -> None:
        group = self.groups.get(consumer)
        if group is not None and group.place < self.newest:
            group.place += 1
            group.handled.add(group.place)
            self.client.set(self.keys.key(f"consumers:{consumer}"), group.place)

    @rule(consumer=consumers)
    def replay_as_others_do(self, consumer: str) -> None:
        if group := self.groups.get(consumer):
            group.place = 0
            group.handled.clear()
            self.client.set(self.keys.key(f"consumers:{consumer}"), 0)

    @rule(
        consumer=consumers,
        wanted=st.integers(1, 5),
        mode=st.sampled_from(["at_least_once", "at_least_once", "at_most_once"]),
        reader=st.integers(0, 1),
        which=st.one_of(st.just([]), ages),
    )
    def consume(self, consumer: str, wanted: int, mode: str, reader: int, which: list[int]) -> None:
        topic = self.topics[mode][reader % len(self.topics[mode])]
        done = [
            (batch, held)
            for batch, held in self._chosen(which)
            if batch.consumer == consumer and batch.receipt
        ]
        if consumer not in self.groups:
            with pytest.raises(NotSubscribed):
                topic.consume(consumer, wanted)
            return
        group = self.groups[consumer]
        group.rejoin()
        refused = self._commit(group, [held for _, held in done])
        group.advance()
        start, stop, old = group.next(self.newest)
        batch = topic.consume(consumer, wanted, commit=[batch for batch, _ in done])
        assert all(batch.lease_lost for batch, held in done if held in refused)
        if start > stop:
            assert not batch
            return
        self._check(batch, start, stop, wanted)
        given = group.give(start, batch.last, old, mode == "at_least_once")
        self.given.append((batch, given))

    @rule(which=ages)
    def commit(self, which: list[int]) -> None:
        for batch, held in self._chosen(which):
            group = self.groups.get(batch.consumer)
            if group is None or not batch.receipt:
                continue
            group.rejoin()
            outcome = group.settle(held)
            refused = self._commit(group, [held])
            group.advance()
            self._expect("refused" if refused else outcome, self.topic.commit, batch)

    @rule(which=ages, verb=st.sampled_from(["release", "extend"]))
    def change_lease(self, which: list[int], verb: Literal["release", "extend"]) -> None:
        for batch, held in self._chosen(which):
            group = self.groups.get(batch.consumer)
            if group is None or not batch.receipt:
                continue
            outcome = group.settle(held)
            if outcome == "ok":
                held.state = "ended" if verb == "release" else "leased"
            self._expect(outcome, getattr(self.topic, verb), batch)

    @rule(which=ages)
    def end_leases(self, which: list[int]) -> None:
        for batch, held in self._chosen(which):
            group = self.groups.get(batch.consumer)
            if group is not None and held in group.ranges and held.state == "leased":
                held.state = "ended"
                key = self.keys.key(f"leases:{batch.consumer}")
                self.client.zadd(key, {batch.receipt: 1}, xx=True)

    @invariant()
    def the_keys_say_what_the_model_says(self) -> None:
        indexes = range(max(1, self.newest - 20), self.newest + 2)
        with self.client.pipeline(transaction=False) as keys:
            keys.get(self.keys.key("nextIndex"))
            keys.mget(self.keys.key(f"messages:{index}") for index in indexes)
            for consumer in CONSUMERS:
                keys.get(self.keys.key(f"consumers:{consumer}"))
                keys.zrange(self.keys.key(f"ranges:{consumer}"), 0, -1)
                keys.zrange(self.keys.key(f"leases:{consumer}"), 0, -1)
            newest, found, *states = keys.execute()
        assert int(newest or 0) == self.newest
        assert found == [self.messages.get(index) for index in indexes]
        for consumer in CONSUMERS:
            place, members, leased = states[:3]
            del states[:3]
            group = self.groups.get(consumer)
            assert place == (b"%d" % group.place if group else None)
            ranges = group.ranges if group else []
            assert _bounds(members) == [(r.start, r.stop) for r in ranges]
            running = [(r.start, r.stop) for r in ranges if r.state != "done"]
            assert sorted(_bounds(leased)) == running

    @invariant()
    def no_place_passes_what_nobody_handled(self) -> None:
        # The place that the keys have, as the other invariant checks.
        for group in self.groups.values():
            assert set(range(1, group.place + 1)) <= group.handled

    def teardown(self) -> None:
        for members in getattr(self, "topics", {}).values():
            for topic in members:
                topic.close()

    def _check(self, batch: Batch, start: int, stop: int, wanted: int) -> None:
        live = [index for index in range(start, stop + 1) if index in self.messages]
        first_live = live[0] if live else stop + 1
        assert batch.first == start
        assert batch.missing == range(start, first_live)
        assert [message.index for message in batch] == list(range(first_live, batch.last + 1))
        assert all(message.body == self.messages[message.index] for message in batch)
        assert len(batch) <= wanted
        assert batch.last <= stop
        assert len(batch) or not live

    def _commit(self, group: Group, ranges: list[Range]) -> list[Range]:
        refused = []
        for held in ranges:
            outcome = group.settle(held)
            if outcome == "ok":
                held.state = "done"
                group.handled |= set(range(held.start, held.stop + 1))
            elif outcome == "refused":
                refused.append(held)
        return refused

    def _expect(self, outcome: str, operation: Callable[..., int], batch: Batch) -> None:
        if outcome == "refused":
            with pytest.raises(LeaseLost):
                operation(batch)
        else:
            assert operation(batch) == (outcome == "ok")

    def _chosen(self, which: list[int]) -> list[tuple[Batch, Range]]:
        found = [self.given[-1 - age % len(self.given)] for age in which if self.given]
        return list({id(held): (batch, held) for batch, held in found}.values())

    def _place(self, to: Any) -> int:
        if to == "end":
            return self.newest
        if to == "oldest":
            return min(self.messages, default=self.newest + 1) - 1
        return int(to) - 1


def _bounds(members: list[bytes]) -> list[tuple[int, int]]:
    found = [member.split(b":")[:2] for member in members]
    return [(int(start), int(stop)) for start, stop in found]


@pytest.mark.timeout(60 * SOAK + 360)  # Hypothesis shortens a failing sequence for five minutes
def test_every_sequence_of_operations_agrees_with_the_model(
    plain_client: redis.Redis, url: str, flavour: str, portal: Portal, token: str
) -> None:
    numbers = itertools.count()

    def make(name: str, **settings: Any) -> Any:
        if flavour == "sync":
            return Topic(plain_client, name, **settings)
        return AsSync(portal, portal.call(AsyncTopic.from_url, url, name, **settings))

    class Machine(TopicMachine):
        make_topic = staticmethod(make)
        client = plain_client

        def __init__(self) -> None:
            super().__init__()
            self.name = f"{token}-{next(numbers)}"

    run(
        Machine,
        settings=settings(
            max_examples=max(1, round(EXAMPLES[flavour] * SOAK)),
            stateful_step_count=40,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
