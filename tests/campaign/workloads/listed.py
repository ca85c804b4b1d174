"""The list queue."""

import random
from typing import Any

import ackq
from tests import products
from tests.histories.log import Log
from tests.products.product import value

from .rig import Rig

#: Share of pushes after which a producer of some workloads cancels messages or runs them now.
OPERATING = 0.2
#: Keys that exist only while they hold messages, or say something about them.
_TRANSIENT = ("", "BACKUP", "CONTEXT", "HANDOFF", "RECEIVES", "EXTENDED", "DELAYED")


#: Those of groups.
_OF_GROUPS = ("GROUPS:PARKED", "GROUPS:TURNS", "GROUPS:FLIGHT", "GROUPS:RUNS")


class ListRig(Rig, products.ListQueue):
    """`Queue` or `AsyncQueue`.

    Settings of a workload: ``unique``, of how many ids all messages are, each pushed as a unique
    one; ``near``, after how many messages a list is deep for producers that also cancel messages
    and run them now.
    """

    delayed = 0.1
    #: The states of messages that an operator chooses.
    operated: tuple[str, ...] = ("ready", "ready", "in_flight", "delayed")

    def _open(self) -> Any:
        make = ackq.AsyncQueue if self.workload.asynchronous else ackq.Queue
        return make(
            self._client(),
            self.site.name,
            visibility_timeout=self.lease,
            max_receives=self.settings.get("max_receives"),
        )

    async def operate(self, log: Log, draw: random.Random) -> None:
        if not self.settings.get("near") or draw.random() > OPERATING:
            return
        state = draw.choice(self.operated)
        seen = (await self.attempt(self._seen(state), draw, log)).result or []
        chosen = draw.sample(seen, min(len(seen), draw.choice((1, 1, 2, 5))))
        if not chosen:
            return
        verb = draw.choice(("cancel", "cancel", "run now"))
        ids = [str(each.id) for each in chosen]
        call = log.begin(verb, ids=ids)
        found = await self.attempt(self._choose(verb, chosen, draw.random() < 0.7), draw, log)
        state = found.state_of_chosen(len(ids))
        # An error may have come after the first of several requests.
        log.end(call, "unknown" if found.state == "fail" else state)

    async def _seen(self, state: str) -> list[Any]:
        seen: list[Any] = await value(self.queue.peek(100, state))
        return seen

    async def _choose(self, verb: str, chosen: list[Any], running: bool) -> int:
        ids = [each.id for each in chosen]
        if verb == "run now":
            count: int = await value(self.queue.run_now(ids=ids))
        else:
            count = await value(self.queue.cancel(ids=ids, running=running))
        return count

    async def left(self) -> dict[str, Any]:
        with self.site.client() as client:
            names = [self.site.name + each for each in (*_TRANSIENT, *_OF_GROUPS)]
            keys = [name for name in names if client.exists(name)]
        if self.settings.get("near"):
            # What tells the holder of a canceled message stays until another one is canceled.
            keys = [name for name in keys if not name.endswith("EXTENDED")]
        return {**(await super().left()), "keys": keys}


class GroupsRig(products.GroupedListQueue, ListRig):
    """`Queue` or `AsyncQueue` with groups, one message of a group at a time."""

    delayed = 0.05

    def _open(self) -> Any:
        return super()._open().with_config(**self.limits())
