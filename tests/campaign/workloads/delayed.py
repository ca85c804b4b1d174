"""The delay queue, plain and partitioned. Only its blocking clients run here."""

from ackq.delay import DelayQueue, PartitionedDelayQueue
from tests import products

from .rig import Rig

PARTITIONS = 4


class DelayRig(Rig, products.DelayQueue):
    """`DelayQueue`."""

    def _open(self) -> DelayQueue:
        return DelayQueue(
            self.site.client(),
            self.site.name,
            visibility_timeout=self.lease,
            max_receives=self.settings.get("max_receives"),
        )


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
