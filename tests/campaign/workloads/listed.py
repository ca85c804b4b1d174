"""The list queue."""

import random
from collections.abc import Callable
from typing import Any

import ackq
from tests import products
from tests.histories.log import Log
from tests.products.bodies import group_of, id_of

from .rig import OPERATING, Rig

#: Keys that exist only while they hold messages, or say something about them.
_TRANSIENT = ("", "BACKUP", "CONTEXT", "HANDOFF", "RECEIVES", "EXTENDED", "DELAYED")


#: The keys of groups.
_OF_GROUPS = ("GROUPS:PARKED", "GROUPS:TURNS", "GROUPS:FLIGHT", "GROUPS:RUNS")


class ListRig(Rig, products.ListQueue):
    """`Queue` or `AsyncQueue`.

    Settings of a workload: ``unique``, of how many ids all messages are, each pushed as a unique
    one; ``near``, after how many messages a list is deep for producers that also cancel messages
    and run them now; ``group_stops``: dead letters stop their groups, and producers redrive or drop
    them, or let the groups go on.
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
        seen = await self.look(log, draw, lambda: self.queue.peek(100, state))
        chosen = draw.sample(seen, min(len(seen), draw.choice((1, 1, 2, 5))))
        if not chosen:
            return
        ids, running = [each.id for each in chosen], draw.random() < 0.7
        verb = draw.choice(("cancel", "cancel", "run now"))
        acts: dict[str, Callable[[], Any]] = {
            "run now": lambda: self.queue.run_now(ids=ids),
            "cancel": lambda: self.queue.cancel(ids=ids, running=running),
        }
        await self.order(log, draw, verb, [*map(str, ids)], acts[verb])

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

    async def operate(self, log: Log, draw: random.Random) -> None:
        if not self.settings.get("group_stops"):
            await super().operate(log, draw)
            return
        if draw.random() > OPERATING:
            return
        letters = await self.look(log, draw, lambda: self.queue.dead_letters(20))
        chosen = draw.sample(letters, min(len(letters), draw.choice((1, 2, 5))))
        if not chosen:
            return
        entries, ids = [each.entry for each in chosen], [id_of(each.body) for each in chosen]
        group = group_of(ids[0]) or ""
        verb = draw.choice(("redrive", "redrive", "drop", "resume"))
        acts: dict[str, Callable[[], Any]] = {
            "redrive": lambda: self.queue.redrive(entries=entries),
            "drop": lambda: self.queue.drop_dead_letters(*entries),
            "resume": lambda: self.queue.resume_group(group),
        }
        await self.order(log, draw, verb, [group] if verb == "resume" else ids, acts[verb])
