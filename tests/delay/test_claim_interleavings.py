"""Drivers, consumers and operators at once, step by step: no message is lost, or in two hands.

``ACKQ_SOAK=20`` takes twenty times as many walks.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import redis

from ackq.config import QueueConfig
from ackq.core.claim_groups import Claim
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.delay import DelayEntry, DelayQueue, claims, push, settle, take
from ackq.delay.claims import Group
from ackq.delay.messages import DelaySpec
from ackq.staging.recovery import UnfinishedCommits
from tests.claim_walks import driving
from tests.interleaving import (
    SOAK,
    Actor,
    Life,
    Walk,
    again_and_again,
    operating,
    repeating,
    shorten,
)

STEPS = 300
TIMEOUT = 3600.0
#: What may change messages of a claim for the group's latest driver only.
FENCED = {"delay/claim", "delay/claim_ack", "delay/claim_beat", "claims/release"}
#: What may take messages out of the queue.
SETTLING = {"delay/delete", "delay/claim_ack", "delay/cancel"}

#: A span passes: every stored time was earlier by that much.
_SHIFT = """
local function shift(zset, by)
  local entries = redis.call('ZRANGE', zset, 0, -1, 'WITHSCORES')
  for at = 1, #entries, 2 do
    if tonumber(entries[at + 1]) > 0 then
      redis.call('ZADD', zset, string.format('%.6f', entries[at + 1] - by), entries[at])
    end
  end
end
shift(KEYS[1], ARGV[1])
shift(KEYS[2], ARGV[1] * 1000000)
shift(KEYS[3], ARGV[1] * 1000000)
for i = 4, 5 do
  local facts = redis.call('HGETALL', KEYS[i])
  for at = 1, #facts, 2 do
    local base, before, renewed = string.match(facts[at + 1], '^(%d+):(%d+):(%d+)$')
    if base then
      redis.call('HSET', KEYS[i], facts[at], string.format('%.0f:%.0f:%s',
        base - ARGV[1] * 1000000, before - ARGV[1] * 1000000, renewed))
    end
  end
end
return 0
"""


class Seen(NamedTuple):
    """The keys at one instant. Times are in µs."""

    ready: dict[bytes, int]
    leases: dict[bytes, int]
    #: Claim -> its places; None for those whose messages left it.
    claimed: dict[bytes, list[bytes | None]]
    epochs: dict[str, int]

    @property
    def held(self) -> set[bytes]:
        """The messages that belong to claims."""
        return {key for keys in self.claimed.values() for key in keys if key is not None}


class ClaimWalk(Walk):
    """A delay queue, and who has each of its messages."""

    def __init__(self, queue: DelayQueue, client: Any, name: str, seed: int) -> None:
        super().__init__(queue._driver, client, seed)
        self.spec = DelaySpec.plain(name, QueueConfig(), 1.0, SYSTEM)
        (self.keys,) = self.spec.partitions
        self.pushed = 0
        self.settled: set[bytes] = set()
        #: What the claims of a group held when they were first seen.
        self.contents: dict[tuple[str, int], list[bytes]] = {}
        #: The claims and their places whose messages were seen to leave them.
        self.left: set[tuple[bytes, int]] = set()
        self.seen = self.see()

    def group(self, name: str) -> Group:
        return Group(self.spec.name, self.keys, name, SYSTEM, TIMEOUT)

    def see(self) -> Seen:
        keys, pipe = self.keys, self.client.pipeline()
        pipe.zrange(keys.z, 0, -1, withscores=True).hkeys(keys.h)
        pipe.zrange(keys.leases, 0, -1, withscores=True).zrange(keys.claims, 0, -1)
        pipe.hgetall(self.group("g").key).hgetall(self.group("h").key)
        scores, bodies, ends, names, *records = pipe.execute()
        ready = {key: round(score * 1e6) for key, score in scores}
        leases = {key: round(score) for key, score in ends}
        assert ready.keys() == set(bodies), "a message without a time, or a time without one"
        for name in names:
            pipe.lrange(name, 0, -1)
        claimed: dict[bytes, list[bytes | None]] = {}
        for name, entries in zip(names, pipe.execute(), strict=True):
            group, batch = name.removeprefix(keys.claim).split(b":")
            record = records[group == b"h"][b"lease:" + batch]
            base, before, renewed = map(int, record.split(b":"))
            own = claimed[name] = []
            for at, entry in enumerate(entries):
                key = entry.partition(b":")[2]
                end = (base if at < renewed else before) + at
                is_own = leases.get(key) == end == ready.get(key)
                own.append(key if is_own else None)
        epochs = {
            group: int(each.get(b"epoch", 0)) for group, each in zip("gh", records, strict=True)
        }
        seen = Seen(ready, leases, claimed, epochs)
        places = sum(key is not None for keys in claimed.values() for key in keys)
        assert len(seen.held) == places, "a message is in two claims"
        return seen

    def look(self, actor: Actor, request: Request) -> Callable[[], None]:
        before, epoch = self.seen, actor.epoch()
        script = request.script.name if request.script else ""

        def after() -> None:
            if request.script is None and request.args[0] != b"EVAL":
                return  # it only reads
            now = time.time() * 1e6
            seen = self.seen = self.see()
            if request.args[0] == b"EVAL":
                assert seen.claimed == before.claimed
                return
            removed = before.ready.keys() - seen.ready.keys()
            if removed and script != "delay/cancel":
                assert script in SETTLING
                assert removed <= actor.known, "deleted, and nobody has seen it"
            self.settled |= removed
            assert not seen.ready.keys() & self.settled, "what was deleted is there again"
            for key in seen.leases.keys() & before.ready.keys():
                if seen.leases[key] != before.leases.get(key) and script != "delay/claim_beat":
                    assert before.ready[key] <= now, "early, or leased to another"
            self._check_claims(before, seen, removed, script, now)
            # A release goes on behind the fence that it has set itself.
            later = before.epochs.get(actor.name[0], 0) - (script == "claims/release")
            if script in FENCED and 0 < epoch < later:
                assert seen == before, "not fenced"

        return after

    def _check_claims(
        self, before: Seen, seen: Seen, removed: set[bytes], script: str, now: float
    ) -> None:
        """Check that messages leave claims only after their leases, and new ones belong to them."""
        if script != "delay/claim_return":
            left = before.held - seen.held - removed
            assert all(before.leases[key] <= now for key in left), "a running claim lost it"
        if script in ("delay/claim_ack", "delay/claim_beat", "delay/claim_return"):
            for times, earlier in ((seen.ready, before.ready), (seen.leases, before.leases)):
                others = earlier.keys() - before.held
                assert all(times.get(key) == earlier[key] for key in others), "not of the claim"
        for name, keys in seen.claimed.items():
            places = before.claimed.get(name, [])
            for at, key in enumerate(keys):
                if key is not None:
                    assert at >= len(places) or places[at] == key, "another message has its place"
                elif at < len(places):
                    self.left.add((name, at))
                else:
                    raise AssertionError("a message is claimed without a lease")


def driver(walk: ClaimWalk, name: str) -> Callable[[Actor], Life]:
    """A driver of group ``name``: it replays open claims, then claims, reads and acks."""

    def read(actor: Actor, group: Group, claim: Claim) -> Operation[None]:
        found: list[Any] = []
        while len(found) < claim.rows:
            at = len(found)
            found += yield from repeating(
                lambda at=at: claims.read(group, claim.batch, at, claim.rows - at)  # type: ignore[misc]
            )
        keys = [each and each.key.encode() for each in found]
        assert all(
            each is None or each.body == b"body of " + key
            for each, key in zip(found, keys, strict=True)
        )
        if walk.seen.epochs[name] == group.epoch:
            lost = {at for at, key in enumerate(keys) if key is None}
            places = {at for where, at in walk.left if where == group.claim_key(claim.batch)}
            assert lost <= places, "a message is missing that never left"
        first = walk.contents.setdefault((name, claim.batch), keys)
        assert len(keys) == len(first)
        for key, earlier in zip(keys, first, strict=True):
            assert key is None or key == earlier, "a claim was replayed with other messages"
        assert claim.rows == len(keys)
        actor.known.update(key for key in keys if key is not None)

    def turn(actor: Actor, group: Group, claim: Claim | None, after: int) -> Operation[None]:
        draw = walk.random
        if draw.random() < 0.7:
            yield from repeating(lambda: claims.beat(group))
        if claim is not None and claim.rows and draw.random() < 0.5:
            yield from read(actor, group, claim)
        if draw.random() < 0.6:
            yield from repeating(lambda: claims.ack(group, after, 0))

    return driving(walk, claims, lambda: walk.group(name), read, turn)


def consumer(walk: ClaimWalk) -> Callable[[Actor], Life]:
    def step(actor: Actor) -> Operation[None]:
        draw, unfinished = walk.random, UnfinishedCommits(walk.spec.name)
        messages = yield from take.take(
            walk.spec, draw.randint(1, 5), None, TIMEOUT, None, unfinished
        )
        actor.known.update(message.key.encode() for message in messages)
        if draw.random() < 0.6:
            yield from settle.delete(walk.spec, messages)
        elif draw.random() < 0.5:
            yield from settle.nack(walk.spec, messages, 0.0, charge=False)

    return again_and_again(step)


def producer(walk: ClaimWalk) -> Callable[[Actor], Life]:
    def step(actor: Actor) -> Operation[None]:
        draw = walk.random
        keys = [f"m{walk.pushed + n}" for n in range(draw.randint(1, 5))]
        walk.pushed += len(keys)
        yield from push.push_many(
            walk.spec,
            [
                DelayEntry(key, b"body of " + key.encode(), draw.choice([0, 0, 1000]))
                for key in keys
            ],
        )

    return again_and_again(step)


def clock(walk: ClaimWalk) -> Callable[[Actor], Life]:
    """Leases become short and end, and messages become ready."""

    def step(actor: Actor) -> Operation[None]:
        keys = walk.keys
        named = (keys.z, keys.leases, keys.claims, walk.group("g").key, walk.group("h").key)
        span = walk.random.choice([1, 1, 1, 1500, 1500, 3500])
        yield Request((b"EVAL", _SHIFT, 5, *named, span))

    return again_and_again(step)


def operator(walk: ClaimWalk) -> Callable[[Actor], Life]:
    spec, draw = walk.spec, walk.random

    def key() -> str:
        return f"m{draw.randrange(walk.pushed + 1)}"

    return operating(
        walk,
        {
            "release": lambda: claims.release(walk.group(draw.choice("gh"))),
            "held": lambda: claims.held(spec),
            "cancel": lambda: push.cancel(spec, [key()], None, False),
            "reschedule": lambda: push.reschedule(spec, key(), 100.0, None, None, None, None),
            "readable": lambda: claims.readable(walk.group("g"), 1, 5),
        },
    )


@pytest.mark.timeout(60 * SOAK + 60)
def test_nothing_is_lost_or_in_two_hands_however_their_steps_follow_each_other(
    take_walks: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(
        monkeypatch,
        {
            "delay/claim": {"CHUNK = 300": "CHUNK = 3"},
            "delay/claim_beat": {"CHUNK = 300": "CHUNK = 2"},
            "delay/claim_ack": {"CHUNK = 300": "CHUNK = 2"},
            "delay/claim_return": {"CHUNK = 300": "CHUNK = 2"},
        },
    )
    take_walks(6, walk_through_claims)


def walk_through_claims(client: redis.Redis, name: str, seed: int) -> None:
    with DelayQueue(client, name) as queue:
        take_a_walk(ClaimWalk(queue, client, name, seed), queue)


def take_a_walk(walk: ClaimWalk, queue: DelayQueue) -> None:
    lives = {
        "g": driver(walk, "g"),
        "consumer": consumer(walk),
        "producer": producer(walk),
        "clock": clock(walk),
        "g, another": driver(walk, "g"),
        "h": driver(walk, "h"),
        "operator": operator(walk),
    }
    walk.run(lives, STEPS)
    left = walk.see().ready.keys()
    for group in "gh":
        queue.release_claims(group)
    keys = walk.keys
    named = (keys.z, keys.leases, keys.claims, walk.group("g").key, walk.group("h").key)
    walk.client.eval(_SHIFT, 5, *named, 9000)
    found = []
    while messages := queue.take(100):
        assert all(message.body == b"body of " + message.key.encode() for message in messages)
        found += [message.key.encode() for message in messages]
        queue.delete(*messages)
    assert sorted(found) == sorted(left)
    assert walk.settled.isdisjoint(found)
    queue.purge()
    kept = set(walk.client.scan_iter(f"{queue.name}*"))
    assert kept <= {walk.group("g").key, walk.group("h").key}
