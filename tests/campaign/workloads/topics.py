"""The topic."""

from ackq.topic import AsyncTopic, Topic
from tests import products

from .rig import Rig


class TopicRig(Rig, products.Topic):
    """`Topic` or `AsyncTopic`."""

    def _open(self) -> Topic | AsyncTopic:
        make = AsyncTopic if self.workload.asynchronous else Topic
        return make(self._client(), self.site.name, visibility_timeout=self.lease)
