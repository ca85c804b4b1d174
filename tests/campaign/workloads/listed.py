"""The list queue."""

from typing import Any

import ackq
from tests import products

from .rig import Rig

#: Keys that exist only while they hold messages, or say something about them.
_TRANSIENT = ("", "BACKUP", "CONTEXT", "HANDOFF", "RECEIVES", "EXTENDED", "DELAYED")


#: Those of groups.
_OF_GROUPS = ("GROUPS:PARKED", "GROUPS:TURNS", "GROUPS:FLIGHT", "GROUPS:RUNS")


class ListRig(Rig, products.ListQueue):
    """`Queue` or `AsyncQueue`."""

    delayed = 0.1

    def _open(self) -> Any:
        make = ackq.AsyncQueue if self.workload.asynchronous else ackq.Queue
        return make(
            self._client(),
            self.site.name,
            visibility_timeout=self.lease,
            max_receives=self.settings.get("max_receives"),
        )

    async def left(self) -> dict[str, Any]:
        with self.site.client() as client:
            names = [self.site.name + each for each in (*_TRANSIENT, *_OF_GROUPS)]
            keys = [name for name in names if client.exists(name)]
        return {**(await super().left()), "keys": keys}


class GroupsRig(products.GroupedListQueue, ListRig):
    """`Queue` or `AsyncQueue` with groups, one message of a group at a time."""

    delayed = 0.05

    def _open(self) -> Any:
        return super()._open().with_config(groups=ackq.Groups("of"))
