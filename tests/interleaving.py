"""Operations that are run step by step, in a drawn order, with faults at any of their requests.

An `Actor` is a process: a generator that asks for requests as the operations of ackq do. A `Walk`
lets one of them send its next request, again and again, and looks after each one: requests of
several processes follow each other in any order, replies are lost and requests repeated after a
while, processes die, the server is full. A seed gives the same walk again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import random
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from typing import Any

import pytest
import redis

from ackq import scripts
from ackq.core.effects import Clock, Effect, Operation, Pipeline, Request
from ackq.core.io.driver import Driver
from ackq.errors import LeaseLost, UnknownOutcome
from ackq.scripts import Script
from tests.servers import private_server
from tests.subjects import Subjects

#: How many times as many walks as usual.
SOAK = float(os.environ.get("ACKQ_SOAK", "1"))
#: What a process does.
Life = Generator[Effect, Any, None]
TakeWalk = Callable[[Any, str, int], None]
#: What may pass by itself, and is repeated.
PASSING = (redis.ConnectionError, redis.exceptions.OutOfMemoryError)


class Actor:
    """A process that was begun and has not ended."""

    def __init__(self, name: str, life: Callable[[Actor], Life]) -> None:
        self.name = name
        self.life = life(self)
        #: What a request of it may remove from the queue.
        self.known: set[bytes] = set()
        #: The epoch that it believes to have, if its requests need one.
        self.epoch: Callable[[], int] = lambda: 0
        self.request: Request | None = None
        self.is_repeated = False
        self.is_alive = True
        #: No fault meets its requests: it is to come to an end.
        self.is_spared = False
        #: The rest of the requests that it sent at once, and the answers to those before.
        self._trip: deque[Request] = deque()
        self._answers: list[Any] = []
        self.resume(None)

    def resume(self, answer: Any) -> None:
        """Go on to the next request, of those sent at once or later."""
        if self._trip:
            self._trip.popleft()
            self._answers.append(answer)
            if isinstance(answer, redis.ConnectionError):
                self._answers += [answer] * len(self._trip)
                self._trip.clear()
            if self._trip:
                self.request = self._trip[0]
                return
            answer = self._answers
        error = isinstance(answer, Exception)
        try:
            step = self.life.throw(answer) if error else self.life.send(answer)
            while not isinstance(step, Request | Pipeline):
                step = self.life.send(0.0 if isinstance(step, Clock) else None)
            if isinstance(step, Pipeline):
                self._trip, self._answers = deque(map(_without_waiting, step.requests)), []
                step = self._trip[0]
            self.request = step
        except StopIteration:
            self.is_alive = False


def _without_waiting(request: Request) -> Request:
    """Return a request that the server answers at once."""
    if request.args[0] == b"BLPOP":
        return dataclasses.replace(request, args=(b"LPOP", *request.args[1:-1]), blocks=0.0)
    if request.args[0] != b"BLMOVE":
        return request
    return dataclasses.replace(request, args=(b"LMOVE", *request.args[1:-1]), blocks=0.0)


class Walk:
    """Actors that take turns, on a server of their own."""

    #: What was there in all walks of a test: faults, what actors did to its end, and what `look`
    #: and its like compared.
    subjects = Subjects()

    def __init__(self, driver: Driver, client: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.client = client
        self._driver = driver
        self._actors: list[Actor] = []
        self._trace: deque[str] = deque(maxlen=25)

    def doing(
        self, actor: Actor, what: str, operation: Operation[Any], spared: bool = False
    ) -> Operation[Any]:
        """Count an operation that comes to its end; with ``spared`` it meets no fault."""
        self.subjects.saw(what, 0)
        actor.is_spared = spared
        try:
            result = yield from operation
        finally:
            actor.is_spared = False
        self.subjects.saw(what)
        return result

    def begin(self, name: str, life: Callable[[Actor], Life]) -> None:
        """Begin a process."""
        self._actors.append(Actor(name, life))

    def look(self, actor: Actor, request: Request) -> Callable[[], None]:
        """Look at the keys before a request; return what looks at them afterwards."""
        raise NotImplementedError

    def run(self, lives: Mapping[str, Callable[[Actor], Life]], steps: int) -> None:
        """Let each process take its number of steps in ``lives``; then all of them are dead."""
        try:
            for _ in range(steps):
                self._actors = [actor for actor in self._actors if actor.is_alive]
                missing = [
                    name for name in lives if all(actor.name != name for actor in self._actors)
                ]
                if missing:
                    self.begin(missing[0], lives[missing[0]])
                self._step(self.random.choice(self._actors))
        except BaseException as error:
            error.add_note("\n".join(self._trace))
            raise
        self._actors.clear()

    def _step(self, actor: Actor) -> None:
        request = actor.request
        if request is None or not actor.is_alive:
            return
        fault = 1.0 if actor.is_spared else self.random.random()
        if fault < 0.02:
            self.subjects.saw("fault: dies")
            self._trace.append(f"{actor.name} dies")
            actor.life.close()
            actor.is_alive = False
        elif fault < 0.04:
            self.subjects.saw("fault: finds nobody")
            self._trace.append(f"{actor.name} finds nobody")
            actor.resume(redis.ConnectionError("nobody there"))
        else:
            answer = self._answer(actor, request, is_full=fault < 0.08)
            self.subjects.saw("fault: server is full", fault < 0.08)
            if fault < 0.12:
                self.subjects.saw("fault: reply is lost")
                self._trace.append("  and the reply is lost")
                request.reply_lost = True
                lost = UnknownOutcome if not request.resend else redis.ConnectionError
                actor.resume(lost("the reply was lost"))
            elif fault < 0.18 and request.resend and not actor.is_repeated:
                self._trace.append("  and it is sent again")
                self.subjects.saw("fault: request is repeated")
                request.reply_lost = True
                actor.is_repeated = True
            else:
                actor.is_repeated = False
                actor.resume(answer)

    def _answer(self, actor: Actor, request: Request, is_full: bool) -> Any:
        after = self.look(actor, request)
        if is_full:
            self.client.config_set("maxmemory", 1)
        try:
            answer = self._driver._request(dataclasses.replace(request))
        except redis.RedisError as error:
            answer = error
        if is_full:
            self.client.config_set("maxmemory", 0)
        what = request.script.name if request.script else request.args
        self._trace.append(f"{actor.name}: {what} {request.args[1:]} -> {answer!r}"[:300])
        after()
        return answer


def repeating(operation: Callable[[], Operation[Any]]) -> Operation[Any]:
    """Do it again until it succeeds, as an actor that must not fail does."""
    while True:
        try:
            return (yield from operation())
        except PASSING:
            continue


def again_and_again(step: Callable[[Actor], Operation[Any]]) -> Callable[[Actor], Life]:
    """Return a life that repeats a step, whether it succeeds or not."""

    def life(actor: Actor) -> Life:
        while True:
            try:
                yield from step(actor)
            except (*PASSING, LeaseLost):
                continue

    return life


def operating(
    walk: Walk, actions: Mapping[str, Callable[[], Operation[Any]]]
) -> Callable[[Actor], Life]:
    """An operator does each of these in turn, mostly without a fault: some have many requests."""
    turns = itertools.cycle(walk.random.sample([*actions], len(actions)))

    def step(actor: Actor) -> Operation[None]:
        what = next(turns)
        yield from walk.doing(actor, what, actions[what](), spared=walk.random.random() < 0.7)

    return again_and_again(step)


def passing_time(walk: Walk, *keys: bytes) -> Callable[[Actor], Life]:
    """Leases end, and messages become due: those in any of these sorted sets."""

    def step(actor: Actor) -> Operation[None]:
        key = walk.random.choice(keys)
        member = yield Request((b"ZRANDMEMBER", key))
        if member is not None:
            yield Request((b"ZADD", key, b"XX", b"LT", walk.random.randint(1, 9), member))

    return again_and_again(step)


@pytest.fixture(scope="module")
def walked_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with private_server(tmp_path_factory.mktemp("server"), appendonly="no") as server:
        yield server


@pytest.fixture
def take_walks(walked_server: Any, token: str) -> Callable[[int, TakeWalk], None]:
    """``take_walks(n, walk)``: call ``walk(client, name, seed)`` for each of n seeds.

    It fails if something in `Walk.subjects` never was there; ``but`` names what need not be.
    """

    def take(walks: int, walk: TakeWalk, but: Container[str] = ()) -> None:
        Walk.subjects.clear()
        with redis.Redis.from_url(walked_server.url) as client:
            for seed in range(max(1, round(walks * SOAK))):
                try:
                    walk(client, f"{token}-{seed}", seed)
                except BaseException as error:
                    error.add_note(f"the seed is {seed}")
                    raise
        print(f"the walks saw: {Walk.subjects}")
        missing = [each for each in Walk.subjects.missing() if each not in but]
        if missing:  # no AssertionError, which would be a mistake that a walk found
            pytest.fail(f"never there in {walks} walks: {missing}")

    return take


def shorten(monkeypatch: pytest.MonkeyPatch, steps: Mapping[str, Mapping[str, str]]) -> None:
    """Replace text in scripts, so that a few messages are many steps."""
    load = scripts.load
    made: dict[str, Script] = {}
    for name, changes in steps.items():
        text = load(name).text.decode()
        for old, new in changes.items():
            assert text.count(old) == 1, f"{name}: {old!r} must occur once"
            text = text.replace(old, new)
        raw = text.encode()
        made[name] = Script(name, raw, hashlib.sha1(raw).hexdigest().encode())
    monkeypatch.setattr(scripts, "load", lambda name: made.get(name) or load(name))
