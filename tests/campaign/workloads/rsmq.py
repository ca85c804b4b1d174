"""RSMQ."""

from ackq.rsmq import RSMQ, AsyncRSMQ
from tests import products

from .rig import Rig


class RSMQRig(Rig, products.RSMQ):
    """`RSMQ` or `AsyncRSMQ`."""

    def _open(self) -> RSMQ | AsyncRSMQ:
        make = AsyncRSMQ if self.workload.asynchronous else RSMQ
        return make(self._client(), self.site.name)
