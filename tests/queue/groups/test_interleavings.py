"""Consumers of a queue with groups, step by step: no order of requests breaks a group.

``ACKQ_SOAK=20`` takes twenty times as many walks.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ackq import Groups, Queue, RateLimit
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.queue import (
    chosen_messages,
    group_limits,
    inspection,
    push,
    settle,
    stopped_groups,
    take,
)
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

STEPS = 400
#: Redrives after which a queue must be empty.
ROUNDS = 20
NAMES = ("a", "b", "")


class GroupWalk(Walk):
    """A queue whose producers push to a few groups."""

    def __init__(self, queue: Queue, client: Any, name: str, seed: int, groups: Groups) -> None:
        super().__init__(queue._driver, client, seed)
        self.in_flight = groups.in_flight
        self.stops = groups.on_dead == "stop"
        config = replace(queue.config, max_receives=self.random.choice([None, 3]))
        self.spec = QueueSpec(name, QueueKeys.of(name, grouped=True), config, outside=SYSTEM)
        self.pushed = 0
        #: The ids in the order in which they came onto the list, and those that may be gone.
        self.order: dict[str, int] = {}
        self.ended: set[str] = set()
        self.groups: dict[str, str] = {}
        #: Pushed for later, or dead letters that stopped no group: their places are others.
        self.unordered: set[str] = set()
        self.leased: dict[str, float] = {}
        self.rates: dict[str, float] = {}

    def key(self, suffix: str) -> bytes:
        return self.spec.keys.ready + suffix.encode()

    def read(self) -> dict[str, Any]:
        """Return everything that the queue has."""
        keys, pipe = self.spec.keys, self.client.pipeline()
        pipe.lrange(keys.ready, 0, -1).lrange(keys.handoff, 0, -1).hgetall(keys.context)
        pipe.zrange(keys.backup, 0, -1, withscores=True).xrange(keys.dead).time()
        pipe.hgetall(self.key("GROUPS:BUSY")).zrange(self.key("GROUPS:PARKED"), 0, -1)
        pipe.zrange(self.key("GROUPS:TURNS"), 0, -1).hgetall(self.key("GROUPS:FLIGHT"))
        pipe.zrange(self.key("GROUPS:RUNS"), 0, -1).get(self.key("GROUPS:WOKEN"))
        pipe.zrange(keys.delayed, 0, -1)
        pipe.hgetall(self.key("GROUPS:STOPPED")).hgetall(self.key("GROUPS:LETTERS"))
        pipe.zrange(self.key("GROUPS:RATES"), 0, -1, withscores=True)
        pipe.zrange(self.key("GROUPS:PAUSES"), 0, -1, withscores=True)
        names = (
            "ready handoff context backup dead time busy parked turns flight runs woken delayed"
            " stopped letters rates pauses"
        )
        return dict(zip(names.split(), pipe.execute(), strict=True))

    def look(self, actor: Actor, request: Request) -> Callable[[], None]:
        def after() -> None:
            found = self.read()
            self.check_places(found)
            self.check_slots(found)
            self.check_limits(found)
            self.check_deliveries(found)

        return after

    def check_places(self, found: dict[str, Any]) -> None:
        listed = [*reversed(found["ready"]), *reversed(found["handoff"])]
        for body in listed:
            fields = json.loads(body)
            self.order.setdefault(fields["id"], len(self.order))
            self.groups[fields["id"]] = fields["group"]
        bodies = [*listed, *found["context"].values()]
        bodies += [member[4 + int(member[:3]) + 15 :] for member in found["parked"]]
        dead = [fields[b"body"] for _, fields in found["dead"]]
        bodies += [body for body in dead if json.loads(body)["id"][0] != "u"]
        self.ended |= {"u1", "u2", "u3"} & {json.loads(body)["id"] for body in dead}
        self.unordered |= {
            json.loads(fields[b"body"])["id"]
            for entry, fields in found["dead"]
            if entry not in found["letters"]
        }
        places = Counter(json.loads(body)["id"] for body in bodies)
        assert max(places.values(), default=1) == 1, f"in two places: {places}"
        missing = self.order.keys() - places.keys() - self.ended
        assert not missing, f"lost: {missing}"
        assert {*found["context"]} == {key for key, _ in found["backup"]} | {*found["delayed"]}

    def check_slots(self, found: dict[str, Any]) -> None:
        slots = Counter(entry[17:].decode() for entry in found["flight"].values())
        busy = {tag.decode(): int(count) for tag, count in found["busy"].items() if tag}
        assert busy == slots, "the slots are not those of the messages in flight"
        for key, _ in found["backup"]:
            if self.groups[key.decode()]:
                assert key in found["flight"], f"{key!r} has no slot"
        parked = Counter(member[3 : 3 + int(member[:3])].decode() for member in found["parked"])
        turns = {tag.decode() for tag in found["turns"]}
        woken = found["woken"].split(b" ", 2)[2][3:-16].decode() if found["woken"] else None
        letters = {id: place[16:] for id, place in found["letters"].items()}
        listed = ((id, tag) for tag, ids in found["stopped"].items() for id in ids.split())
        assert dict(listed) == letters, "the keys of stopped groups differ"
        assert letters.keys() <= {entry for entry, _ in found["dead"]}, "stopped by nothing"
        stopped = {tag.decode() for tag in found["stopped"]}
        for group in {*parked, *turns}:
            is_due = parked[group] > 0 and (not group or busy.get(group, 0) < self.in_flight)
            is_due = is_due and group not in stopped
            assert is_due == (group in turns) or group == woken, f"{group}: TURNS is wrong"

    def check_limits(self, found: dict[str, Any]) -> None:
        """Check the leases of the queue, and those of each group that are new."""
        most, groups = self.spec.config.max_in_flight, self.spec.config.groups
        assert most is None or len(found["backup"]) <= most, "more leases than permitted"
        self.subjects.saw("compared: a limit", most is not None and len(found["backup"]) == most)
        now = found["time"][0] * 1_000_000 + found["time"][1]
        if groups is not None and (rate := groups.rate) is not None:
            each = rate.period / rate.count
            taken = Counter(
                self.groups[key.decode()]
                for key, score in found["backup"]
                if score > now and self.leased.get(key.decode()) != score
            )
            for group in {*taken} - {""}:
                self.subjects.saw("compared: a rate")
                ahead = max(0.0, self.rates.get(group, 0) - now)
                assert ahead + taken[group] * each <= rate.at_once * each + 2, f"{group}: too fast"
        self.rates = {group.decode(): score for group, score in found["rates"]}

    def check_deliveries(self, found: dict[str, Any]) -> None:
        now = found["time"][0] * 1_000_000 + found["time"][1]
        leased = {key.decode(): score for key, score in found["backup"] if score > now}
        running = defaultdict(list)
        for id, score in leased.items():
            running[self.groups[id]].append(score)
        for group, scores in running.items():
            if group and self.in_flight == 1:
                assert len(set(scores)) == 1, f"{group} is with two consumers: {leased}"
            assert not group or len(scores) <= self.in_flight or self.in_flight == 1
        there = [key.decode() for key in found["context"]]
        there += [json.loads(body)["id"] for body in (*found["ready"], *found["handoff"])]
        there += [
            json.loads(member[3 + int(member[:3]) + 16 :])["id"] for member in found["parked"]
        ]
        there += [
            json.loads(fields[b"body"])["id"]
            for entry, fields in found["dead"]
            if entry in found["letters"]
        ]
        paused = {tag.decode() for tag, till in found["pauses"] if till > now}
        for id, score in leased.items():
            if self.leased.get(id) == score:
                continue
            assert self.groups[id] not in paused, f"{id} of a paused group"
            self.subjects.saw("compared: others are paused", bool(paused))
            assert self.groups[id].encode() not in found["stopped"], f"{id} of a stopped group"
            self.subjects.saw("compared: others are stopped", bool(found["stopped"]))
            if self.in_flight > 1 or id in self.unordered:
                continue
            for other in there:
                if self.groups[other] != self.groups[id] or other in self.unordered:
                    continue
                self.subjects.saw("compared: an order", other != id and bool(self.groups[id]))
                before = self.order[other] < self.order[id]
                assert not (self.groups[id] and before) or leased.get(other) == score, (
                    f"{id} is delivered before {other}"
                )
        self.leased = leased


def producer(walk: GroupWalk) -> Callable[[Actor], Life]:
    def step(actor: Actor) -> Operation[None]:
        draw, messages = walk.random, []
        if draw.random() < 0.3:
            id = draw.choice(("u1", "u2", "u3"))  # its dead letters do not count
            walk.groups[id] = NAMES[int(id[1]) - 1]
            walk.unordered.add(id)
            options = PushOptions(
                delay=draw.choice([None, 60]), unique="done", unique_for=draw.choice([1e-6, 60])
            )
            message = {"id": id, "group": walk.groups[id], "n": draw.choice("xy")}
            yield from push.push(walk.spec, message, options)
            return
        is_late = draw.random() < 0.2
        for _ in range(draw.randint(1, 3)):
            walk.pushed += 1
            id = f"{'late' if is_late else 'm'}{walk.pushed}"
            group = draw.choice(NAMES)
            walk.groups[id] = group
            messages.append({"id": id, "group": group, "n": "x" * draw.choice([1, 30])})
            if is_late:
                walk.unordered.add(id)
                walk.order[id], walk.ended = len(walk.order), walk.ended | {id}
        options = PushOptions(delay=draw.choice([0, 60]) if is_late else None)
        yield from push.push_many(walk.spec, messages, options)

    return again_and_again(step)


def consumer(walk: GroupWalk) -> Callable[[Actor], Life]:
    def step(actor: Actor) -> Operation[None]:
        draw, spec = walk.random, walk.spec
        messages = yield from take.pop_many(
            spec, draw.choice((1, 1, 2, 5)), draw.choice((None, 0.5)), None, ()
        )
        draw.shuffle(messages)
        while messages:
            some = [messages.pop() for _ in range(draw.randint(1, len(messages)))]
            luck = draw.random()
            if luck < 0.55:
                walk.ended |= {message.id for message in some}
                if draw.random() < 0.5:
                    yield from settle.ack(spec, some)
                else:
                    messages += yield from take.pop_many(spec, 2, None, None, some)
            elif luck < 0.7:
                yield from settle.nack(spec, some, draw.choice([None, 0, 1, 60]))
            elif luck < 0.85:
                yield from settle.nack(spec, some, draw.choice([0, 60]), charge=False)
            elif luck < 0.95:
                yield from settle.reject(spec, some, "bad")

    return again_and_again(step)


def operator(walk: GroupWalk) -> Callable[[Actor], Life]:
    spec, draw = walk.spec, walk.random

    def redrive() -> Operation[None]:
        yield from inspection.redrive(spec, draw.choice([1, 5]), ())

    def pick_delayed(runs: bool) -> Operation[None]:
        delayed = yield from inspection.peek(spec, 1, "delayed")
        entries = [message.entry for message in delayed]
        if runs:
            moved = yield from chosen_messages.run_now(spec, entries, ())
            walk.subjects.saw("run now", moved)
        else:
            yield from chosen_messages.cancel(spec, entries, (), False)

    def cancel_by_id() -> Operation[None]:
        live = sorted(walk.order.keys() - walk.ended)
        ids = draw.sample(live, min(5, len(live)))
        canceled = yield from chosen_messages.cancel(spec, (), ids, draw.random() < 0.5)
        walk.subjects.saw("canceled by id", canceled)

    def audit() -> Operation[None]:
        report = yield from inspection.audit(spec, repair=True)
        assert {each.problem for each in report.findings} <= {"stale count", "stale failure"}

    def take_bare() -> Operation[None]:
        body = yield Request((b"LINDEX", spec.keys.ready, -1))
        if body:
            walk.ended.add(json.loads(body)["id"])
            yield Request((b"LREM", spec.keys.ready, -1, body))

    def stats() -> Operation[None]:
        yield from inspection.stats(spec)

    def drop() -> Operation[None]:
        for letter in (yield from inspection.dead_letters(spec, 1, ())):
            walk.ended.add(letter.id)
            yield from inspection.drop_dead_letters(spec, [letter.entry])
            walk.subjects.saw("dropped")

    def pause() -> Operation[None]:
        yield from group_limits.pause(
            spec, draw.choice(NAMES[:2]), draw.choice([None, None, 0.005])
        )

    def resume() -> Operation[None]:
        stopped = yield Request((b"HKEYS", walk.key("GROUPS:STOPPED")))
        longest = yield Request((b"ZREVRANGE", walk.key("GROUPS:PAUSES"), 0, 0))
        group = draw.choice([*stopped, *longest] or [NAMES[0].encode()]).decode()
        resumed = yield from stopped_groups.resume(spec, group)
        walk.subjects.saw("resumed", resumed)

    actions: dict[str, Callable[[], Operation[None]]] = {
        "redrive": redrive,
        "cancel delayed": lambda: pick_delayed(False),
        "run delayed": lambda: pick_delayed(True),
        "cancel by id": cancel_by_id,
        "audit": audit,
        "take without a script": take_bare,
        "stats": stats,
        "drop": drop,
        "pause": pause,
        "resume": resume,
    }
    return operating(walk, actions)


def walk_through(client: Any, name: str, seed: int, groups: Groups) -> None:
    draw = random.Random(seed)
    rate = draw.choice([None, RateLimit(1, per=0.002, burst=3)])
    groups, most = replace(groups, rate=rate), draw.choice([None, 3])
    with Queue(client, name, groups=groups, max_in_flight=most) as queue:
        walk = GroupWalk(queue, client, name, seed, groups)
        lives = {
            "producer": producer(walk),
            "consumer": consumer(walk),
            "other consumer": consumer(walk),
            "third consumer": consumer(walk),
            "time": passing_time(walk, walk.spec.keys.backup, walk.spec.keys.delayed),
            "operator": operator(walk),
            "other operator": operator(walk),
        }
        walk.run(lives, STEPS)
        for group in NAMES[:2]:
            queue.resume_group(group)
        patience = 0.5 if rate is not None else None
        for _ in range(ROUNDS):
            # A message that was on the list to wake a consumer is delayed again.
            for key in (walk.spec.keys.backup, walk.spec.keys.delayed):
                for member in client.zrange(key, 0, -1):
                    client.zadd(key, {member: 1})
            if not (stats := queue.stats()).dead + stats.ready + stats.delayed + stats.in_flight:
                break
            if not queue.redrive():
                # The id of a dead letter is taken by a message behind it: go on without it.
                for group in NAMES[:2]:
                    queue.resume_group(group)
            acked: tuple[Any, ...] = ()
            while acked := tuple(queue.pop_many(3, timeout=patience, ack=acked)):
                pass
        found = walk.read()
        found.pop("time"), found.pop("dead"), found.pop("rates"), found.pop("pauses")
        assert not any(found.values()), f"stuck: {found}"
        queue.purge(dead=True)
        queue.drain()


PLAIN, STOPPING = Groups("group"), Groups("group", on_dead="stop")


@pytest.mark.parametrize("groups", [PLAIN, STOPPING, replace(PLAIN, in_flight=2)], ids=repr)
@pytest.mark.timeout(60 * SOAK + 60)
def test_no_order_of_requests_breaks_a_group(
    take_walks: Callable[..., None], groups: Groups
) -> None:
    stopping = () if groups.on_dead == "stop" else ("compared: others are stopped",)
    take_walks(3, lambda client, name, seed: walk_through(client, name, seed, groups), stopping)


#: The script, and what is replaced by what: each breaks an order, a limit or a turn.
PLANTED: dict[str, tuple[str, str, str]] = {
    "a redriven message goes behind the others": (
        "redrive",
        "head_of(tag) .. at .. fields.body",
        "head_of(tag) .. '9' .. string.sub(at, 2) .. fields.body",
    ),
    "a stopped group goes on with what comes back": (
        "groups/pop",
        "return has_stopped(tag) or rules_for(tag).limit == 1",
        "return rules_for(tag).limit == 1",
    ),
    "a paused group goes on": (
        "groups/pop",
        "local pause = (own.till or now) - now",
        "local pause = 0",
    ),
    "an ack frees two slots": ("ack", "add_slots(tag, -known[tag])", "add_slots(tag, -2)"),
    "a woken message goes behind the others": (
        "groups/pop",
        "redis.call('ZADD', parked, '0', string.match(woken_note, '^[^ ]* [^ ]* (.*)$') .. body)",
        "park(body, woken_tag) write_parks()",
    ),
    "what is due passes": (
        "groups/pop",
        "elseif not entry and tag ~= '' and (has_turns or not may_pass(tag)) then",
        "elseif false then",
    ),
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
        take_walks(200, lambda client, name, seed: walk_through(client, name, seed, STOPPING))
