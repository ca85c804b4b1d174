"""The state machine: every operation, ackq's and PyRSMQ's mixed, against a small model.

Time is injected by subtracting one span from every score: all that the scripts do with scores is
to compare them with one another and with the server's clock, so this is what a server sees whose
clock went on by that span. What is about to become visible by itself is made so first.
"""

from dataclasses import dataclass
from typing import Any

import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.rsmq.peers import Python

#: ms that an operation may take before a time that lies ahead of it passes by itself.
MARGIN = 20_000
TIMEOUTS = (0, 131, 419)
DELAYS = (0, 97, 331)
ADVANCES = (60, 180, 600)
TEXTS = ("", "a", "ü😀", "vt", "x" * 300)

_SHIFT = """
local entries = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #entries, 2 do
  redis.call('ZINCRBY', KEYS[1], '-' .. ARGV[1], entries[i])
end
"""

texts = st.sampled_from(TEXTS)
timeouts = st.sampled_from([None, *TIMEOUTS])
ages = st.lists(st.integers(0, 11), min_size=1, max_size=4)


@dataclass
class Kept:
    """A message in the queue, and when it is visible by the server's clock, in ms."""

    body: str
    at: int
    rc: int = 0
    fr: int = 0


class RSMQMachine(RuleBasedStateMachine):
    """Give `make_rsmq`, `client`, `url` and `ns` to a subclass."""

    make_rsmq: Any
    client: redis.Redis
    url: str
    ns: str

    @initialize(limit=st.sampled_from([None, None, 1, 2, 3]), vt=st.sampled_from(TIMEOUTS))
    def open(self, limit: int | None, vt: int) -> None:
        self.ours = self.make_rsmq(self.ns, max_receives=limit)
        self.theirs = Python(self.url, self.ns)
        self.ours.create_queue("q", vt=vt)
        self.limit, self.vt, self.delay = limit or 0, vt, 0
        self.kept: dict[str, Kept] = {}
        self.dead: list[tuple[str, str, int]] = []
        self.known: list[str] = []
        self.sent = self.received = 0
        self.shift = self.client.register_script(_SHIFT)

    # --- producers -------------------------------------------------------------------

    @rule(batch=st.lists(texts, min_size=1, max_size=5), delay=st.sampled_from([None, *DELAYS]))
    def send(self, batch: list[str], delay: int | None) -> None:
        start = self._steady()
        ids = self.ours.send_messages("q", batch, delay)
        assert ids == sorted(ids)
        for id, text in zip(ids, batch, strict=True):
            self._keep(id, text, start, self.delay if delay is None else delay)

    @rule(text=texts.filter(bool), delay=st.sampled_from([None, *DELAYS]))
    def send_as_others_do(self, text: str, delay: int | None) -> None:
        start = self._steady()
        id = self.theirs.send("q", text, delay)
        self._keep(id, text, start, self.delay if delay is None else delay)

    def _keep(self, id: str, text: str, start: int, delay: int) -> None:
        assert id not in self.kept
        self.kept[id] = Kept(text, self._score(id, start, delay))
        self.known.append(id)
        self.sent += 1

    # --- consumers -------------------------------------------------------------------

    @rule(wanted=st.sampled_from([1, 1, 2, 5, 20]), vt=timeouts)
    def receive(self, wanted: int, vt: int | None) -> None:
        start = self._steady()
        expected = self._promised(wanted, start)
        got = self.ours.receive_messages("q", wanted, vt)
        assert [(each.id, each.message, each.rc) for each in got] == expected
        for each in got:
            self._was_received(each.id, each.fr, start)
            timeout = self.vt if vt is None else vt
            self.kept[each.id].at = self._score(each.id, start, timeout)

    @rule(vt=timeouts)
    def receive_as_others_do(self, vt: int | None) -> None:
        start = self._steady()
        first = next(iter(self._visible(start)), None)
        got = self.theirs.receive("q", vt)
        assert (got and got["id"]) == first
        if got:
            kept = self.kept[got["id"]]
            assert (got["message"], got["rc"]) == (kept.body, kept.rc + 1)
            kept.rc += 1
            self._was_received(got["id"], got["fr"], start)
            kept.at = self._score(got["id"], start, self.vt if vt is None else vt)

    @rule()
    def pop(self) -> None:
        start = self._steady()
        expected = self._promised(1, start)
        got = self.ours.pop_message("q")
        assert ([(got.id, got.message, got.rc)] if got else []) == expected
        if got:
            self._was_received(got.id, got.fr, start)
            del self.kept[got.id]

    @precondition(lambda self: self.known)
    @rule(chosen=ages)
    def delete(self, chosen: list[int]) -> None:
        ids = self._choose(chosen)
        present = {id for id in ids if id in self.kept}
        assert self.ours.delete_messages("q", ids) == len(present)
        for id in present:
            del self.kept[id]

    @precondition(lambda self: self.known)
    @rule(age=st.integers(0, 11))
    def delete_as_others_do(self, age: int) -> None:
        [id] = self._choose([age])
        # PyRSMQ says True only for a message that was received.
        assert self.theirs.delete("q", id) == (id in self.kept and self.kept[id].rc > 0)
        self.kept.pop(id, None)

    @precondition(lambda self: self.known)
    @rule(age=st.integers(0, 11), vt=st.sampled_from(TIMEOUTS), whose=st.booleans())
    def change_visibility(self, age: int, vt: int, whose: bool) -> None:
        start = self._steady()
        [id] = self._choose([age])
        change = self.ours.change_message_visibility if whose else self.theirs.show
        assert bool(change("q", id, vt)) == (id in self.kept)
        if id in self.kept:
            self.kept[id].at = self._score(id, start, vt)

    def _promised(self, wanted: int, now: int) -> list[tuple[str, str, int]]:
        """Return what the next receive brings, after moving to `dead` what it moves."""
        taken: list[tuple[str, str, int]] = []
        while not taken and (visible := self._visible(now)):
            for id in visible[:wanted]:
                kept = self.kept[id]
                if self.limit and kept.rc >= self.limit:
                    self.dead.append((id, kept.body, kept.rc))
                    del self.kept[id]
                    continue
                last = self.limit and kept.rc + 1 == self.limit
                if last and taken:
                    break
                kept.rc += 1
                taken.append((id, kept.body, kept.rc))
                if last:
                    break
        return taken

    def _was_received(self, id: str, fr: int, start: int) -> None:
        kept = self.kept[id]
        if kept.rc == 1:
            assert start <= fr <= self._now()
            kept.fr = fr
        assert fr == kept.fr
        self.received += 1

    # --- operators and time ----------------------------------------------------------

    @rule(vt=timeouts, delay=st.sampled_from([None, *DELAYS]), whose=st.booleans())
    def set_attributes(self, vt: int | None, delay: int | None, whose: bool) -> None:
        settings = {"vt": vt, "delay": delay}
        given = {name: value for name, value in settings.items() if value is not None}
        if given:
            change = self.ours.set_queue_attributes if whose else self.theirs.change
            change("q", **given)
            self.vt = given.get("vt", self.vt)
            self.delay = given.get("delay", self.delay)

    @precondition(lambda self: self.dead)
    @rule(wanted=st.sampled_from([None, 1, 2]))
    def redrive(self, wanted: int | None) -> None:
        start = self._steady()
        count = min(len(self.dead), len(self.dead) if wanted is None else wanted)
        assert self.ours.redrive("q", wanted) == count
        for id, body, _ in self.dead[:count]:
            self.kept[id] = Kept(body, self._score(id, start, 0))
        del self.dead[:count]

    @rule(seconds=st.sampled_from(ADVANCES))
    def advance(self, seconds: int) -> None:
        self._advance(seconds * 1000)

    def _advance(self, span: int) -> None:
        self.shift(keys=[f"{self.ns}:q"], args=[span])
        for kept in self.kept.values():
            kept.at -= span

    def _steady(self) -> int:
        """Return the time, at which nothing is about to become visible by itself."""
        now = self._now()
        while soon := [k.at - now for k in self.kept.values() if now < k.at < now + MARGIN]:
            self._advance(max(soon))
        return now

    def _now(self) -> int:
        seconds, microseconds = self.client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def _score(self, id: str, start: int, seconds: int) -> int:
        score = self.client.zscore(f"{self.ns}:q", id)
        assert score is not None
        assert start + seconds * 1000 <= score <= self._now() + seconds * 1000
        return int(score)

    def _visible(self, now: int) -> list[str]:
        # A message sent or visible since a moment ago may have a score a little over `now`.
        found = [(kept.at, id) for id, kept in self.kept.items() if kept.at < now + MARGIN]
        return [id for _, id in sorted(found)]

    def _choose(self, chosen: list[int]) -> list[str]:
        return [self.known[-1 - age % len(self.known)] for age in chosen]

    # --- what always holds -----------------------------------------------------------

    @invariant()
    def the_server_agrees(self) -> None:
        if not hasattr(self, "shift"):
            return
        members: Any = self.client.zrange(f"{self.ns}:q", 0, -1, withscores=True)
        scores = dict(members)
        assert scores == {id.encode(): kept.at for id, kept in self.kept.items()}
        fields: Any = self.client.hgetall(f"{self.ns}:q:Q")
        expected = {}
        for id, kept in self.kept.items():
            expected[id] = kept.body
            if kept.rc:
                expected |= {f"{id}:rc": str(kept.rc), f"{id}:fr": str(kept.fr)}
        found = {name.decode(): value.decode() for name, value in fields.items()}
        assert {name: value for name, value in found.items() if len(name) >= 32} == expected
        letters = [
            (letter.id, letter.body.decode(), letter.rc) for letter in self.ours.dead_letters("q")
        ]
        assert letters == self.dead
        counts = self.ours.get_queue_attributes("q")
        now = self._now()
        hidden = sum(kept.at > now for kept in self.kept.values())
        assert (counts.totalsent, counts.totalrecv) == (self.sent, self.received)
        assert (counts.msgs, counts.hiddenmsgs) == (len(self.kept), hidden)
        assert (counts.vt, counts.delay) == (self.vt, self.delay)
        keys: Any = self.client.keys(f"{self.ns}:*")
        own = {key.decode() for key in keys}
        assert own <= {
            f"{self.ns}:{end}" for end in ("QUEUES", "q", "q:Q", "q:Q.dead", "q:Q.errors")
        }

    def teardown(self) -> None:
        if hasattr(self, "shift"):
            self.ours.close()
            self.theirs.close()
            for key in self.client.keys(f"{self.ns}:*"):
                self.client.unlink(key)
