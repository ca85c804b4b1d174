"""The products, as simulated processes use them."""

from .claimed import ClaimedListQueue
from .delayed import DelayQueue, PartitionedDelayQueue
from .listed import EqualIds, GroupedListQueue, ListQueue
from .product import Order, SimulatedProduct
from .rsmq import RSMQ
from .sharded import GroupedShardedQueue, ShardedQueue
from .staged import StagedDelayQueue, StagedListQueue, StagedPartitions, StagedTopic
from .topics import Topic

__all__ = ["PRODUCTS", "Order", "SimulatedProduct"]

#: A history's seed chooses one, by its remainder.
PRODUCTS: tuple[type[SimulatedProduct], ...] = (
    ListQueue,
    DelayQueue,
    Topic,
    PartitionedDelayQueue,
    RSMQ,
    ShardedQueue,
    ListQueue,
    StagedListQueue,
    StagedDelayQueue,
    StagedTopic,
    StagedPartitions,
    ClaimedListQueue,
    EqualIds,
    GroupedListQueue,
    GroupedShardedQueue,
)
