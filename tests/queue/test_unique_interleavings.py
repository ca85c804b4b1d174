"""Unique pushes beside everything that takes messages, step by step: no id is queued twice.

``ACKQ_SOAK=20`` takes twenty times as many walks.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from ackq import Queue
from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.queue import chosen_messages, inspection, push, settle, take
from ackq.queue.keys import QueueKeys
from ackq.queue.push_options import PushOptions
from ackq.queue.spec import QueueSpec
from tests.interleaving import (
    SOAK,
    Actor,
    Life,
    Walk,
    again_and_again,
    operating,
    passing_time,
    shorten,
)

STEPS = 300
IDS = ("a", "b", "c")
#: So that no note is believed, and a push searches the lists; or so that all are.
NEVER, LONG = 0.000001, 3600.0


class UniqueWalk(Walk):
    """A queue whose producers push the same few ids."""

    def __init__(self, queue: Queue, client: Any, name: str, seed: int, unique: Any) -> None:
        super().__init__(queue._driver, client, seed)
        self.queue, self.unique = queue, unique
        self.believed = self.random.choice([NEVER, LONG])
        requeue: Any = self.random.choice(["front", "back"])
        config = QueueConfig(requeue=requeue, max_receives=3)
        self.spec = QueueSpec(name, QueueKeys.of(name), config, outside=SYSTEM)
        self.pushed = self.steps = 0
        #: The last step at which a message of each id was in the queue.
        self.seen: Counter[str] = Counter()
        #: The bodies that consumers took.
        self.taken: set[bytes] = set()

    def places(self) -> dict[str, dict[bytes, str]]:
        """Return the messages of each id, and where they are."""
        keys, pipe = self.spec.keys, self.client.pipeline()
        pipe.lrange(keys.ready, 0, -1).lrange(keys.handoff, 0, -1).hgetall(keys.context)
        pipe.zrange(keys.backup, 0, -1, withscores=True).zrange(keys.held, 0, -1).time()
        ready, handoff, context, backup, held, (seconds, micros) = pipe.execute()
        now = seconds * 1_000_000 + micros
        leased = {key: "leased" if score > now else "ended" for key, score in backup}
        self.taken |= {context[key] for key in leased if key in context}
        placed = [*((body, "ready") for body in ready), *((body, "handoff") for body in handoff)]
        placed += [(body, leased.get(key, "delayed")) for key, body in context.items()]
        for name in held:
            placed += [(body, "held") for body in self.client.lrange(name, 0, -1)]
        found: dict[str, dict[bytes, str]] = defaultdict(dict)
        for body, place in placed:
            of = found[json.loads(body)["id"]]
            assert body not in of, f"{body!r} is queued twice: {of[body]} and {place}"
            of[body] = place
        return found

    def look(self, actor: Actor, request: Request) -> Callable[[], None]:
        self.steps += 1
        before = self.places()
        self.seen.update({id: self.steps - self.seen[id] for id in before})

        def after() -> None:
            for id, places in self.places().items():
                self.seen[id] = self.steps
                # What replaces a released message waits beside another one, as that one did.
                replaced = before[id].keys() - places.keys()
                if replaced & self.taken:
                    self.taken |= places.keys() - before[id].keys()
                waiting = places if self.unique == "done" else places.keys() - self.taken
                assert len(waiting) <= 1, f"{id} is queued twice: {places}"

        return after


def producer(walk: UniqueWalk) -> Callable[[Actor], Life]:
    def step(actor: Actor) -> Operation[None]:
        draw = walk.random
        ids = draw.sample(IDS, draw.randint(1, len(IDS)))
        walk.pushed += 1
        more: dict[str, Any] = {"front": draw.random() < 0.3}
        if draw.random() < 0.4:
            more = {"delay": draw.choice([0, 0.001, 60]), "replace": draw.random() < 0.5}
        options = PushOptions(unique=walk.unique, unique_for=walk.believed, **more)
        began = walk.steps
        messages = [{"id": id, "n": walk.pushed} for id in ids]
        pushed: Any = yield from push.push_many(walk.spec, messages, options)
        for each in pushed:
            if not each.stored and walk.believed == NEVER:
                assert walk.seen[each] >= began, f"{each} was refused, and is not there"

    return again_and_again(step)


def consumer(walk: UniqueWalk) -> Callable[[Actor], Life]:
    def step(actor: Actor) -> Operation[None]:
        draw = walk.random
        messages = yield from take.pop_many(
            walk.spec, draw.randint(1, 4), draw.choice((None, 0.5)), None, ()
        )
        luck = draw.random()
        if luck < 0.4:
            yield from settle.ack(walk.spec, messages)
        elif luck < 0.6:
            yield from settle.nack(walk.spec, messages, draw.choice([None, 0, 60]))
        elif luck < 0.8:
            yield from settle.nack(walk.spec, messages, draw.choice([0, 60]), charge=False)
        elif luck < 0.9:
            yield from settle.reject(walk.spec, messages, "bad")

    return again_and_again(step)


def operator(walk: UniqueWalk) -> Callable[[Actor], Life]:
    spec, draw = walk.spec, walk.random

    def audit() -> Operation[None]:
        report = yield from inspection.audit(spec, repair=True)
        # A bare RPOP leaves what was noted of its message.
        left = {"stale count", "stale failure", "stale note"}
        assert {each.problem for each in report.findings} <= left

    def take_bare() -> Operation[None]:
        yield Request((b"RPOP", spec.keys.ready))

    return operating(
        walk,
        {
            "redrive": lambda: inspection.redrive(spec, draw.choice([1, 5]), ()),
            "cancel": lambda: chosen_messages.cancel(spec, (), draw.sample(IDS, 1), False),
            "run now": lambda: chosen_messages.run_now(spec, (), IDS),
            "audit": audit,
            "purge": lambda: inspection.purge(spec, False),
            "take without a script": take_bare,
        },
    )


def walk_through(client: Any, name: str, seed: int, unique: Any) -> None:
    with Queue(client, name) as queue:
        walk = UniqueWalk(queue, client, name, seed, unique)
        lives = {
            "producer": producer(walk),
            "consumer": consumer(walk),
            "other producer": producer(walk),
            "other consumer": consumer(walk),
            "operator": operator(walk),
            "other operator": operator(walk),
        }
        if unique == "done":  # a redelivered message waits beside another one with "taken"
            keys = walk.spec.keys
            lives["time"] = passing_time(walk, keys.held, keys.backup, keys.delayed)
        walk.run(lives, STEPS)
        keys = walk.spec.keys
        # A pop delays a message that a nack put on the list to wake a consumer.
        while client.exists(keys.ready, keys.handoff, keys.backup, keys.delayed):
            for key in (keys.backup, keys.delayed):
                for member in client.zrange(key, 0, -1):
                    client.zadd(key, {member: 1})
            for message in iter(queue.pop, None):
                queue.ack(message)
        queue.audit(repair=True)
        for id in IDS:
            assert queue.push({"id": id}, unique=unique).stored, f"{id} is blocked"
        assert queue.audit().findings == ()
        queue.purge(dead=True)


@pytest.mark.parametrize("unique", ["done", "taken"])
@pytest.mark.timeout(60 * SOAK + 60)
def test_no_id_is_queued_twice_and_none_is_blocked(
    take_walks: Callable[..., None], unique: Any
) -> None:
    take_walks(2, lambda client, name, seed: walk_through(client, name, seed, unique))


#: The script, and what is replaced by what: each lets an id be queued twice.
PLANTED: dict[str, tuple[str, str, str]] = {
    "any search counts": ("push_unique", "words ~= gone", "not gone"),
    "delayed messages are not seen": (
        "push_unique",
        "if redis.call('ZSCORE', delayed, key) then",
        "if false then",
    ),
    "ended leases are free": (
        "push_unique",
        "(tonumber(deadline) <= now and 'ended' or 'leased') or nil",
        "tonumber(deadline) > now and 'leased' or nil",
    ),
    "a redrive does not look": ("redrive", "if is_taken and force == '0' then", "if false then"),
}


@pytest.mark.campaign
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_planted_mistake_is_found(
    take_walks: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    planted: tuple[str, str, str],
) -> None:
    script, old, new = planted
    shorten(monkeypatch, {script: {old: new}})
    with pytest.raises(AssertionError):
        take_walks(40, lambda client, name, seed: walk_through(client, name, seed, "done"))
