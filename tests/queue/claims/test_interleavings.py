"""Drivers, consumers and operators at once, step by step: no message is lost, none is there twice.

``ACKQ_SOAK=20`` takes twenty times as many walks.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.config import QueueConfig
from ackq.core.claim_groups import Claim
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.queue import claims, inspection, settle, take
from ackq.queue.claims import Group
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from ackq.queue.spec import QueueSpec
from tests.claim_walks import driving
from tests.interleaving import (
    SOAK,
    Actor,
    Life,
    Walk,
    again_and_again,
    operating,
    passing_time,
    repeating,
    shorten,
)

STEPS = 200
#: What may change messages of a claim for the group's latest driver only.
FENCED = {"claims/claim", "claims/ack", "claims/forget", "claims/beat", "claims/release"}
#: What may take messages out of the queue.
SETTLING = {"pop", "ack", "claims/ack"}


class ClaimWalk(Walk):
    """A queue, and the places where each of its messages may be."""

    def __init__(self, queue: Queue, client: Any, name: str, seed: int) -> None:
        super().__init__(queue._driver, client, seed)
        end = queue.config.pop_from
        self.spec = QueueSpec(
            name, QueueKeys.of(name, end), QueueConfig(pop_from=end), outside=SYSTEM
        )
        self.pushed = 0
        self.settled: set[bytes] = set()
        #: What the claims of a group held when they were first seen.
        self.contents: dict[tuple[str, int], list[bytes]] = {}

    def places(self) -> tuple[Counter[bytes], dict[bytes, tuple[float, int]]]:
        """Return how often each message is there, and the time and the rows of held lists."""
        keys, pipe = self.spec.keys, self.client.pipeline()
        pipe.lrange(keys.ready, 0, -1).lrange(keys.handoff, 0, -1).hvals(keys.context)
        pipe.zrange(keys.held, 0, -1, withscores=True).hgetall(keys.heldrows)
        pipe.hmget(keys.claims("g"), "epoch").hmget(keys.claims("h"), "epoch")
        ready, handoff, context, scores, rows, *epochs = pipe.execute()
        self.epochs = {group: int(epoch[0] or 0) for group, epoch in zip("gh", epochs, strict=True)}
        found = Counter([*ready, *handoff, *context])
        for name, _ in scores:
            pipe.lrange(name, 0, -1)
        lists = dict(zip((name for name, _ in scores), pipe.execute(), strict=True))
        for name, bodies in lists.items():
            found.update(bodies)
            assert self.client.pttl(name) == -1, "a list that is held expires"
        held = {name: (score, len(lists[name])) for name, score in scores}
        assert rows == {name: b"%d" % count for name, (_, count) in held.items()}
        return found, held

    def look(self, actor: Actor, request: Request) -> Callable[[], None]:
        before, held = self.places()
        epochs, epoch = self.epochs, actor.epoch()
        script = request.script.name if request.script else ""

        def after() -> None:
            found, now_held = self.places()
            assert max(found.values(), default=1) == 1, "a message is there twice"
            removed = before.keys() - found.keys()
            if removed:
                assert script in SETTLING
                assert removed <= actor.known, "acked, and nobody has seen it"
                self.settled |= removed
            assert not found.keys() & self.settled, "what was acked is there again"
            # A release goes on behind the fence that it has set itself.
            later = epochs.get(actor.name[0], 0) - (script == "claims/release")
            if script in FENCED and 0 < epoch < later:
                assert (found, now_held) == (before, held), "not fenced"

        return after


def driver(walk: ClaimWalk, name: str) -> Callable[[Actor], Life]:
    """A driver of group ``name``: it replays open claims, then claims, reads and acks."""

    def read(actor: Actor, group: Group, claim: Claim) -> Operation[None]:
        bodies = yield from repeating(lambda: claims.read(group, claim.batch, 0, claim.rows))
        first = walk.contents.setdefault((name, claim.batch), bodies)
        assert bodies == first, "a claim was replayed with other messages"
        actor.known.update(bodies)

    def turn(actor: Actor, group: Group, claim: Claim | None, after: int) -> Operation[None]:
        draw = walk.random
        if draw.random() < 0.3:
            yield from repeating(lambda: claims.beat(group))
        if draw.random() < 0.7:
            keep = draw.choice([0, 600])
            yield from repeating(lambda: claims.ack(group, after, keep))
        if draw.random() < 0.3:
            yield from repeating(lambda: claims.forget(group, after))

    return driving(walk, claims, lambda: Group(walk.spec, name, 3600.0), read, turn)


def consumer(walk: ClaimWalk) -> Callable[[Actor], Life]:
    finished: dict[Actor, list[Message]] = {}

    def step(actor: Actor) -> Operation[None]:
        wanted, timeout = walk.random.randint(1, 5), walk.random.choice((None, 0.5))
        done = finished.pop(actor, [])
        messages = yield from take.pop_many(walk.spec, wanted, timeout, None, done)
        actor.known.update(message.body for message in messages)
        luck = walk.random.random()
        if luck < 0.4:
            yield from settle.ack(walk.spec, messages)
        elif luck < 0.8:
            finished[actor] = messages  # to be acked with the next take

    return again_and_again(step)


def producer(walk: ClaimWalk) -> Callable[[Actor], Life]:
    def step(actor: Actor) -> Operation[None]:
        bodies = [b'{"id":"%d"}' % (walk.pushed + n) for n in range(walk.random.randint(1, 15))]
        walk.pushed += len(bodies)
        yield Request((*walk.spec.push_command, *bodies))

    return again_and_again(step)


def operator(walk: ClaimWalk) -> Callable[[Actor], Life]:
    spec, draw = walk.spec, walk.random

    def pause() -> Operation[None]:
        yield from inspection.pause(spec)
        yield from inspection.resume(spec)

    def audit() -> Operation[None]:
        report = yield from inspection.audit(spec, repair=True)
        assert report.findings == ()

    return operating(
        walk,
        {
            "release": lambda: claims.release(Group(spec, draw.choice("gh"), 3600.0)),
            "drain": lambda: inspection.drain(spec),
            "pause": pause,
            "audit": audit,
            "counters": lambda: inspection.counters(spec, 60.0),
            "stats": lambda: inspection.stats(spec),
            "peek": lambda: inspection.peek(spec, 20, "ready"),
            "readable": lambda: claims.readable(Group(spec, "g", 3600.0), 1, 5),
        },
    )


@pytest.mark.timeout(60 * SOAK + 60)
def test_nothing_is_lost_or_doubled_however_their_steps_follow_each_other(
    take_walks: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(
        monkeypatch,
        {
            "claims/claim": {"CHUNK = 1000": "CHUNK = 3", "RECOVERED = 500": "RECOVERED = 2"},
            "held/give_back": {"front = 1000": "front = 2"},
        },
    )
    take_walks(6, walk_through_claims)


def walk_through_claims(client: redis.Redis, name: str, seed: int) -> None:
    with Queue(client, name, pop_from="left" if seed % 2 else "right") as queue:
        take_a_walk(ClaimWalk(queue, client, name, seed), queue)


def take_a_walk(walk: ClaimWalk, queue: Queue) -> None:
    lives = {
        "g": driver(walk, "g"),
        "consumer": consumer(walk),
        "producer": producer(walk),
        "time": passing_time(walk, walk.spec.keys.held, walk.spec.keys.held, walk.spec.keys.backup),
        "g, another": driver(walk, "g"),
        "h": driver(walk, "h"),
        "other consumer": consumer(walk),
        "operator": operator(walk),
        "other operator": operator(walk),
    }
    walk.run(lives, STEPS)
    keys = walk.spec.keys
    left = walk.places()[0]
    queue.resume()
    assert queue.audit().findings == ()
    queue.drain()
    found = [message.body for message in iter(queue.pop, None)]
    assert Counter(found) == left
    assert set(found).isdisjoint(walk.settled)
    queue.purge()
    kept = {key for key in walk.client.scan_iter(f"{queue.name}*") if walk.client.pttl(key) < 0}
    assert kept <= {keys.claims("g"), keys.claims("h")}
