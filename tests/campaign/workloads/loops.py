"""The loops of producers and consumers, which write down all that they do."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import redis

import ackq
from tests.campaign.history import Log, checksum, now

from .rig import Rig

#: Seconds that a delayed push waits.
DELAY = 2.0
#: Seconds that a message of a nack waits.
NACKS = (0.0, 0.1)
#: Share of calls that asyncio cancels, and turns of the event loop after which it does.
CANCELLED = 0.03
TURNS = 60
#: Times that the last consumer asks in vain, at least, before it gives up.
VAIN = 20


def body_of(name: str) -> bytes:
    """Return the one body that a message of this name may have.

    The name is its id, or its id after an equals sign: messages of several names share that one.
    """
    own, shared, message_id = name.encode().partition(b"=")
    size = zlib.crc32(name.encode()) % 150
    if shared:
        return b'{"id":"%s","pad":"%s","own":"%s"}' % (message_id, b"x" * size, own)
    return b'{"id":"%s","pad":"%s"}' % (own, b"x" * size)


def id_of(body: bytes) -> str:
    """Return the name of a body that `body_of` made, or the beginning of any other body."""
    found = body[7 : body.find(b'"', 7)].decode("latin-1")
    _, shared, own = body.partition(b'"own":"')
    return f"{own[:-2].decode('latin-1')}={found}" if shared else found


def names_of(by: str, first: int, size: int, sharers: int = 1) -> list[str]:
    """Return the names of some messages of a producer; so many in a row share an id."""
    numbers = range(first, first + size)
    if sharers == 1:
        return [f"{by}-{number}" for number in numbers]
    return [f"{by}-{number}={by}-of-{number // sharers}" for number in numbers]


class Outcome(NamedTuple):
    """What became of a call."""

    state: str
    result: Any = None
    refused: tuple[Any, ...] = ()


async def outcome_of(call: Awaitable[Any]) -> Outcome:
    """Make the call, and say how it ended."""
    try:
        return Outcome("ok", await call)
    except ackq.LeaseLost as error:
        return Outcome("refused", error.settled, error.messages)
    except (ackq.UnknownOutcome, ackq.NotConfirmed, asyncio.CancelledError):
        return Outcome("unknown")
    except redis.ResponseError:
        return Outcome("fail")
    except (redis.RedisError, ackq.AckqError):
        # Perhaps nothing was ever sent; or it was, again and again.
        return Outcome("unknown")


class Loop:
    """One thread or task, and its calls."""

    def __init__(self, rig: Rig, log: Log, by: str, draw: random.Random) -> None:
        self._rig = rig
        self._log = log
        self._by = by
        self._draw = draw

    async def outcome(self, call: Any) -> Outcome:
        """Make a call. With asyncio, a few calls are cancelled at a random await."""
        if not self._rig.workload.asynchronous or self._draw.random() > CANCELLED:
            found = await outcome_of(call)
        else:
            begin = now()
            task = asyncio.ensure_future(call)
            for _ in range(self._draw.randrange(TURNS)):
                await asyncio.sleep(0)
            task.cancel()
            found = await outcome_of(task)
            self._log.write(do="fault", kind="cancellation", begin=begin, end=now())
        if found.state in ("unknown", "fail"):
            await self._rig.sleep(0.02)
        return found


class Producer(Loop):
    """Pushes until the run stops it."""

    _number = 0

    async def run(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            if self._draw.random() < 0.2:
                await self._wait_for_consumers(is_over)
            await self._push()
            await self._rig.sleep(self._rig.workload.pace)

    async def _wait_for_consumers(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            found = await outcome_of(self._rig.stored())
            if found.state == "ok" and found.result < self._rig.workload.backlog:
                return
            await self._rig.sleep(0.02)

    async def _push(self) -> None:
        rig, draw = self._rig, self._draw
        size = draw.choice(rig.workload.batches)
        ids = names_of(self._by, self._number, size, rig.workload.sharers)
        self._number += size
        bodies = [body_of(each) for each in ids]
        about: dict[str, Any] = {}
        if draw.random() < rig.delayed:
            about["delay"] = DELAY
        if "confirm" in rig.settings:
            about["kept"] = True
        sums = [checksum(body) for body in bodies]
        call = self._log.begin("push", by=self._by, ids=ids, sums=sums, **about)
        entries = list(zip(ids, bodies, strict=True))
        found = await self.outcome(rig.push(entries, about.get("delay", 0.0)))
        self._log.end(call, found.state, **(found.result or {}))


class Held(NamedTuple):
    """A message in hand, and its token in the history."""

    token: int
    handle: Any


class Consumer(Loop):
    """Takes messages and settles them in ways drawn at random, some of them too late."""

    def __init__(self, rig: Rig, log: Log, by: str, draw: random.Random) -> None:
        super().__init__(rig, log, by, draw)
        #: To be acked with the next take.
        self._finished: list[Held] = []

    async def run(self, is_over: Callable[[], bool]) -> None:
        sizes = self._rig.workload.batches
        while not is_over():
            held = await self.take(self._draw.choice(sizes))
            if held:
                await self._handle(held)
        if self._finished:
            await self.take(1)

    async def drain(self, within: float) -> int:
        """Take and ack until nothing is left, or in vain for so long; return how much is left."""
        vain: list[float] = []
        while stored := await self._rig.stored():
            held = await self.take(1000, writes_nothing=True)
            if held:
                await self.settle("ack", held)
                vain = []
            elif held is not None:
                vain.append(now())
                if len(vain) > VAIN and vain[-1] - vain[0] > within + 1:
                    break
        return stored

    async def take(self, n: int, writes_nothing: bool = False) -> list[Held] | None:
        """Take messages, and ack those that were finished; return None if nothing was answered."""
        done, self._finished = self._finished, []
        call = self._log.begin("ack", of=[each.token for each in done]) if done else 0
        begin = now()
        found = await self.outcome(self._rig.take(n, [each.handle for each in done]))
        if done:
            lost = [each.token for each in done if getattr(each.handle, "lease_lost", False)]
            state = self._rig.fused if found.state == "ok" else found.state
            self._log.end(call, state, refused=lost)
        if found.state != "ok":
            return None
        messages, about = found.result
        if not messages and not writes_nothing:
            return []
        got = [
            [id_of(each.body), checksum(each.body), each.received, each.until] for each in messages
        ]
        first = self._log.took(got, by=self._by, begin=begin, **about)
        return [Held(first + at, each.handle) for at, each in enumerate(messages)]

    async def _handle(self, held: list[Held]) -> None:
        draw, lease, workload = self._draw, self._rig.lease, self._rig.workload
        verbs = workload.verbs or self._rig.verbs
        if draw.random() < workload.straddling:
            extends = "nack" in verbs and draw.random() < 0.4
            if extends and draw.random() < 0.5:
                await self.settle("extend", held)
            await self._rig.sleep(lease * draw.uniform(0.7, 2.7))
            if extends:
                await self.settle("extend", held)
        verb = draw.choices([*verbs], [*verbs.values()])[0]
        if verb == "fused":
            self._finished += held
            return
        await self.settle(verb, held)
        if verb == "ack" and draw.random() < 0.1:
            await self.settle("ack", held)  # as a caller would that is not sure

    async def settle(self, verb: str, held: Sequence[Held]) -> None:
        """Settle messages, and write the outcome of each."""
        delay = self._draw.choice(NACKS) if verb == "nack" else 0.0
        call = self._log.begin(verb, of=[each.token for each in held], delay=delay)
        handles = [each.handle for each in held]
        found = await self.outcome(self._rig.settle(verb, handles, delay))
        state = found.state
        if state in ("ok", "refused"):
            lost = [each.token for each in held if any(each.handle is one for one in found.refused)]
            # What was settled before counts as no success.
            state = "ok" if found.result == len(held) - len(lost) else "gone"
            self._log.end(call, state, refused=lost)
        else:
            self._log.end(call, state)
