"""The state machine: every operation, in any order, on a queue on a real server and on the model.

Time is injected without a sleep, and not by writing past deadlines for chosen messages: that
would refuse a holder whose lease has merely ended, and so hide what a late ack does. Instead
`QueueMachine.advance` subtracts one span from *every* instant that there is: the scores of
BACKUP and DELAYED, both halves of the notes in EXTENDED, and the receipts that consumers hold.
All that the scripts do with instants is to compare them with one another and with the server's
clock, so this is what a server sees whose clock went on by that span.

A time that is about to pass by itself would make the outcome a race. So before each operation
whatever ends within `MARGIN` is made to end at once, in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ackq.config import PopFrom
from ackq.core.counters import MAX_WATCH
from ackq.errors import LeaseLost, MessageTooLarge
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import Message
from tests.queue.scripts.space import listed_field, mark

from .bodies import IDS, MAX_BODY, RAW, UNIQUE, encoded, messages, raw_bodies, unique_messages
from .model import Dead, Handle, Kept, Model, Settled, Window

SECOND = 1_000_000  # µs
JITTER = 65_535  # µs, the most that a lease may be longer than asked
#: µs that an operation may take before a time that lies ahead of it passes by itself.
MARGIN = 20 * SECOND
#: µs before the present within which redriven messages are due, one after the other.
REDRIVEN = 100
#: µs before the present within which messages that run now are due, one after the other.
JUST_BEFORE = 500
#: Steps between two looks at stats, peek and audit, which take ten times as long as a step.
LOOK = 4

# No sum of advances is the difference of two timeouts: no two leases of a key can end at once.
LEASES = (131.0, 277.0, 419.0)
ADVANCES = (60, 180, 600)
DELAYS = (0, 97.0, 331.0)

_SHIFT = """
for _, zset in ipairs({KEYS[1], KEYS[2]}) do
  local entries = redis.call('ZRANGE', zset, 0, -1, 'WITHSCORES')
  for i = 1, #entries, 2 do
    redis.call('ZINCRBY', zset, '-' .. ARGV[1], entries[i])
  end
end
local notes = redis.call('HGETALL', KEYS[3])
for i = 1, #notes, 2 do
  local receipt, deadline = string.match(notes[i + 1], '^(%d+):.-(%d+)$')
  redis.call('HSET', KEYS[3], notes[i], string.format('%.0f:%s%.0f', receipt - ARGV[1],
    string.find(notes[i + 1], 'canceled') and 'canceled:' or '', deadline - ARGV[1]))
end
"""

#: Messages as their consumers got them, with the leases that the model gave them.
Deliveries = list[tuple[Message, Handle]]

#: Which of the deliveries so far: the newest is 0, and a number beyond the oldest wraps around.
ages = st.lists(st.integers(0, 11), min_size=1, max_size=4)
delays = st.sampled_from(DELAYS)
some_ids = st.lists(st.sampled_from((*IDS, UNIQUE)), min_size=1, max_size=2, unique=True)


class QueueMachine(RuleBasedStateMachine):
    """Give `make_queue`, `client` and `name` to a subclass."""

    make_queue: Callable[..., Any]
    client: redis.Redis
    name: str

    @initialize(
        max_receives=st.sampled_from([None, 1, 2, 3]),
        requeue=st.sampled_from(["front", "front", "back"]),
        pop_from=st.sampled_from(["right", "left"]),
        watched=st.booleans(),
    )
    def open(
        self,
        max_receives: int | None,
        requeue: Literal["front", "back"],
        pop_from: PopFrom,
        watched: bool,
    ) -> None:
        self.keys = QueueKeys.of(self.name, pop_from)
        self.queue = self.make_queue(
            self.name,
            max_receives=max_receives,
            requeue=requeue,
            max_body_bytes=MAX_BODY,
            visibility_timeout=LEASES[0],
            pop_from=pop_from,
        )
        self.natural: dict[bytes, bytes | None] = dict(RAW)
        self.model = Model(max_receives or 0, requeue, MAX_BODY, self.natural)
        self.given: list[tuple[Message, Handle]] = []
        #: What a holder did with a message, by the identity of the latter.
        self.settled: dict[int, str] = {}
        self.shift = self.client.register_script(_SHIFT)
        self.steps = 0
        #: What the queue should count, if it is watched.
        self.count: Counter[str] = Counter()
        self.watched = watched
        if watched:
            self.queue.counters(MAX_WATCH)

    # --- producers -------------------------------------------------------------------

    @rule(message=messages)
    def push(self, message: dict[str, Any] | bytes) -> None:
        body, _ = self._encoded(message, self.queue.push(message))
        self.model.push(body)
        self.count["pushed"] += 1

    @rule(body=raw_bodies)
    def push_as_others_do(self, body: bytes) -> None:
        (self.client.lpush if self.keys.pop_from == "right" else self.client.rpush)(self.name, body)
        self.model.push(body)
        self.count["pushed"] += 1

    @rule(batch=st.lists(messages, min_size=1, max_size=4))
    def push_many(self, batch: list[dict[str, Any] | bytes]) -> None:
        for message, returned in zip(batch, self.queue.push_many(batch), strict=True):
            body, _ = self._encoded(message, returned)
            self.model.push(body)
            self.count["pushed"] += 1

    @rule(message=messages, delay=delays)
    def push_delayed(self, message: dict[str, Any] | bytes, delay: float) -> None:
        start = self._steady()
        body, key = self._encoded(message, self.queue.push(message, delay=delay))
        self.model.schedule(key, body, self._after(start, delay))
        self.count["pushed"] += 1

    @rule(message=messages, delay=st.sampled_from([None, *DELAYS]), marker=st.sampled_from("mn"))
    def push_once(self, message: dict[str, Any] | bytes, delay: float | None, marker: str) -> None:
        start = self._steady()
        returned = self.queue.push(message, delay=delay, dedup=marker)
        if marker in self.model.markers:
            assert returned == self.model.markers[marker]
            return
        body, key = self._encoded(message, returned)
        self.model.markers[marker] = returned
        self.count["pushed"] += 1
        if delay is None:
            self.model.push(body)
        else:
            self.model.schedule(key, body, self._after(start, delay))

    @rule(
        message=unique_messages,
        delay=st.sampled_from([None, *DELAYS]),
        replace=st.booleans(),
        taken=st.booleans(),
    )
    def push_unique(
        self, message: dict[str, Any], delay: float | None, replace: bool, taken: bool
    ) -> None:
        if taken:
            self._pop(5, LEASES[0], [])
        start = self._steady()
        key, model = UNIQUE.encode(), self.model
        replace = replace and delay is not None
        pushed = self.queue.push(message, unique="done", delay=delay, replace=replace)
        body, _ = self._encoded(message, pushed)
        later = key in model.delayed and cast(int, model.delayed[key].at) > start
        later = later and key not in model.counts  # no delivery of it counts
        if replace and later and delay is not None:
            assert pushed.stored
            model.replace(key, body, self._after(start, delay))
            return
        assert pushed.stored == (not model.has(key))
        if pushed.stored and delay is None:
            model.push(body)
        elif pushed.stored and delay is not None:
            model.schedule(key, body, self._after(start, delay))
        self.count["pushed"] += pushed.stored

    @rule(marker=st.sampled_from("mn"))
    def forget_the_marker(self, marker: str) -> None:
        self.client.delete(self.keys.dedup(marker))
        self.model.markers.pop(marker, None)

    @rule()
    def refuse_what_is_too_large(self) -> None:
        try:
            self.queue.push(b"x" * (MAX_BODY + 1))
        except MessageTooLarge:
            return
        raise AssertionError("pushed more than max_body_bytes")

    # --- consumers -------------------------------------------------------------------

    @rule(wanted=st.sampled_from([1, 1, 2, 5, 20]), lease=st.sampled_from(LEASES))
    def pop(self, wanted: int, lease: float) -> None:
        self._pop(wanted, lease, [])

    @rule(wanted=st.sampled_from([1, 3]), lease=st.sampled_from(LEASES), chosen=ages)
    def pop_and_ack(self, wanted: int, lease: float, chosen: list[int]) -> None:
        self._pop(wanted, lease, self._choose(chosen))

    def _pop(self, wanted: int, lease: float, acked: list[tuple[Message, Handle]]) -> None:
        start = self._steady()
        sent, given_back = self._admit("ack", acked)
        settled = self.model.ack([handle for _, handle in sent])
        expected = self.model.take(start, wanted)
        before = {*self.model.leased, *self.model.delayed}
        for message, _ in acked:
            message.lease_lost = False
        got = self.queue.pop_many(
            wanted, visibility_timeout=lease, ack=[message for message, _ in acked]
        )
        self._check_marks("ack", acked, sent, given_back, settled)
        self.count["ack"] += settled.count
        self.count["taken"] += len(got)
        window = self._after(start, lease, JITTER)
        assert [each.body for each in got] == [each.body for each in expected]
        for message, promise in zip(got, expected, strict=True):
            if promise.key is None:
                assert message.key.startswith(b"\0")
                assert message.key not in before
            else:
                assert message.key == promise.key
            before.add(message.key)
            assert message.receive_count == promise.count
            if self.model.requeue == "front":
                assert promise.count == promise.receives, "the count is not what happened"
            assert window.low <= message.receipt <= window.high
            handle = self.model.lease(message.key, promise, message.receipt)
            self.given.append((message, handle))

    @precondition(lambda self: self.given)
    @rule(chosen=ages)
    def ack(self, chosen: list[int]) -> None:
        self._settle("ack", chosen, self.queue.ack, self.model.ack)

    @precondition(lambda self: self.given)
    @rule(chosen=ages)
    def ack_again(self, chosen: list[int]) -> None:
        self._settle("ack", chosen, self.queue.ack, self.model.ack)
        self._settle("ack", chosen, self.queue.ack, self.model.ack)

    @precondition(lambda self: self.given)
    @rule(age=st.integers(0, 11))
    def ack_by_bare_id(self, age: int) -> None:
        [(_, handle)] = self._choose([age])
        if not handle.key.startswith(b"\0"):
            settled = self.queue.ack_id(handle.key.decode())
            assert settled == self.model.ack_id(handle.key)
            self.count["ack"] += settled

    @precondition(lambda self: self.given)
    @rule(chosen=ages, delay=st.sampled_from([None, *DELAYS]))
    def nack(self, chosen: list[int], delay: float | None) -> None:
        start = self._steady()
        counts = {handle: message.receive_count for message, handle in self._choose(chosen)}

        def due(handle: Handle) -> Window | None:
            if delay is None and self.model.requeue == "back":
                return None
            wait = min(300, 2 ** (counts[handle] - 1)) if delay is None else delay
            return self._after(start, wait)

        def expect(handles: Sequence[Handle]) -> Settled:
            rightful = [handle for handle in handles if self._holds(handle)]
            return self.model.give_back(handles, {each.key: due(each) for each in rightful}, True)

        self._settle("nack", chosen, lambda *held: self.queue.nack(*held, delay=delay), expect)

    @precondition(lambda self: self.given)
    @rule(chosen=ages)
    def release(self, chosen: list[int]) -> None:
        start = self._steady()

        def expect(handles: Sequence[Handle]) -> Settled:
            window = self._after(start, 0)
            return self.model.give_back(handles, {handle.key: window for handle in handles}, False)

        self._settle("release", chosen, self.queue.release, expect)

    @precondition(lambda self: self.given)
    @rule(chosen=ages, reason=st.sampled_from(["", "bad", "größer"]))
    def reject(self, chosen: list[int], reason: str) -> None:
        self._settle(
            "reject",
            chosen,
            lambda *held: self.queue.reject(*held, reason=reason),
            lambda handles: self.model.reject(handles, reason),
        )

    @precondition(lambda self: self.given)
    @rule(chosen=ages, timeout=st.sampled_from((*LEASES, 1013.0)))
    def extend(self, chosen: list[int], timeout: float) -> None:
        start = self._steady()
        self._settle(
            "extend",
            chosen,
            lambda *held: self.queue.extend(*held, timeout=timeout),
            lambda handles: self.model.extend(handles, self._after(start, timeout, JITTER)),
            settle_once=True,  # extend counts a message as often as it is named
        )

    def _settle(
        self,
        verb: str,
        chosen: list[int],
        settle: Callable[..., int],
        expect: Callable[[Sequence[Handle]], Settled],
        settle_once: bool = False,
    ) -> None:
        picked = self._choose(chosen)
        if settle_once:
            picked = list(dict.fromkeys(picked))
        for message, _ in picked:
            message.lease_lost = False
        lost: Counter[int] = Counter()
        sent, given_back = self._admit(verb, picked)
        try:
            count = settle(*(message for message, _ in picked))
        except LeaseLost as error:
            count = error.settled
            lost = Counter(id(message) for message in error.messages)
        settled = expect([handle for _, handle in sent])
        assert count == settled.count
        self.count[verb] += count
        refused = [sent[position] for position in settled.refused]
        assert lost == Counter(id(message) for message, _ in (*refused, *given_back))
        self._check_marks(verb, picked, sent, given_back, settled)

    def _admit(self, verb: str, picked: Deliveries) -> tuple[Deliveries, Deliveries]:
        """Return what is sent, and what its holder gave back and so may not settle otherwise.

        The rest was settled by its holder: that is neither sent nor refused.
        """
        done = [self.settled.get(id(message), "") for message, _ in picked]
        sent = [each for each, before in zip(picked, done, strict=True) if not before]
        given_back = [
            each
            for each, before in zip(picked, done, strict=True)
            if before in ("nack", "release") and before != verb
        ]
        return sent, given_back

    def _check_marks(
        self,
        verb: str,
        picked: Deliveries,
        sent: Deliveries,
        given_back: Deliveries,
        settled: Settled,
    ) -> None:
        refused = {id(sent[position][0]) for position in settled.refused}
        marked = refused | {id(message) for message, _ in given_back}
        assert {id(message) for message, _ in picked if message.lease_lost} == marked
        if verb != "extend":
            self.settled |= {id(each): verb for each, _ in sent if id(each) not in refused}

    def _choose(self, chosen: list[int]) -> list[tuple[Message, Handle]]:
        return [self.given[-1 - age % len(self.given)] for age in chosen] if self.given else []

    def _holds(self, handle: Handle) -> bool:
        kept = self.model.leased.get(handle.key)
        return kept is not None and kept.generation == handle.generation

    # --- operators -------------------------------------------------------------------

    @precondition(lambda self: self.model.dead)
    @rule(wanted=st.sampled_from([None, 1, 2]))
    def redrive(self, wanted: int | None) -> None:
        start = self._steady()
        count = len(self.model.dead) if wanted is None else min(wanted, len(self.model.dead))
        self._redrive(range(count), self.queue.redrive(wanted), start)

    def _redrive(self, positions: Sequence[int], redriven: int, start: int) -> None:
        window = self._after(start - REDRIVEN, 0)
        assert redriven == self.model.redrive(positions, window, UNIQUE.encode())
        self.count["redriven"] += redriven

    @precondition(lambda self: self.model.dead)
    @rule(chosen=st.sets(st.integers(0, 5), min_size=1), keep=st.booleans())
    def redrive_or_drop_some(self, chosen: set[int], keep: bool) -> None:
        start = self._steady()
        positions = sorted({position % len(self.model.dead) for position in chosen})
        letters = self.queue.dead_letters()
        entries = [letters[position].entry for position in positions]
        if keep:
            self._redrive(positions, self.queue.redrive(entries=entries), start)
        else:
            assert self.queue.drop_dead_letters(*entries) == len(entries)
            self.count["dead dropped"] += len(entries)
            self.model.drop(positions)

    @precondition(lambda self: self.model.delayed)
    @rule(chosen=st.sets(st.integers(0, 5), min_size=1), keep=st.booleans())
    def run_or_cancel_some(self, chosen: set[int], keep: bool) -> None:
        start = self._steady()
        keys = self.model.delayed_after(start)
        seen = self.queue.peek(len(keys) + 1, "delayed")
        assert [each.body for each in seen] == [self.model.delayed[key].body for key in keys]
        positions = sorted({position % len(seen) for position in chosen if seen})
        entries = [seen[position].entry for position in positions]
        done = (self.queue.run_now if keep else self.queue.cancel)(*entries, *entries[:1])
        assert done == len(entries)
        chosen_keys = [keys[position] for position in positions]
        if keep:
            self.model.run_now(chosen_keys, self._after(start - JUST_BEFORE, 0))
        else:
            self.model.cancel(chosen_keys)
            self.count["canceled"] += done

    @rule(ids=some_ids, running=st.booleans(), chosen=ages)
    def cancel_by_id(self, ids: list[str | int], running: bool, chosen: list[int]) -> None:
        start = self._steady()
        held = sorted(key for key in self.model.leased if not key.startswith(b"\0"))
        keys = [held[age % len(held)] for age in chosen] if held else []
        keys = list(dict.fromkeys([*keys, *(str(each).encode() for each in ids)]))
        canceled = self.queue.cancel(ids=[key.decode() for key in keys], running=running)
        assert canceled == self.model.cancel_ids(keys, start, running)
        self.count["canceled"] += canceled

    @rule(ids=some_ids)
    def run_now_by_id(self, ids: list[str | int]) -> None:
        start = self._steady()
        moved = self.queue.run_now(ids=ids)
        keys = [str(each).encode() for each in ids]
        due = self._after(start - JUST_BEFORE, 0)
        assert moved == self.model.run_ids(keys, start, due)

    @rule()
    def pause_or_resume(self) -> None:
        (self.queue.resume if self.model.paused else self.queue.pause)()
        self.model.paused = not self.model.paused

    @rule(sure=st.integers(0, 3))
    def drain(self, sure: int) -> None:
        if not sure and not self.model.has(UNIQUE.encode()):  # it would free the id
            assert self.queue.drain() == self.model.drain()

    @rule(sure=st.integers(0, 7), dead=st.booleans())
    def purge(self, sure: int, dead: bool) -> None:
        if not sure:
            letters = len(self.model.dead) if dead else 0
            deleted = self.queue.purge(dead=dead)
            assert deleted == self.model.purge(dead)
            self.count["dead dropped"] += letters
            self.count["dropped"] += deleted - letters

    @rule(times=st.integers(1, 3))
    def wake_a_waiter_that_dies(self, times: int) -> None:
        for _ in range(times):
            end = self.keys.pop_from.upper()
            self.client.lmove(self.name, f"{self.name}HANDOFF", end, "LEFT")
            self.model.hand_over()

    @rule()
    def flush_the_scripts(self) -> None:
        self.client.script_flush()

    # --- time ------------------------------------------------------------------------

    @rule(seconds=st.sampled_from(ADVANCES))
    def let_time_pass(self, seconds: int) -> None:
        self._advance(seconds * SECOND)

    def _advance(self, span: int) -> None:
        # register_script reads the script's cache state: it loads the script after a flush.
        keys = self.keys
        self.shift(keys=[keys.backup, keys.delayed, keys.extended], args=[span])
        self.model.advance(span)
        for message, _ in self.given:
            message.receipt -= span

    def _now(self) -> int:
        seconds, microseconds = self.client.time()
        return seconds * SECOND + microseconds

    def _steady(self) -> int:
        """Return the server's time, after whatever would pass soon was made to pass."""
        while True:
            now = self._now()
            kept = (*self.model.leased.values(), *self.model.delayed.values())
            soon = [cast(int, each.at) - now for each in kept]
            near = [span for span in soon if 0 < span <= MARGIN]
            if not near:
                return now
            self._advance(max(near))

    def _after(self, start: int, seconds: float, jitter: int = 0) -> Window:
        """Return when something ends that began between ``start`` and now."""
        span = round(seconds * SECOND)
        return Window(start + span, self._now() + span + jitter)

    # --- laws ------------------------------------------------------------------------

    @invariant()
    def laws(self) -> None:
        self.the_server_has_what_the_model_has()
        self.steps += 1
        if self.steps % LOOK == 0:
            self.stats_and_peek_say_so()
            if self.watched:
                self.the_counts_are_right()
            assert not self.queue.audit().findings
        else:
            self._steady()

    def the_server_has_what_the_model_has(self) -> None:
        keys, model = self.keys, self.model
        pipeline = self.client.pipeline(transaction=True)
        pipeline.lrange(keys.ready, 0, -1)
        pipeline.lrange(keys.handoff, 0, -1)
        pipeline.zrange(keys.backup, 0, -1, withscores=True)
        pipeline.zrange(keys.delayed, 0, -1, withscores=True)
        pipeline.hgetall(keys.context)
        pipeline.hgetall(keys.receives)
        pipeline.hgetall(keys.extended)
        pipeline.xrange(keys.dead)
        pipeline.hgetall(keys.notes)
        ready, handoff, backup, delayed, context, counts, extended, dead, notes = pipeline.execute()
        assert (ready if keys.pop_from == "right" else ready[::-1]) == model.ready
        assert handoff == model.handoff
        scores = {key: round(score) for key, score in [*backup, *delayed]}
        assert len(scores) == len(backup) + len(delayed), "leased and delayed at once"
        self._name_the_nameless({key for key, _ in delayed}, context)
        for place, entries in ((model.leased, backup), (model.delayed, delayed)):
            assert {key for key, _ in entries} == set(place)
            for key, kept in place.items():
                assert context[key] == kept.body
                _resolve(kept, scores[key])
        assert set(context) == set(scores)
        assert counts == {key: b"%d" % count for key, count in model.counts.items()}
        self._check_notes(notes)
        of_holders = {key for key, note in extended.items() if b"canceled" not in note}
        assert of_holders <= set(model.leased), "a note of a lease that is over"
        assert [
            Dead(each[b"key"], each[b"body"], each[b"reason"].decode(), int(each[b"count"]))
            for _, each in dead
        ] == model.dead
        assert model.everywhere() == model.accepted, "a message is lost, or there twice"

    def _check_notes(self, notes: dict[bytes, bytes]) -> None:
        """Each count on a list is noted, and each name is that of a message that exists."""
        listed = {field: note.split()[1] for field, note in notes.items() if field[:1] != b":"}
        assert listed == {
            listed_field(*message): b"%d" % count for message, count in self.model.listed.items()
        }
        model = self.model
        bodies = {mark(body) for body in (*model.ready, *model.handoff)}
        for field, names in notes.items():
            for name in names.split(b" ") if field[:1] == b":" else ():
                derived = b"\0%s\0%s" % (field[1:], name)
                key = field[1:] if name == b"=" else derived
                of_list, slash, _ = name.partition(b"/")
                is_there = of_list in bodies if slash else key in {*model.leased, *model.delayed}
                assert is_there, f"{field!r} names {name!r}, which is gone"

    def _name_the_nameless(self, found: set[bytes], context: dict[bytes, bytes]) -> None:
        for key in sorted(found - set(self.model.delayed)):
            assert key.startswith(b"\0")
            [kept, *_] = [each for each in self.model.nameless if each.body == context[key]]
            self.model.nameless.remove(kept)
            self.model.delayed[key] = kept
        assert not self.model.nameless

    def stats_and_peek_say_so(self) -> None:
        now, model = self._steady(), self.model
        expired = sum(cast(int, kept.at) <= now for kept in model.leased.values())
        due = sum(cast(int, kept.at) <= now for kept in model.delayed.values())
        ready = len(model.ready) + len(model.handoff) + expired + due
        stats = self.queue.stats()
        assert (stats.ready, stats.expired, stats.due) == (ready, expired, due)
        assert stats.in_flight == len(model.leased) - expired
        assert stats.delayed == len(model.delayed) - due
        assert stats.dead == len(model.dead)
        assert stats.paused == model.paused
        assert (stats.next_event_in is None) == (not model.leased and not model.delayed)
        for state, size in (
            ("ready", ready),
            ("in_flight", stats.in_flight),
            ("delayed", stats.delayed),
        ):
            assert len(self.queue.peek(50, state)) == min(50, size)

    def the_counts_are_right(self) -> None:
        """So ``pushed`` is what was pushed, and it follows from the messages and the counts."""
        found, count = self.queue.counters(MAX_WATCH), self.count
        died = len(self.model.dead) + count["redriven"] + count["dead dropped"]
        assert (found.pushed, found.taken) == (count["pushed"], count["taken"])
        assert (found.acked, found.nacked) == (count["ack"], count["nack"])
        assert (found.released, found.redriven) == (count["release"], count["redriven"])
        assert (sum(found.dead.values()), found.dead.get("rejected", 0)) == (died, count["reject"])
        assert found.dead.get("canceled", 0) == count["canceled"]
        assert (found.dropped, found.dead_dropped) == (count["dropped"], count["dead dropped"])

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.close()
            for key in (*self.keys.all(), self.keys.record, *map(self.keys.dedup, "mn")):
                self.client.delete(key)

    def _encoded(
        self, message: dict[str, Any] | bytes, returned: str
    ) -> tuple[bytes, bytes | None]:
        body, key = encoded(message, returned)
        assert returned.encode() == (key or b"")
        self.natural[body] = key
        return body, key


def _resolve(kept: Kept, score: int) -> None:
    if isinstance(kept.at, Window):
        assert kept.at.low <= score <= kept.at.high
        kept.at = score
    assert kept.at == score
