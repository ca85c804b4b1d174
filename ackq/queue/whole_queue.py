# Written by tools/blocking.py: edit whole_queue_async.py instead, then run make clients.
"""`WholeQueue`: what works alike on a list queue and on a sharded queue, blocking."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from ackq.config import OnDead, RateLimit, Seconds
from ackq.core.effects import Operation
from ackq.core.inspection_results import Found
from ackq.core.search_terms import WITHIN, OnProgress
from ackq.queue import (
    chosen_messages,
    group_limits,
    group_stats,
    inspection,
    places,
    stopped_groups,
)
from ackq.queue.group_limits import Keep
from ackq.queue.messages import GroupStats, QueueCounters, QueueStats
from ackq.queue.spec import QueueSpec

P = ParamSpec("P")
T = TypeVar("T")


class WholeQueue:
    """Inspects and changes a whole queue. A sharded queue does so on all of its shards."""

    def execute(
        self,
        operation: Callable[Concatenate[QueueSpec, P], Operation[T]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> T:
        """Run an operation on the keys of the queue as a whole."""
        raise NotImplementedError

    def _on_all(
        self,
        combined: Callable[[Sequence[T]], T],
        operation: Callable[Concatenate[QueueSpec, P], Operation[T]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> T:
        """Run an operation on all shards at once, and return the combined results."""
        return self.execute(operation, *args, **settings)

    def _on_each(
        self,
        operation: Callable[Concatenate[QueueSpec, P], Operation[int]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> int:
        """Run an operation on one shard after the other, and return the sum of the results."""
        return self.execute(operation, *args, **settings)

    def stats(self) -> QueueStats:
        """Count the messages by state.

        Cost: one round trip, O(log n). Shards are not counted at one instant: one round trip per
        node.
        """
        return self._on_all(inspection.total, inspection.stats)

    def oldest_ready(self) -> float | None:
        """Return for how many seconds the oldest ready message has been ready; 0 if none is.

        A message on the list is taken to be ready since it was created, see `Message.created_at`;
        a delayed one since it was due, a redelivered one since its lease ended. Of the list, only
        the message that is taken next is read.

        None if that message has no time, or is longer than 64 KiB: a plain LPUSH records none. Of
        a sharded queue, None if one shard's is unknown. Cost: as of `stats`.
        """
        return self._on_all(inspection.oldest, inspection.oldest_ready)

    def groups(
        self,
        n: int = 20,
        *,
        within: int = 100_000,
        by: group_stats.Order = "waiting",
        containing: str = "",
    ) -> list[GroupStats]:
        """Return the groups with the most ready messages that were moved aside, the largest first.

        Groups that a dead letter stops come first, then paused ones. Consumers move a message aside
        when they find its group busy. Before that it is on the list, where messages are not counted
        by group. Cost: a round trip for about 100 groups; on each shard.

        Args:
            n: how many groups, 1 to 10000. Defaults to 20.
            within: look at this many groups at most, on each shard. Defaults to 100000.
            by: "waiting", or "oldest": the groups whose first message has waited longest come
                first. Defaults to "waiting".
            containing: only groups whose names contain this text. Defaults to all.

        Raises:
            ConfigurationError: an argument is out of range.
        """

        def joined(parts: Sequence[list[GroupStats]]) -> list[GroupStats]:
            return group_stats.ranked(itertools.chain(*parts), n, by)

        return self._on_all(joined, group_stats.first, n, within, by, containing)

    def set_groups(
        self,
        *,
        in_flight: int | Keep = "keep",
        rate: RateLimit | Keep | None = "keep",
        on_dead: OnDead | Keep = "keep",
        max_in_flight: int | Keep | None = "keep",
    ) -> None:
        """Change the limits of all groups, or of the queue, while consumers work.

        Guarantee: no lease ends and no count is lost. All consumers use the new limits at their
        next pop, whatever they were given, and so do those that start later: from now on, the
        record decides. Messages that are in flight stay so; a lower limit holds for what is
        delivered from now on. Of a sharded queue, the shards change one by one: repeat an
        interrupted call. Cost: three round trips, and with ``in_flight`` one per 100 groups that
        have messages moved aside; on each shard.

        Args:
            in_flight: as in `Groups`. Defaults to "keep", no change; so do the others.
            rate: as in `Groups`; None: no rate.
            on_dead: as in `Groups`. With "continue", all stopped groups go on, and their dead
                letters stay.
            max_in_flight: as in `Queue`; None: no limit.

        Raises:
            ConfigurationError: a setting is out of range; the queue has no groups, and only
                ``max_in_flight`` can be changed; a sharded queue is resized now; or ``on_dead``
                is to become "stop" while messages are in flight.
            GroupsMismatch: the groups of this client have another field.
        """
        limits = {"in_flight": in_flight, "rate": rate, "on_dead": on_dead}
        self._change_limits({**limits, "max_in_flight": max_in_flight})

    def _change_limits(self, changes: Mapping[str, Any]) -> None:
        self._on_all(_nothing, group_limits.change, changes)

    def pause_group(self, group: str | int, for_: Seconds | None = None) -> None:
        """Deliver no messages of a group for some time, or until `resume_group`.

        Messages in flight can be settled. A redelivered message of the group waits, too, and may
        come up to 5 seconds after the end of the pause. A pause that ends later stays: to shorten
        it, end it first. Cost: two round trips; on each shard.

        Args:
            group: its name, or as `GroupStats.name` shows it.
            for_: seconds, up to 1e9. Defaults to None, until `resume_group`.

        Raises:
            ConfigurationError: the queue has no groups, or an argument is out of range.
        """
        self._on_all(_nothing, group_limits.pause, group, for_)

    def limit_group(
        self, group: str | int, *, in_flight: int | None = None, rate: RateLimit | None = None
    ) -> None:
        """Give a group limits of its own, in place of its former ones.

        They last until they are replaced, even while the group has no messages; of a sharded queue,
        until it is resized. Cost: two round trips; on each shard.

        Args:
            group: as in `pause_group`.
            in_flight: as in `Groups`. Defaults to None, as the other groups.
            rate: as in `Groups`. Defaults to None, as the other groups.

        Raises:
            ConfigurationError: the queue has no groups, or an argument is out of range.
        """
        self._on_all(_nothing, group_limits.limit, group, in_flight, rate)

    def cancel_group(self, group: str | int) -> int:
        """Move the messages of a group that are ready or delayed to the dead letters.

        Returns how many. As with `cancel`, the reason is "canceled", and `redrive` makes them ready
        again. Messages in flight are left alone. Those on the list are canceled by their ids: one
        without an id stays, and one of another group with the same id is canceled, too. Messages
        that are pushed meanwhile may stay. Cost: as of `search` through the whole queue, and one
        round trip per 100 messages or 1 MiB that are canceled.

        Args:
            group: as in `pause_group`.

        Raises:
            ConfigurationError: the queue has no groups, or no group can have this name.
            UnknownOutcome: a reply was lost, so some may be canceled. Repeat the call.
        """
        return self._on_each(group_limits.cancel, group)

    def resume_group(self, group: str | int) -> int:
        """Let a group go on; return how many dead letters stopped it, plus 1 if it was paused.

        For `pause_group`, and for queues whose dead letters stop their groups; see `Groups`. The
        dead letters stay. If one is redriven later, its message comes behind those of its group
        that are there then. To have it in its place, use `redrive` instead.

        Args:
            group: as in `pause_group`.

        Raises:
            ConfigurationError: the queue has no groups, or no group can have this name.
            UnknownOutcome: the reply was lost, so the group may or may not go on. Repeat the call.
        """
        return self._on_all(max, stopped_groups.resume, group)

    def counters(self, window: Seconds = 10.0) -> QueueCounters:
        """Return what happened to messages since counting began, and keep counting.

        The first call starts the counts at 0. Everything is counted as long as each call follows
        within the window of an earlier one. After that, counting stops and the counts are
        deleted. Queues that nobody watches pay nothing. All watchers share the same counts, and a
        worker watches its queues. Counting restarts when a queue is resized, since its new shards
        have just begun to count. Cost: one round trip per node.

        Args:
            window: seconds that counting continues after this call, 0.001 to 604800. If an
                earlier call allows for longer, that holds. Defaults to 10.
        """
        return self._on_all(inspection.counted, inspection.counters, window)

    def find(self, message_id: str | int, *, within: int | None = WITHIN) -> Found | None:
        """Return where the message with this id is, or None.

        If several messages have the id, this returns the one that is found first; `find_all`
        returns them all. A message that was acked is gone, so it is not found. Nothing is changed.

        Cost: one or two round trips if it is leased or delayed, else one per 2,000 messages or 1
        MiB of bodies that are looked through; on each shard. A bare ``BRPOP`` or a consumer may
        take a message from the list after it was found.

        Args:
            message_id: as in the body.
            within: how many messages of each place to look through: the next ones of the ready
                list, the newest dead letters; of each shard. None: all. Defaults to 20000.

        Raises:
            ConfigurationError: no message can have this id, or ``within`` is out of range.
        """
        return self._on_all(places.nearest, places.find, message_id, within)

    def find_all(
        self,
        message_id: str | int,
        *,
        within: int | None = WITHIN,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """Return where all messages with this id are, shard by shard; see `find`.

        Cost: at least one round trip for each place, and one per 2,000 messages or 1 MiB.

        Args:
            message_id: as in `find`.
            within: as in `find`.
            on_progress: as in `search`.

        Raises:
            ConfigurationError: as in `find`.
        """
        looked_for = message_id, within, on_progress
        return self._on_all(places.joined, places.find_all, *looked_for)

    def run_now(self, *entries: str, ids: Iterable[str | int] = ()) -> int:
        """Make messages the next ones to be delivered, and return how many.

        Receive counts and recorded errors stay. Consumers that wait notice within a second.
        Messages that are in flight or dead are left alone. Delayed messages become ready in the
        given order, before ready ones, which keep their order within each 1,000 ids. If
        several messages have an id, all of them become the next ones, each on its shard. Cost: one
        round trip per 500, and with ``ids`` one per 2,000 ready messages or 1 MiB of them, and one
        per 100 delayed messages or messages in flight; on each shard.

        Args:
            entries: delayed messages, by the `PeekedMessage.entry` that `peek` returned. One that
                was delayed again since then is left alone.
            ids: also the delayed and ready messages with these ids. A ready one with more than
                50,000 messages before and behind it stays where it is. In a queue with groups,
                only delayed ones, since ready messages keep their order.

        Raises:
            ConfigurationError: that is not an entry, or not an id; or the queue has groups, and
                a message with this id is ready.
            UnknownOutcome: the reply was lost, so up to 500 messages may or may not be ready.
        """
        return self._on_each(chosen_messages.run_now, entries, list(ids))

    def cancel(self, *entries: str, ids: Iterable[str | int] = (), running: bool = False) -> int:
        """Move messages to the dead letters, and return how many.

        They are no longer delivered, but not lost: the reason is "canceled", and `redrive` makes
        them ready again. To delete them for good, use `drop_dead_letters`. A ready message with
        more than 50,000 messages before and behind it is noted instead, and becomes a dead letter
        when its turn comes; see the guide "Cancel messages". Cost: one round trip per 100 messages
        or 1 MiB, and with ``ids`` as in `run_now`.

        Args:
            entries: delayed messages, as in `run_now`.
            ids: also the ready and delayed messages with these ids. Bodies over 64 KiB are found if
                their id is in front, as in those that ackq encodes.
            running: also those with these ``ids`` that are in flight. Their consumers can no longer
                settle them. A worker notices when it renews the lease, at most a third of the
                visibility timeout later: it sets ``message.canceled`` and cancels an asynchronous
                handler. Defaults to False: a message that a consumer has taken is left alone.

        Raises:
            ConfigurationError: as in `run_now`.
            UnknownOutcome: the reply was lost, so up to 100 messages may or may not be canceled.
                Repeat the call.
        """
        return self._on_each(chosen_messages.cancel, entries, list(ids), running)

    def purge(self, *, dead: bool = False) -> int:
        """Delete all messages for good, also those in flight, and return how many.

        The markers of ``dedup`` stay until their windows end. Until then, a push with the same
        key still stores nothing.

        Args:
            dead: also delete the dead letters. Defaults to False.
        """
        return self._on_each(inspection.purge, dead)

    def pause(self) -> None:
        """Stop all deliveries until `resume`. Pushing and settling still work."""
        self._on_all(_nothing, inspection.pause)

    def resume(self) -> None:
        """End a `pause`. Waiting consumers notice within half a second."""
        self._on_all(_nothing, inspection.resume)


def _nothing(results: Sequence[None]) -> None:
    """Return nothing: the operations return nothing."""
