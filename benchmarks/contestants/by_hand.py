"""Groups as people write them by hand on Redis: a list a group, a ring of names, a lock a group."""

from collections.abc import Iterable, Sequence

import orjson
import redis

from ackq.bench.contestants import LONG, Contestant
from ackq.bench.messages import Body, Messages

#: The field that names the group of a message.
FIELD = "customer"


class ByHand(Contestant):
    """One consumer of a group at a time, without a script.

    A batch takes three round trips: the next names of the ring; their locks; the oldest messages
    of each list whose lock was free. The messages stay in their lists until the ack, which travels
    with the next names. A consumer that dies keeps its names out of the ring: something must watch
    for expired locks, which is left out here, as are leases that can be extended and checked.
    """

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        self._names: set[str] = set()
        #: The groups whose messages are taken, with how many.
        self._taken: list[tuple[str, int]] = []
        super().__init__(url, key, messages, batch)

    def side_keys(self) -> Iterable[str]:
        for name in self._names:
            yield from (self._list(name), self._lock(name))

    def hold(self, messages: Messages, count: int) -> bool:
        self._push(messages.many(count))
        while count > 0:
            count -= self._take(count)
            self._taken = []
        return True

    def cycle(self) -> int:
        self._push(self.messages.many(self.batch))
        missing = self.batch
        while missing:
            missing -= self._take(missing)
        return self.batch

    def _list(self, name: str) -> str:
        return f"{self.key}:{name}"

    def _lock(self, name: str) -> str:
        return f"{self.key}:{name}:lock"

    def _push(self, messages: Sequence[Body]) -> None:
        lists: dict[str, list[bytes]] = {}
        for message in messages:
            lists.setdefault(message[FIELD], []).append(orjson.dumps(message))
        self._names.update(lists)
        with self._pipeline() as pipeline:
            for name, bodies in lists.items():
                pipeline.lpush(self._list(name), *bodies)
            lengths = pipeline.execute()
        # A list that was empty is not in the ring. The others are, or return to it with their acks.
        new = [
            name for name, length in zip(lists, lengths, strict=True) if length == len(lists[name])
        ]
        if new:
            self.client.lpush(self.key, *new)

    def _take(self, count: int) -> int:
        with self._pipeline() as pipeline:
            for name, number in self._taken:
                pipeline.rpop(self._list(name), number)
                pipeline.delete(self._lock(name))
                pipeline.llen(self._list(name))
            pipeline.rpop(self.key, count)
            *settled, popped = pipeline.execute()
        left = [
            name for (name, _), length in zip(self._taken, settled[2::3], strict=True) if length
        ]
        names = [name.decode() for name in popped or ()]
        names += left[: count - len(names)]
        with self._pipeline() as pipeline:
            for name in names:
                pipeline.set(self._lock(name), "1", nx=True, px=int(LONG * 1000))
            locked = pipeline.execute()
        free = [name for name, got in zip(names, locked, strict=True) if got]
        back = [name for name in (*names, *left) if name not in free]
        each = max(1, count // max(1, len(free)))
        with self._pipeline() as pipeline:
            for name in free:
                pipeline.lrange(self._list(name), -each, -1)
            if back:
                pipeline.lpush(self.key, *dict.fromkeys(back))
            found = pipeline.execute()[: len(free)]
        self._taken = [(name, len(bodies)) for name, bodies in zip(free, found, strict=True)]
        return sum(number for _, number in self._taken)

    def _pipeline(self) -> redis.client.Pipeline:
        return self.client.pipeline(transaction=False)
