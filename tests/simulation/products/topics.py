"""The topic."""

import random
from typing import Any, ClassVar

import redis.asyncio

from ackq.topic import AsyncTopic
from tests import products
from tests.products.product import Settings

from .product import NAME, SimulatedProduct


class Topic(SimulatedProduct, products.Topic):
    """The topic."""

    verbs: ClassVar[dict[str, int]] = {"ack": 60, "release": 15, "fused": 25}
    #: Without receive counts, only the ends of leases show the order of deliveries.
    sets_clock = False

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {"salt": draw.randrange(1 << 30)}

    def _open(self, client: redis.asyncio.Redis) -> Any:
        return AsyncTopic(client, NAME, visibility_timeout=self.lease)
