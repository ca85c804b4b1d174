"""RSMQ, whose deletes are not fenced."""

import contextlib
from collections.abc import Sequence
from typing import Any, ClassVar

from ackq.errors import QueueExists

from .bodies import id_of
from .listed import ALL
from .product import Entries, Got, Noted, Product, Taken, value

_QUEUE = "mail"
#: Seconds, which RSMQ counts whole.
_VT = 1


class RSMQ(Product):
    """`RSMQ` or `AsyncRSMQ`. A lease is whole seconds, and ends in whole milliseconds."""

    lease = 0.999
    rounded = 0.001
    rules: ClassVar[dict[str, Any]] = {"fenced": False}
    verbs: ClassVar[dict[str, int]] = {"ack": 100}

    async def prepare(self) -> None:
        with contextlib.suppress(QueueExists):
            await value(self.queue.create_queue(_QUEUE, vt=_VT))

    async def push(self, entries: Entries, delay: float, is_once: bool) -> Noted:
        bodies, later = [body for _, body in entries], int(delay) or None
        if len(bodies) > 1 or not is_once:
            await value(self.queue.send_messages(_QUEUE, bodies, later))
        else:
            await value(self.queue.send_message(_QUEUE, bodies[0], later))
        return {}

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        found = await value(self.queue.receive_messages(_QUEUE, n, timeout=timeout))
        return [Got(m.body, m.rc, None, m) for m in found], {}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        ids = [handle.id for handle in handles]
        if verb == "ack":
            deleted: int = await value(self.queue.delete_messages(_QUEUE, ids))
            return deleted
        change = self.queue.change_message_visibility
        return sum([await value(change(_QUEUE, message_id, _VT)) for message_id in ids])

    async def stored(self) -> int:
        stored: int = (await value(self.queue.get_queue_attributes(_QUEUE))).msgs
        return stored

    async def left(self) -> dict[str, Any]:
        dead = await value(self.queue.dead_letters(_QUEUE, ALL))
        letters = [[id_of(each.body), each.rc] for each in dead]
        return {**(await super().left()), "dead": letters}
