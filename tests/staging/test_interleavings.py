"""Writers at once, step by step: after each, what is committed is there once, and nothing else.

``ACKQ_SOAK=20`` takes twenty times as many walks.
"""

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ackq.config import QueueConfig
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.delay import staged_rows as delay_staged
from ackq.delay.staging_client import DelayStaging
from ackq.errors import StagingLost
from ackq.queue import inspection, record, settle, take
from ackq.queue.keys import QueueKeys
from ackq.queue.spec import QueueSpec
from ackq.queue.staging_client import Staging
from ackq.staging import operations
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import staged_rows as topic_staged
from ackq.topic.consume import MOVE_ATTEMPTS
from ackq.topic.publish import publish_many
from ackq.topic.staging_client import TopicStaging
from tests.interleaving import PASSING, SOAK, Actor, Life, Walk, again_and_again, repeating, shorten

STEPS = 400
#: Deletes a list that is not committed, as its time to live does.
EXPIRE = b"if redis.call('PTTL', KEYS[1]) > 0 then redis.call('DEL', KEYS[1]) end"
DUE = 4_000_000_000_000_000

Row = tuple[bytes, bool]


def content(writer: str, batch: int) -> list[list[Row]]:
    """Return the rows of each task of a batch, the same each time, and whether any is due later."""
    draw = random.Random(f"{writer}:{batch}")
    return [
        [
            (f"{writer}/{batch}/{task}/{row}".encode(), draw.random() < 0.2)
            for row in range(draw.choice([0, 1, 4, 7]))
        ]
        for task in range(draw.choice([1, 2, 4]))
    ]


class StagingWalk(Walk):
    """A target of rows, of some kind, and the rows that have arrived."""

    def __init__(self, target: StagingBase, client: Any, name: str, seed: int) -> None:
        super().__init__(target._driver, client, seed)
        self.target, self.name = target, name
        self.keys = target._staging.keys
        self.taken: Counter[bytes] = Counter()
        self.attempts = itertools.count()
        self.others = itertools.count()

    @property
    def queue(self) -> QueueSpec:
        end = self.target._spec.config.pop_from if isinstance(self.target, Staging) else "right"
        return QueueSpec(
            self.name, QueueKeys.of(self.name, end), QueueConfig(pop_from=end), outside=SYSTEM
        )

    def arrived(self) -> list[bytes]:
        """Return what is where it belongs."""
        name, client = self.name, self.client
        if isinstance(self.target, TopicStaging):
            newest = int(client.get(f"{name}:nextIndex") or 0)
            names = [f"{name}:messages:{index}" for index in range(1, newest + 1)]
            messages: list[bytes] = client.mget(names) if names else []
            return messages
        if isinstance(self.target, DelayStaging):
            bodies: list[bytes] = client.hvals(f"{name}:h")
            return bodies
        keys = self.queue.keys
        pipe = client.pipeline()
        pipe.lrange(keys.ready, 0, -1).lrange(keys.handoff, 0, -1).hvals(keys.context)
        return list(itertools.chain(*pipe.execute()))

    def seen(self) -> Counter[bytes]:
        """Return what is visible, or on its way, or was taken."""
        found = Counter(self.arrived()) + self.taken
        rows = self.client.hgetall(self.keys.heldrows)
        held: list[bytes] = self.client.zrange(self.keys.held, 0, -1)
        assert rows.keys() == set(held)
        for name in held:
            texts = self.client.lrange(name, 0, -1)
            assert len(texts) == int(rows[name])
            assert self.client.pttl(name) == -1, "a list that is committed expires"
            found.update(bare(text) for text in texts)
        return found

    def committed(self) -> Counter[bytes]:
        """Return what must be seen."""
        markers = self.client.hgetall(self.keys.commits)
        return Counter(
            row
            for writer, marker in markers.items()
            for batch in range(int(marker) + 1)
            for task in content(writer.decode(), batch)
            for row, _ in task
        )

    def look(self, actor: Actor, request: Request) -> Callable[[], None]:
        before = self.seen()

        def after() -> None:
            found = self.seen()
            if request.script and request.script.name in ("pop", "ack"):
                self.taken += before - found
                found = self.seen()
            rows = Counter({row: found[row] for row in found if not row.startswith(b"other")})
            assert rows == self.committed()
            assert max(found.values(), default=1) == 1

        return after


def bare(text: bytes) -> bytes:
    """Return a row without the prefix that staging adds."""
    return re.sub(rb"^(1:\d+:\d+:k-[^ ]+ |\d{16}:)", b"", text)


def writer(walk: StagingWalk, name: str, target: StagingBase) -> Callable[[Actor], Life]:
    """A driver of query ``name`` with its tasks."""
    spec, draw = target._staging, walk.random

    def add(batch: int, rows: list[Row]) -> Operation[Staged]:
        """Run a task until an attempt of it succeeds; the others are left behind."""
        while True:
            staged = Staged(f"{next(walk.attempts)}-a")
            try:
                for first in range(0, len(rows), 5):
                    chunk = rows[first : first + 5]
                    if isinstance(target, DelayStaging):
                        ready = [target.row(f"k-{row.decode()} ", 5, row) for row, _ in chunk]
                        yield from operations.stage(spec, batch, staged, ready, ())
                        continue
                    is_queue = isinstance(target, Staging)
                    ready = [row for row, is_later in chunk if not (is_later and is_queue)]
                    later = [(DUE, row) for row, is_later in chunk if is_later and is_queue]
                    yield from operations.stage(spec, batch, staged, ready, later)
            except (*PASSING, StagingLost):
                continue
            if draw.random() < 0.9:
                return staged  # else it runs once more, as a speculative one does

    def commit(batch: int, tasks: list[Staged]) -> Operation[None]:
        """Commit as the clients do."""
        if isinstance(target, Staging):
            yield from record.record(walk.queue)
        yield from operations.commit(spec, batch, tasks, target._mover())

    def life(actor: Actor) -> Life:
        marker = yield from repeating(lambda: operations.committed(spec))
        batch = 0 if marker is None else max(0, marker + draw.choice([0, 1, 1, 1]))
        while True:
            tasks = []
            for rows in content(name, batch):
                tasks.append((yield from add(batch, rows)))
            if draw.random() < 0.15:
                yield from repeating(lambda: operations.abort(spec, batch))  # noqa: B023
            try:
                yield from repeating(lambda: commit(batch, tasks))  # noqa: B023
            except StagingLost:
                continue
            batch += 1

    return life


def expiry(walk: StagingWalk) -> Callable[[Actor], Life]:
    """Let staged rows expire."""

    def step(actor: Actor) -> Operation[None]:
        names = sorted(walk.client.scan_iter(f"{walk.name}*", 1000))
        names = [name for name in names if re.search(rb"(?i)stag(ed|ing):", name)]
        if names and walk.random.random() < 0.1:
            yield Request((b"EVAL", EXPIRE, 1, walk.random.choice(names)))
        for _ in range(4):
            yield Request((b"PING",), resend=True)

    return again_and_again(step)


def consumers_move(target: StagingBase) -> operations.Mover | None:
    """Return how a consumer that knows no settings of the writer moves rows."""
    keys = target._staging.keys
    if isinstance(target, TopicStaging):
        return partial(topic_staged.move, target._spec, keys, attempts=MOVE_ATTEMPTS)
    if isinstance(target, DelayStaging):
        return partial(delay_staged.move, delay_staged.spec_of(target._key, 3, SYSTEM), keys)
    return None  # a pop does it


def other(walk: StagingWalk) -> Callable[[Actor], Life]:
    """Who pops from the same queue, or publishes in the same topic, or finishes, or consumes."""

    def step(actor: Actor) -> Operation[None]:
        target, draw = walk.target, walk.random
        bodies = [b"other-%d" % next(walk.others) for _ in range(draw.randint(1, 4))]
        if draw.random() < 0.15:
            last = yield from operations.committed(target._staging)
            yield from operations.abort(target._staging, last or 0)
        elif draw.random() < 0.1:
            yield from operations.finish(target._staging, target._mover())
        elif draw.random() < 0.3 and (move := consumers_move(target)):
            yield from UnfinishedCommits(walk.name).move_in(move)
        elif isinstance(target, TopicStaging):
            yield from publish_many(target._spec, bodies, None)
        elif isinstance(target, DelayStaging):
            yield Request((b"PING",), resend=True)
        elif draw.random() < 0.3:
            yield Request((*walk.queue.push_command, *bodies))
        elif draw.random() < 0.1:
            assert (yield from inspection.audit(walk.queue, True)).findings == ()
        else:
            messages = yield from take.pop_many(walk.queue, 3, None, None, ())
            yield from settle.ack(walk.queue, messages)

    return again_and_again(step)


@pytest.mark.timeout(60 * SOAK + 60)
@pytest.mark.parametrize("kind", [Staging, TopicStaging, DelayStaging])
def test_a_batch_is_there_once_however_steps_follow_each_other(
    take_walks: Callable[..., None], monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    shorten(
        monkeypatch,
        {
            "held/give_back": {"back = 1000, delayed = 500": "back = 3, delayed = 2"},
            "staging/queue": {"CHUNK = 1000": "CHUNK = 3"},
            "staging/topic": {"MAX_IN_CALL = 1000": "MAX_IN_CALL = 3"},
        },
    )
    for name in ("MAX_LISTS", "MERGED_ROWS", "FIRST_ROWS", "CHUNK_ROWS", "DROPPED_LISTS"):
        monkeypatch.setattr(operations, name, 3)
    monkeypatch.setattr(topic_staged, "CHUNK_ROWS", 5)
    monkeypatch.setattr(delay_staged, "CHUNK_ROWS", 3)
    take_walks(3, partial(take_a_walk, kind))


def take_a_walk(kind: Any, client: Any, name: str, seed: int) -> None:
    end = {"pop_from": "left"} if kind is Staging and seed % 2 else {}
    with kind(client, name, "one", **end) as one, kind(client, name, "two", **end) as two:
        walk = StagingWalk(one, client, name, seed)
        lives = {
            "one": writer(walk, "one", one),
            "other": other(walk),
            "one, another": writer(walk, "one", one),
            "expiry": expiry(walk),
            "two": writer(walk, "two", two),
        }
        walk.run(lives, STEPS)
        while two.finish():
            pass
        assert not client.exists(one._staging.keys.held, one._staging.keys.heldrows)
        found = Counter(walk.arrived()) + walk.taken
        rows = Counter({row: found[row] for row in found if row[:5] != b"other"})
        assert rows == walk.committed()
        if kind is TopicStaging:
            assert_in_order(walk.arrived())
        for key in client.scan_iter(f"{name}*"):
            assert client.ttl(key) > 0 or not re.search(rb"(?i)stag(ed|ing):", key)
        client.delete(*client.scan_iter(f"{name}*"))


def assert_in_order(rows: list[bytes]) -> None:
    """Check that the rows of each task follow each other as they were staged."""
    last: dict[bytes, int] = {}
    for row in rows:
        if not row.startswith(b"other"):
            task, _, number = row.rpartition(b"/")
            assert last.get(task, -1) < int(number)
            last[task] = int(number)
