"""Rows that become visible with a commit, for each product that takes them."""

import random

from ackq.core.call import call
from ackq.delay import staged_rows as delay_staged
from ackq.queue import held_lists
from ackq.staging.keys import StagingKeys, has_settings
from ackq.staging.operations import Mover, StagingSpec, committed_lists
from ackq.topic import staged_rows as topic_staged
from tests.products.product import Entries, Settings
from tests.simulation.steps import Steps

from .delayed import DelayQueue, PartitionedDelayQueue
from .listed import ListQueue
from .product import NAME, Rows, SimulatedProduct
from .topics import Topic


async def _unfinished(spec: StagingSpec) -> int:
    """Return how many committed lists have not arrived, which no count of messages has."""
    names: list[bytes] = await Steps(call(spec, committed_lists(spec.keys)))
    return sum(map(has_settings, names))


class StagedListQueue(ListQueue):
    """The list queue, filled by commits."""

    is_staged = True

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {**SimulatedProduct.draw_settings(draw), "pop_from": "right"}

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        keys = StagingKeys.of_queue(NAME)
        spec = StagingSpec(f"queue {NAME!r}", keys, writer)
        return spec, lambda name: held_lists.into_queue(self.queue._spec, name)

    def rows(self, entries: Entries, due: int | None) -> Rows:
        bodies = [body for _, body in entries]
        return (bodies, []) if due is None else ([], [(due, body) for body in bodies])


class StagedDelayQueue(DelayQueue):
    """The delay queue, filled by commits."""

    is_staged = True

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        keys = StagingKeys.of_topic(NAME, delay_staged.settings_suffix(self.queue._spec))
        spec = StagingSpec(f"delay queue {NAME!r}", keys, writer)
        return spec, lambda name: delay_staged.move(self.queue._spec, keys, name)

    def rows(self, entries: Entries, due: int | None) -> Rows:
        return [
            delay_staged.row(self.queue._spec, key, due or 0, body) for key, body in entries
        ], []

    async def stored(self) -> int:
        return await super().stored() + await _unfinished(self.staging("any")[0])


class StagedPartitions(StagedDelayQueue, PartitionedDelayQueue):
    """The partitioned delay queue, filled by commits."""


class StagedTopic(Topic):
    """The topic, filled by commits."""

    is_staged = True

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        keys = StagingKeys.of_topic(NAME, topic_staged.settings_suffix(self.queue._spec.config))
        spec = StagingSpec(f"topic {NAME!r}", keys, writer)
        return spec, lambda name: topic_staged.move(self.queue._spec, keys, name)

    def rows(self, entries: Entries, due: int | None) -> Rows:
        return [body for _, body in entries], []

    async def stored(self) -> int:
        return await super().stored() + await _unfinished(self.staging("any")[0])
