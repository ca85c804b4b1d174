"""RSMQ, whose deletes are not fenced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ackq.core.effects import Operation
from ackq.core.io.outside import SYSTEM
from ackq.rsmq import operations
from ackq.rsmq.values import RSMQSpec
from tests.campaign.workloads.loops import id_of

from .product import MAX_BLOCK, Got, Product, Settings

_QUEUE = "mail"
#: Seconds, which RSMQ counts whole.
_VT = 1


class RSMQ(Product):
    """RSMQ. It keeps the ends of leases in milliseconds."""

    lease = 0.999
    rounded = 0.001
    delays: ClassVar[tuple[float, ...]] = (1.0,)
    rules: ClassVar[dict[str, Any]] = {"fenced": False}
    verbs: ClassVar[dict[str, int]] = {"ack": 75, "forget": 25}
    chaos = 6.0
    delayed = 0.2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        most = settings["max_receives"] or 0
        self._spec = RSMQSpec("{rsmq}", max_receives=most, block_limit=MAX_BLOCK, outside=SYSTEM)

    def prepare(self) -> Operation[None]:
        yield from operations.create_queue(self._spec, _QUEUE, _VT, 0, -1)

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        bodies = [body for _, body in entries]
        later = int(delay) if delay else None
        if len(bodies) == 1:
            yield from operations.send_message(self._spec, _QUEUE, bodies[0], later)
        else:
            yield from operations.send_messages(self._spec, _QUEUE, bodies, later)
        return {}

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        found = yield from operations.receive_messages(self._spec, _QUEUE, n, None, timeout)
        return [Got(m.body, m.rc, None, m) for m in found], {}

    def settle(self, verb: str, handles: Sequence[Any], delay: float) -> Operation[int]:
        if verb == "ack":
            ids = [each.id for each in handles]
            return (yield from operations.delete_messages(self._spec, _QUEUE, ids))
        extended = 0
        for each in handles:
            extended += yield from operations.change_message_visibility(
                self._spec, _QUEUE, each.id, _VT
            )
        return extended

    def stored(self) -> Operation[int]:
        return (yield from operations.attributes(self._spec, _QUEUE)).msgs

    def left(self) -> Operation[dict[str, Any]]:
        dead = yield from operations.dead_letters(self._spec, _QUEUE, 10_000, None)
        return {"dead": [[id_of(each.body), each.rc] for each in dead], "findings": []}
