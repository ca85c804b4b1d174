"""Any sequence of operations leaves the topic as a small model says.

Time is injected as in `tests.queue.model.machine`: one span is subtracted from every stored
instant, so that the server sees a clock that went on. All times of the model are far apart, and
none passes by itself while an operation runs.
"""

import itertools
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ackq.core.counters import MAX_WATCH
from ackq.delay import DelayEntry, DelayQueue
from ackq.errors import DuplicateMessage, LeaseLost
from tests.delay.article import Article

SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
KEYS = st.sampled_from("abcde")
#: Seconds. No sum of spans comes within a minute of a delay or a lease.
DELAYS = st.sampled_from([0, 1000, 5000])
SPANS = (700, 2500)
LEASE = 1800.0

_SHIFT = """
for i, unit in ipairs({1, 1000000}) do
  local entries = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES')
  for at = 1, #entries, 2 do
    local score = string.format('%.6f', entries[at + 1] - ARGV[1] * unit)
    redis.call('ZADD', KEYS[i], score, entries[at])
  end
end
local notes = redis.call('HGETALL', KEYS[3])
for at = 1, #notes, 2 do
  local receipt, deadline = string.match(notes[at + 1], '^(%d+):(%d+)$')
  redis.call('HSET', KEYS[3], notes[at], string.format('%.0f:%.0f', receipt - ARGV[1] * 1000000,
    deadline - ARGV[1] * 1000000))
end
"""


@dataclass
class Stored:
    """A message of the model; ``ready`` and ``lease`` are seconds from the model's beginning."""

    body: bytes
    ready: float
    count: int = 0
    holder: object | None = None
    #: When its lease ends; None if it has no lease and never had one that expired.
    lease: float | None = None


class DelayMachine(RuleBasedStateMachine):
    """Give `client` and `name` to a subclass."""

    client: redis.Redis
    name: str

    @initialize(max_receives=st.sampled_from([None, 1, 2]))
    def open(self, max_receives: int | None) -> None:
        self.queue = DelayQueue(
            self.client, self.name, visibility_timeout=LEASE, max_receives=max_receives
        )
        self.article = Article(self.client, self.name)
        self.most = max_receives or 10**9
        self.now = 0.0
        self.stored: dict[str, Stored] = {}
        #: What is left of leases and counts when the article deletes; it knows of neither.
        self.ghosts: dict[str, Stored] = {}
        self.dead: list[tuple[str, bytes]] = []
        self.given: list[Any] = []
        #: What a holder did with a message, by the identity of the latter.
        self.settled: dict[int, str] = {}
        self.bodies = itertools.count()
        self.shift = self.client.register_script(_SHIFT)
        #: What the queue should count.
        self.count: Counter[str] = Counter()
        self.queue.counters(MAX_WATCH)

    def _body(self) -> bytes:
        return b"%d" % next(self.bodies)

    @rule(entries=st.lists(st.tuples(KEYS, DELAYS), min_size=1, max_size=3))
    def push(self, entries: list[tuple[str, int]]) -> None:
        made = [DelayEntry(key, self._body(), delay) for key, delay in entries]
        refused = []
        for each in made:
            if each.key in self.stored:
                refused.append(each.key)
            else:
                ready = self.now + float(each.delay or 0)  # type: ignore[arg-type]
                self.stored[each.key] = Stored(bytes(each.body), ready)  # type: ignore[arg-type]
                self.count["pushed"] += 1
                self.ghosts.pop(each.key, None)
        if refused:
            with pytest.raises(DuplicateMessage) as found:
                self.queue.push_many(made)
            assert list(found.value.keys) == refused
        else:
            assert self.queue.push_many(made) == len(made)

    @rule(key=KEYS)
    def article_pushes(self, key: str) -> None:
        body = self._body()
        if key not in self.stored:
            assert self.article.push(key, body, 0)
            self.count["pushed"] += 1
            ghost = self.ghosts.pop(key, Stored(body, 0))
            self.stored[key] = Stored(body, self.now - 1e9, ghost.count, object(), ghost.lease)

    @rule(key=KEYS)
    def article_deletes(self, key: str) -> None:
        self.article.delete(key)
        if model := self.stored.pop(key, None):
            self.count["pushed"] -= 1  # as if it had never been there
            if model.count:
                self.ghosts[key] = model

    @rule(wanted=st.integers(1, 4))
    def take(self, wanted: int) -> None:
        taken = self.queue.take(wanted)
        due = {key for key, each in self.stored.items() if each.ready <= self.now}
        if not due:
            ended = [key for key, each in self.ghosts.items() if (each.lease or 1e99) <= self.now]
            for key in ended:
                del self.ghosts[key]
        held = {key for key in due if (self.stored[key].lease or 0) > self.now}
        scores: Any = self.client.zrange(f"{self.name}:z", 0, -1, withscores=True)
        for key in held & {key.decode() for key, score in scores if score > 1.6e9}:
            # The article moved a message that is leased: it waits until the lease ends.
            self.stored[key].ready = (self.stored[key].lease or 0) + 1e-6
        due -= held
        for key in sorted(due):
            if self.stored[key].count >= self.most and key not in self.stored_now():
                # On the way to this take the queue dead-lettered it.
                self.dead.append((key, self.stored.pop(key).body))
                self.count["dead"] += 1
                due.discard(key)
        last = {key for key in due if self.stored[key].count + 1 >= self.most}
        assert {message.key for message in taken} <= due
        if not last and not held:
            assert len(taken) == min(wanted, len(due))
        elif due and not held:
            assert taken
        assert len(taken) == 1 or not {message.key for message in taken} & last
        for message in taken:
            model = self.stored[message.key]
            model.count += 1
            self.count["taken"] += 1
            self.count["returned"] += model.lease is not None
            assert (message.body, message.receive_count) == (model.body, model.count)
            model.holder, model.lease = message, self.now + LEASE
            model.ready = model.lease
            self.given.append(message)

    def stored_now(self) -> set[str]:
        return {key.decode() for key in self.client.hkeys(f"{self.name}:h")}  # type: ignore[union-attr]

    @rule(
        age=st.integers(0, 6),
        verb=st.sampled_from(["delete", "nack", "release", "reject", "extend"]),
    )
    def settle(self, age: int, verb: str) -> None:
        if not self.given:
            return
        message = self.given[-1 - age % len(self.given)]
        model = self.stored.get(message.key)
        expected: int | None = 1 if model is not None and model.holder is message else None
        if done_before := self.settled.get(id(message)):
            # Its holder knows what it did, so nothing is sent.
            expected = 0 if done_before in (verb, "delete", "reject") else None
        settle = getattr(self.queue, verb)
        try:
            done = settle(message, delay=1000) if verb == "nack" else settle(message)
        except LeaseLost:
            done = None
        assert done == expected
        if expected and model is not None:
            self._settled(verb, message.key, model)
            if verb != "extend":
                self.settled[id(message)] = verb

    def _settled(self, verb: str, key: str, model: Stored) -> None:
        if verb == "extend":
            model.lease = model.ready = self.now + LEASE
            return
        model.holder = model.lease = None
        self.count[verb] += 1
        if verb == "delete":
            del self.stored[key]
        elif verb == "reject" or (verb == "nack" and model.count >= self.most):
            self.dead.append((key, self.stored.pop(key).body))
            self.count["dead"] += 1
        else:
            model.count -= verb == "release"
            model.ready = self.now + (1000 if verb == "nack" else 0)

    @rule(key=KEYS, in_flight=st.booleans())
    def cancel(self, key: str, in_flight: bool) -> None:
        model = self.stored.get(key)
        held = model is not None and model.lease is not None and model.lease > self.now
        expected = model is not None and (in_flight or not held)
        assert self.queue.cancel(key, in_flight=in_flight) == expected
        if in_flight or (key in self.ghosts and (self.ghosts[key].lease or 0) <= self.now):
            self.ghosts.pop(key, None)
        if expected:
            self.count["dropped"] += 1
            del self.stored[key]

    @rule(key=KEYS, delay=DELAYS)
    def reschedule(self, key: str, delay: int) -> None:
        model = self.stored.get(key)
        held = model is not None and model.lease is not None and model.lease > self.now
        expected = model is not None and not held
        assert self.queue.reschedule(key, delay=delay) == expected
        if expected and model is not None:
            model.ready = self.now + delay
            if model.lease is not None:
                # Its lease ended: it counts, but its receipt is void.
                model.holder = object()

    @rule()
    def redrive(self) -> None:
        kept, moved = [], 0
        for key, body in self.dead:
            if key in self.stored:
                kept.append((key, body))
            else:
                self.stored[key] = Stored(body, self.now)
                self.ghosts.pop(key, None)
                moved += 1
        assert self.queue.redrive() == moved
        self.count["redriven"] += moved
        self.dead = kept

    @rule(span=st.sampled_from(SPANS))
    def advance(self, span: int) -> None:
        keys = [f"{self.name}:{part}" for part in ("z", "leases", "extended")]
        self.shift(keys=keys, args=[span])
        for message in self.given:
            message.receipt -= span * 1_000_000
        self.now += span

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        if not hasattr(self, "queue"):
            return
        stats = self.queue.stats()
        records = [*self.stored.values(), *self.ghosts.values()]
        held = [record for record in records if record.lease and record.lease > self.now]
        ready = [each for each in self.stored.values() if each.ready <= self.now]
        assert (stats.ready, stats.in_flight) == (len(ready), len(held))
        assert stats.delayed == max(0, len(self.stored) - len(ready) - len(held))
        found: dict[bytes, bytes] = self.client.hgetall(f"{self.name}:h")  # type: ignore[assignment]
        assert found == {key.encode(): each.body for key, each in self.stored.items()}
        letters = [(letter.id, letter.body) for letter in self.queue.dead_letters()]
        assert sorted(letters) == sorted(self.dead)
        self._counts_are_right()

    def _counts_are_right(self) -> None:
        found, count = self.queue.counters(MAX_WATCH), self.count
        assert (found.pushed, found.taken) == (count["pushed"], count["taken"])
        assert (found.acked, found.nacked) == (count["delete"], count["nack"])
        assert (found.released, found.returned) == (count["release"], count["returned"])
        assert sum(found.dead.values()) == count["dead"]
        assert found.dead.get("rejected", 0) == count["reject"]
        assert (found.redriven, found.dropped) == (count["redriven"], count["dropped"])

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.close()


@pytest.mark.timeout(60 * SOAK + 360)  # Hypothesis shortens a failing sequence for five minutes
def test_every_sequence_of_operations_agrees_with_the_model(
    plain_client: redis.Redis, token: str
) -> None:
    numbers = itertools.count()

    class Machine(DelayMachine):
        client = plain_client

        def __init__(self) -> None:
            super().__init__()
            self.name = f"{token}-{next(numbers)}"

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=max(1, round(12 * SOAK)),
            stateful_step_count=40,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
