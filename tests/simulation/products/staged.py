"""Rows that become visible with a commit, for each product that takes them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ackq.core.call import call
from ackq.core.effects import Operation
from ackq.delay import staged_rows as delay_staged
from ackq.queue import held_lists
from ackq.staging.keys import StagingKeys, has_settings
from ackq.staging.operations import Delayed, Mover, StagingSpec, committed_lists
from ackq.topic import staged_rows as topic_staged

from .delayed import DelayQueue, PartitionedDelayQueue
from .listed import ListQueue
from .product import NAME, Product, Settings
from .topics import Topic


def _unfinished(spec: StagingSpec) -> Operation[int]:
    """Return how many committed lists have not arrived, which no count of messages has."""
    names: list[bytes] = yield from call(spec, committed_lists(spec.keys))
    return sum(map(has_settings, names))


class StagedListQueue(ListQueue):
    """The list queue, filled by commits."""

    is_staged = True

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        return {**Product.draw_settings(draw), "pop_from": "right"}

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        keys = StagingKeys.of_queue(NAME, self._spec.keys.held)
        spec = StagingSpec(f"queue {NAME!r}", keys, writer)
        return spec, lambda name: held_lists.into_queue(self._spec, name)

    def rows(
        self, entries: Sequence[tuple[str, bytes]], due: int | None
    ) -> tuple[list[bytes], list[Delayed]]:
        bodies = [body for _, body in entries]
        return (bodies, []) if due is None else ([], [(due, body) for body in bodies])


class StagedDelayQueue(DelayQueue):
    """The delay queue, filled by commits."""

    is_staged = True

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        keys = StagingKeys.of_topic(NAME, delay_staged.settings_suffix(self._spec))
        spec = StagingSpec(f"delay queue {NAME!r}", keys, writer)
        return spec, lambda name: delay_staged.move(self._spec, keys, name)

    def rows(
        self, entries: Sequence[tuple[str, bytes]], due: int | None
    ) -> tuple[list[bytes], list[Delayed]]:
        return [delay_staged.row(self._spec, key, due or 0, body) for key, body in entries], []

    def stored(self) -> Operation[int]:
        return (yield from super().stored()) + (yield from _unfinished(self.staging("any")[0]))


class StagedPartitions(StagedDelayQueue, PartitionedDelayQueue):
    """The partitioned delay queue, filled by commits."""


class StagedTopic(Topic):
    """The topic, filled by commits."""

    is_staged = True

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        keys = StagingKeys.of_topic(NAME, topic_staged.settings_suffix(self._spec.config))
        spec = StagingSpec(f"topic {NAME!r}", keys, writer)
        return spec, lambda name: topic_staged.move(self._spec, keys, name)

    def rows(
        self, entries: Sequence[tuple[str, bytes]], due: int | None
    ) -> tuple[list[bytes], list[Delayed]]:
        return [body for _, body in entries], []

    def stored(self) -> Operation[int]:
        return (yield from super().stored()) + (yield from _unfinished(self.staging("any")[0]))
