"""The delay queue, plain and partitioned. Only its blocking clients run here."""

import random
from typing import Literal

from ackq.delay import DelayQueue, PartitionedDelayQueue
from tests import products
from tests.histories.log import Log

from .rig import OPERATING, Rig

PARTITIONS = 4


class DelayRig(Rig, products.DelayQueue):
    """`DelayQueue`. With ``operated``, producers also cancel messages and reschedule them."""

    def _open(self) -> DelayQueue:
        return DelayQueue(
            self.site.client(),
            self.site.name,
            visibility_timeout=self.lease,
            max_receives=self.settings.get("max_receives"),
        )

    async def operate(self, log: Log, draw: random.Random) -> None:
        if not self.settings.get("operated") or draw.random() > OPERATING:
            return
        states: tuple[Literal["ready", "delayed", "in_flight"], ...]
        states = ("ready", "delayed", "in_flight")
        state = draw.choice(states)
        seen = await self.look(log, draw, lambda: self.queue.peek(100, state))
        if not seen:
            return
        key, delay = draw.choice(seen).id, draw.choice((0.0, 0.3, 1.0))
        if draw.random() < 0.3:
            await self.order(log, draw, "delete", [key], lambda: self.queue.cancel(key))
        else:
            act = self.queue.reschedule
            await self.order(log, draw, "reschedule", [key], lambda: act(key, delay=delay), delay)


class PartitionedRig(Rig, products.PartitionedDelayQueue):
    """`PartitionedDelayQueue`: the threads of a process are one consumer."""

    def _open(self) -> PartitionedDelayQueue:
        return PartitionedDelayQueue(
            self.site.client(),
            self.site.name,
            PARTITIONS,
            visibility_timeout=self.lease,
            session_timeout=1.0,
        )
