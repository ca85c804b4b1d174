"""The topic, with consumer ids that several readers share."""

from collections.abc import Sequence
from typing import Any, ClassVar

from .product import Entries, Got, Noted, Product, Taken, value

READERS = ("one", "other")


class Topic(Product):
    """`Topic` or `AsyncTopic`, at least once.

    A batch is settled whole, so its messages share a handle.
    """

    rules: ClassVar[dict[str, Any]] = {"readers": READERS}
    verbs: ClassVar[dict[str, int]] = {"ack": 90, "release": 10}

    _turn = 0

    async def prepare(self) -> None:
        for reader in READERS:
            await value(self.queue.subscribe(reader))

    async def push(self, entries: Entries, delay: float, is_once: bool) -> Noted:
        bodies, confirm = [body for _, body in entries], self.settings.get("confirm")
        if len(bodies) > 1 or not is_once:
            return {"index": (await value(self.queue.publish_many(bodies, confirm=confirm)))[0]}
        published = self.queue.publish(bodies[0], dedup=entries[0][0], confirm=confirm)
        return {"index": await value(published)}

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        self._turn += 1
        reader = READERS[self._turn % 2]
        done = list(dict.fromkeys(done))
        batch = await value(self.queue.consume(reader, n, timeout, commit=done))
        got = [Got(each.body, None, batch.lease_expires_at, batch) for each in batch]
        return got, {"reader": reader, "index": batch.first}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        act = getattr(self.queue, "commit" if verb == "ack" else verb)
        return len(handles) * int(await value(act(handles[0])))

    async def stored(self) -> int:
        lags: list[int] = [await value(self.queue.lag(reader)) for reader in READERS]
        return max(lags)
