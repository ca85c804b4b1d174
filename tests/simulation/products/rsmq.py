"""RSMQ. Its consumers cannot give messages back, but forget some."""

from typing import Any, ClassVar

import redis.asyncio

from ackq.rsmq import AsyncRSMQ
from tests import products

from .product import SimulatedProduct


class RSMQ(SimulatedProduct, products.RSMQ):
    """RSMQ."""

    delays: ClassVar[tuple[float, ...]] = (1.0,)
    verbs: ClassVar[dict[str, int]] = {"ack": 75, "forget": 25}
    chaos = 6.0
    delayed = 0.2

    def _open(self, client: redis.asyncio.Redis) -> Any:
        return AsyncRSMQ(client, "{rsmq}", max_receives=self.settings["max_receives"])
