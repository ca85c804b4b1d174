# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""`ShardedQueue`: a list queue over several Redis nodes, blocking."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, overload

import redis

from ackq.config import Confirm, Groups, PopFrom, QueueConfig, RecordErrors, Seconds
from ackq.core import observation
from ackq.core.client import Closable, client_of
from ackq.core.effects import Operation
from ackq.core.encode import Pushable, several
from ackq.core.inspection_results import DeadLetter, Found
from ackq.core.io.outside import SYSTEM
from ackq.core.search_terms import WITHIN, OnProgress
from ackq.core.waits import check_timeout
from ackq.errors import (
    EXPECTED,
    ConfigurationError,
    GroupsMismatch,
    KeyTypeError,
    LeaseLost,
)
from ackq.membership.client import ConsumerGroup
from ackq.membership.operations import MAX_PARTITIONS
from ackq.membership.shards import NEWEST, Shards, check_shards, is_shard, shard_names, whole
from ackq.queue import group_limits, inspection, stages, take
from ackq.queue import unique as uniqueness
from ackq.queue.client import Queue
from ackq.queue.dedup import DedupKeys, keys_of
from ackq.queue.group_names import group_to_push, grouped
from ackq.queue.keys import Stage
from ackq.queue.messages import Message, Pushed, Redriven
from ackq.queue.push import account, check_groups
from ackq.queue.push_options import PushOptions
from ackq.queue.spec import QueueSpec
from ackq.queue.unique import Uniqueness
from ackq.queue.whole_queue import WholeQueue
from ackq.sharded import operations, resize
from ackq.sharded.shards import ShardSet, run

#: Seconds after which the record is read again, and after a read failed.
READ_INTERVAL, READ_AGAIN_LATER = 1.0, 10.0
#: Tries of a take that does not wait: other consumers may be faster after the first look.
TRIES = 3
#: Seconds after it is known that a queue with groups is resized in which refused calls are made
#: again.
PATIENCE = 10.0
P = ParamSpec("P")
T = TypeVar("T")


class ShardedQueue(WholeQueue, Closable):
    """Several list queues, the shards, as one, for loads that outgrow a single node.

    Guarantee: each message lives on one shard, with all guarantees of `Queue`. While the set of
    consumers does not change, each shard has one owner, and the numbers of shards of any two
    consumers differ by one at most. An owner waits for the messages of its shards; a consumer
    that finds its own shards empty takes from those of others. The first `pop` joins; `close`
    leaves. A receipt fences each message, so a change of owners loses no message and delivers
    none twice.

    There is no order between shards. Two consumers may work on messages of one key at once.
    Safe to share between threads, which are then one consumer, and after a fork.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        shards: int | None = None,
        *,
        visibility_timeout: Seconds = 30.0,
        max_receives: int | None = None,
        requeue: Literal["front", "back"] = "front",
        max_body_bytes: int = 1024 * 1024,
        session_timeout: Seconds = 10.0,
        pop_from: PopFrom = "right",
        record_errors: RecordErrors = "text",
        time_field: str | None = None,
        groups: Groups | None = None,
        max_in_flight: int | None = None,
    ) -> None:
        """Set up the client. Nothing is sent before the first operation.

        Args:
            client: any redis-py client, as in `Queue`. In a cluster, the shards are spread evenly
                over all slots.
            name: text without braces.
            shards: how many, 1 to 1024. The first client that gives the number creates the queue;
                it is recorded in ``{name}:shards``. Defaults to None: as recorded.
            visibility_timeout: as in `Queue`.
            max_receives: as in `Queue`.
            requeue: as in `Queue`.
            max_body_bytes: as in `Queue`.
            session_timeout: seconds of silence after which other consumers take over a
                consumer's shards. Defaults to 10.
            pop_from: as in `Queue`, for all shards. Defaults to "right".
            record_errors: as in `Queue`. Defaults to "text".
            time_field: as in `Queue`. Defaults to None.
            groups: as in `Queue`. A message's group decides its shard. So producers need them too:
                a client with other groups than those recorded gets `GroupsMismatch`. Defaults to
                None, no groups.
            max_in_flight: None. No server counts the messages of all shards.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range, or ``max_in_flight`` is given.
        """
        if max_in_flight is not None:
            raise ConfigurationError(
                "a sharded queue has no max_in_flight: no server counts the messages of all shards."
                " Use a Queue"
            )
        check_shards(name, shards)
        self.name = name
        self._given = shards
        self._client = client
        self._session_timeout = session_timeout
        # For what concerns the whole queue. It lends its settings and connections to the shards.
        self._home = Queue(
            client,
            whole(name),
            visibility_timeout=visibility_timeout,
            max_receives=max_receives,
            requeue=requeue,
            max_body_bytes=max_body_bytes,
            pop_from=pop_from,
            record_errors=record_errors,
            time_field=time_field,
            groups=groups,
        )
        self._members_of(Shards(NEWEST, shards or 1))  # checks the settings
        self._queues: dict[tuple[str, Stage], Queue] = {}
        #: The stages of shards that are not open.
        self._stages: dict[str, Stage] = {}
        self._patient_until = 0.0
        self._shards: ShardSet | None = None
        self._former: list[ShardSet] = []
        self._next_read = 0.0
        self._lock = Lock()
        self._turns = itertools.count(random.randrange(MAX_PARTITIONS))

    @classmethod
    def from_url(
        cls, url: str | None, name: str, shards: int | None = None, **settings: Any
    ) -> Self:
        """Return queue ``name`` on the server at ``url``, with the settings of the class.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: text without braces.
            shards: how many. Defaults to None: as recorded.
            settings: the keyword arguments of the class.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, shards, **settings)

    @property
    def config(self) -> QueueConfig:
        """The settings of this object, for all shards."""
        return self._home.config

    @property
    def address(self) -> str:
        """The address of the server with the record of the shards, without credentials."""
        return self._home.address

    @property
    def url(self) -> str | None:
        """The URL of that server, with its password, if there is one; see `Queue.url`."""
        return self._home.url

    def with_config(self, **changes: Any) -> Self:
        """Return an object for this queue with other settings, which is a separate consumer.

        It has its own connections: close it, too.

        Args:
            changes: fields of `config`, with their new values.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        settings = self.config.changed(changes).settings()
        return type(self)(
            self._client, self.name, self._given, session_timeout=self._session_timeout, **settings
        )

    def execute(
        self,
        operation: Callable[Concatenate[QueueSpec, P], Operation[T]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> T:
        """Run an operation on the keys of the queue as a whole, for modules built on this queue.

        These hold no messages, and do not change with the number of shards.
        """
        return self._home.execute(operation, *args, **settings)

    def shard_of(self, key: str) -> Queue:
        """Return the queue of the shard that gets the messages with ``key``.

        Raises:
            ConfigurationError: the queue does not exist, or the key is not text.
        """
        return self._shard_for(self._opened(), key)

    def shards(self) -> tuple[Queue, ...]:
        """Return the queue of each shard, for operations on one: peek, audit, drain.

        After a resize, former shards that may still have messages are the last ones.

        Raises:
            ConfigurationError: the queue does not exist, or has another number of shards.
        """
        opened = self._opened()
        if not opened.draining:
            return opened.queues
        if opened.recorded.groups:
            found = run([shard.beginning(stages.stage_of) for shard in opened.draining])
            former = [
                self.queue_of(shard.name, stage)
                for shard, stage in zip(opened.draining, found, strict=True)
                if stage is not None
            ]
            return (*opened.used, *former)
        closed = run([shard.beginning(resize.is_retired) for shard in opened.draining])
        living = [
            shard for shard, is_closed in zip(opened.draining, closed, strict=True) if not is_closed
        ]
        return (*opened.used, *living)

    def resize(self, shards: int) -> None:
        """Change the number of shards, while producers and consumers work.

        Guarantee: no message is lost. Producers push to the new shards within a second. Consumers
        take from the former ones until these are empty, dead letters included; then they are
        closed. Messages of one key are not delivered in order meanwhile: to keep the order, stop
        the producers, and wait until the queue is empty. An interrupted call can be repeated.

        With groups, the order of each group is kept. Producers push to the new shards at once, and
        consumers take from a new shard when the former ones that had messages of its groups have
        nothing to deliver: no messages that are ready, delayed or in flight, and no stopped group.

        Args:
            shards: how many, 1 to 1024.

        Raises:
            ConfigurationError: out of range; or the queue has format 1, in which the number of
                shards cannot be changed; or it has groups, and former shards still have messages.
        """
        check_shards(self.name, shards)
        while True:
            opened = self._reopened()
            recorded = opened.recorded
            operations.check_resizable(self.name, recorded)
            if recorded.number == shards:
                if recorded.groups and opened.draining:
                    opened.switch()
                return
            if recorded.groups:
                if self._resize_groups(opened, shards):
                    return
                continue
            former = resize.announced(recorded, shards)
            version = self._change(recorded.version, recorded.number, former)
            if not version:
                continue
            names = shard_names(self.name, shards, recorded.format)
            run([self.queue_of(name).beginning(resize.revive, version) for name in names])
            if self._change(version, shards, resize.switched(recorded, shards)):
                self._reopened()
                return

    @property
    def assigned(self) -> tuple[int, ...]:
        """The shards in the last known assignment of this consumer; empty before it joins."""
        return self._shards.members.partitions if self._shards else ()

    def join(self) -> tuple[int, ...]:
        """Join the consumers without taking messages, and return this consumer's shards."""
        return (self._opened()).members.join().partitions

    def push(
        self,
        message: Pushable,
        *,
        key: str | None = None,
        delay: Seconds | None = None,
        at: float | datetime | None = None,
        front: bool = False,
        dedup: str | None = None,
        dedup_window: Seconds = 3600.0,
        unique: Uniqueness | None = None,
        unique_by: Sequence[str] | None = None,
        unique_for: Seconds = 86400.0,
        replace: bool = False,
        group: str | int | None = None,
        confirm: int | Confirm | None = None,
    ) -> Pushed:
        """Store one message on one shard and return its id, as `Queue.push` does.

        Args:
            message: as in `Queue.push`.
            key: messages with the same key go to the same shard, by murmur3. In a queue with groups
                this is for messages without a group; the group of the others is their key. Defaults
                to None: shards take turns; with ``dedup``, that is the key.
            delay: as in `Queue.push`.
            at: as in `Queue.push`.
            front: as in `Queue.push`, before the ready messages of its shard. Other shards do not
                wait for it.
            dedup: as in `Queue.push`.
            dedup_window: as in `Queue.push`.
            unique: as in `Queue.push`. The id determines the shard, so ``key`` cannot be given.
                While the queue is resized, the former shards are looked at first. Two producers
                that push an id in the second in which the number changes may both store it.
            unique_by: as in `Queue.push`.
            unique_for: as in `Queue.push`.
            replace: as in `Queue.push`.
            group: as in `Queue.push`. It decides the shard, so ``dedup`` finds only messages of the
                same shard.
            confirm: as in `Queue.push`.
        """
        check_groups(self.name, self.config, PushOptions(front=front, group=group))
        options: dict[str, Any] = {"delay": delay, "at": at, "front": front, "confirm": confirm}
        options |= {"dedup": dedup, "dedup_window": dedup_window}
        if unique is not None:
            uniqueness.check_alone(key, self.config.groups)
            message = uniqueness.identified(message, unique_by)
            key = uniqueness.shard_key(message)
            options |= {"unique": unique, "unique_for": unique_for, "replace": replace}
        elif unique_by is not None or replace:
            options |= {"unique_by": unique_by, "replace": replace}  # refused by the shard
        elif self.config.groups is not None:
            field = self.config.groups.field
            message, options["group"] = grouped(message, field, group), group
            key = operations.key_of(group_to_push(message, field, self.config, SYSTEM), key)
        while True:
            opened = self._opened()
            queue = self._shard_for(opened, key if key is not None else dedup)
            try:
                if unique is not None and self._is_elsewhere(opened, queue, str(key), unique):
                    return Pushed.refused(str(key))
                return queue.push(message, **options)
            except KeyTypeError:
                if not self._changed(opened):
                    raise

    @overload
    def push_many(
        self,
        messages: Iterable[Pushable],
        *,
        key: str | Callable[[Any], str | None] | None = None,
        delay: Seconds | None = None,
        at: float | datetime | None = None,
        front: bool = False,
        group: str | int | None = None,
        confirm: int | Confirm | None = None,
    ) -> list[str]: ...

    @overload
    def push_many(
        self,
        messages: Iterable[Pushable],
        *,
        key: str | Callable[[Any], str | None] | None = None,
        delay: Seconds | None = None,
        at: float | datetime | None = None,
        front: bool = False,
        dedup: DedupKeys,
        dedup_window: Seconds = 3600.0,
        group: str | int | None = None,
        confirm: int | Confirm | None = None,
    ) -> list[Pushed]: ...

    @overload
    def push_many(
        self,
        messages: Iterable[Pushable],
        *,
        delay: Seconds | None = None,
        at: float | datetime | None = None,
        front: bool = False,
        unique: Uniqueness,
        unique_by: Sequence[str] | None = None,
        unique_for: Seconds = 86400.0,
        replace: bool = False,
        confirm: int | Confirm | None = None,
    ) -> list[Pushed]: ...

    def push_many(
        self,
        messages: Iterable[Pushable],
        *,
        key: str | Callable[[Any], str | None] | None = None,
        delay: Seconds | None = None,
        at: float | datetime | None = None,
        front: bool = False,
        dedup: DedupKeys | None = None,
        dedup_window: Seconds = 3600.0,
        unique: Uniqueness | None = None,
        unique_by: Sequence[str] | None = None,
        unique_for: Seconds = 86400.0,
        replace: bool = False,
        group: str | int | None = None,
        confirm: int | Confirm | None = None,
    ) -> Any:
        """Store many messages and return their ids in order, as `Queue.push_many` does.

        All are checked before any is sent. Up to 1,000 messages (or 4 MiB) go to one shard
        together, the next ones to the next shard. Cost: one round trip per 1,000 messages or
        4 MiB; per 500 messages with a delay or ``dedup``. With a function as ``key``, or with
        ``dedup``, at least one per shard that gets a message.

        Args:
            messages: as in `push`.
            key: all messages go to the shard of this key. Or a function that returns the key of a
                message, or None for a message that may go to any shard. Of a message with a group,
                that is the key. Defaults to None; with ``dedup``, each goes to the shard of its
                ``dedup`` key.
            delay: as in `push`, for all of them.
            at: as in `push`, for all of them.
            front: as in `push`, for all of them.
            dedup: as in `Queue.push_many`.
            dedup_window: as in `push`.
            unique: as in `push`, for each of them.
            unique_by: as in `push`.
            unique_for: as in `push`.
            replace: as in `push`.
            group: as in `push`, for all of them.
            confirm: as in `push`.

        Returns:
            The ids. With ``dedup`` or ``unique`` each is a `Pushed`, as of `push`.

        Raises:
            PartlyStored: a shard could not be reached, or refused; other shards stored theirs.
            UnknownOutcome: the reply of a shard was lost.
            NotConfirmed: as in `push`; later messages are not stored.

        These three errors list which messages are stored.
        """
        check_groups(self.name, self.config, PushOptions(front=front, group=group))
        listed = list(several(messages, "push_many"))
        options: dict[str, Any] = {"delay": delay, "at": at, "front": front, "confirm": confirm}
        marks = keys_of(dedup, listed) if dedup is not None else None
        if unique is not None:
            uniqueness.check_alone(key, self.config.groups)
            listed = [uniqueness.identified(message, unique_by) for message in listed]
            marks = [uniqueness.shard_key(message) for message in listed]
            options |= {"unique": unique, "unique_for": unique_for, "replace": replace}
        elif unique_by is not None or replace:
            options |= {"unique_by": unique_by, "replace": replace}  # refused by the shard
        opened = self._opened()
        if unique is not None and opened.recorded.draining:
            return self._push_each(listed, options)
        with observation.sending(self.name, self._home.address, listed):
            used = opened.used
            parts, ids = operations.divide(
                listed,
                marks if key is None else key,
                len(used),
                self._turns,
                self.config,
                SYSTEM,
                group,
            )
            for turn, (shard, positions, bodies) in enumerate(parts):
                if dedup is not None and marks is not None:
                    options["dedup"] = [marks[position] for position in positions]
                    options["dedup_window"] = dedup_window
                try:
                    pushed = self._push_part(opened, used[shard], bodies, options)
                except EXPECTED as error:
                    ended = operations.account(error, parts, turn)
                    raise ended from ended.__cause__
                if marks is not None:
                    for position, each in zip(positions, pushed, strict=True):
                        ids[position] = each
        return ids

    def pop(
        self,
        timeout: Seconds | None = None,
        visibility_timeout: Seconds | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> Message | None:
        """Lease and return the next message from this consumer's shards; see `pop_many`."""
        messages = self.pop_many(1, timeout, visibility_timeout, ack)
        return messages[0] if messages else None

    def pop_many(
        self,
        n: int,
        timeout: Seconds | None = None,
        visibility_timeout: Seconds | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> list[Message]:
        """Lease and return up to ``n`` messages from one shard.

        See `Queue.pop_many`. A consumer takes from its own shards first, several times in a row
        from each that has messages. When all are empty, it takes from other shards. Cost: one round
        trip, and one to count messages when the last shard is used up, however many shards there
        are.

        Args:
            n: how many at most.
            timeout: seconds to wait for the first message, on all of its shards at once. None: do
                not wait; ``math.inf``: wait forever.
            visibility_timeout: seconds that these leases last. Defaults to the queue's.
            ack: messages to ack at the same time, of any shards. A refused ack raises nothing; it
                sets the message's ``lease_lost``.
        """
        seconds = check_timeout(timeout)
        take.check(0, n, visibility_timeout)
        grouped = operations.by_queue(ack, "ack")
        acked = {self.queue_of(name): messages for name, messages in grouped.items()}
        until = time.monotonic() + seconds
        tries = 0
        while True:
            shards = self._opened()
            shards.members.join()
            if shards.draining and shards.retire():
                self._change(shards.recorded.version, shards.recorded.number, ())
                self._reopened()
                continue
            try:
                messages = shards.take(n, visibility_timeout, acked)
                if shards.draining:
                    self._ack_again(grouped)
                if messages:
                    return messages
                tries += 1
                left = until - time.monotonic()
                if messages is None and seconds and left > 0:
                    shards.wait(left)
                elif messages is None or (tries >= TRIES and left <= 0):
                    return []
            except (KeyTypeError, GroupsMismatch):
                if not self._changed(shards):
                    raise
                acked.clear()
                self._ack_again(grouped)

    def _ack_again(self, acked: Mapping[str, list[Message]]) -> None:
        """Ack those messages that a shard did not look at because it had just been closed."""
        for messages in acked.values():
            left = [each for each in messages if each.settled_by is None and not each.lease_lost]
            if left:
                with contextlib.suppress(LeaseLost):
                    self.ack(*left)

    def ack(
        self, *messages: Message | Iterable[Message], confirm: int | Confirm | None = None
    ) -> int:
        """Delete messages whose work is done, and return how many; see `Queue.ack`."""
        return self._settle("ack", messages, lambda queue, part: queue.ack(*part, confirm=confirm))

    def nack(
        self,
        *messages: Message | Iterable[Message],
        delay: Seconds | None = None,
        error: BaseException | None = None,
    ) -> int:
        """Return messages to the queue to be delivered again; return how many. See `Queue.nack`."""
        return self._settle(
            "nack", messages, lambda queue, part: queue.nack(*part, delay=delay, error=error)
        )

    def release(self, *messages: Message | Iterable[Message], delay: Seconds = 0) -> int:
        """Return messages to the queue, not counting the delivery; see `Queue.release`."""
        return self._settle(
            "release", messages, lambda queue, part: queue.release(*part, delay=delay)
        )

    def reject(
        self,
        *messages: Message | Iterable[Message],
        reason: str = "",
        error: BaseException | None = None,
    ) -> int:
        """Move messages to the dead letters at once; see `Queue.reject`."""
        return self._settle(
            "reject", messages, lambda queue, part: queue.reject(*part, reason=reason, error=error)
        )

    def extend(self, *messages: Message | Iterable[Message], timeout: Seconds | None = None) -> int:
        """Make leases end ``timeout`` seconds from now; see `Queue.extend`."""
        return self._settle(
            "extend", messages, lambda queue, part: queue.extend(*part, timeout=timeout)
        )

    def dead_letters(self, n: int = 100) -> list[DeadLetter]:
        """Return up to ``n`` dead letters, shard by shard, without removing them."""

        def read() -> list[DeadLetter]:
            letters: list[DeadLetter] = []
            for queue in self.shards():
                letters += queue.dead_letters(n - len(letters))
            return letters

        return self._opening(read)

    def redrive(self, n: int | None = None, *, force: bool = False) -> Redriven:
        """Make dead letters ready again, shard by shard, and return how many; see `Queue.redrive`.

        Args:
            n: how many. Defaults to all that are dead now.
            force: as in `Queue.redrive`. Defaults to False.
        """
        counts: list[Redriven] = []

        def redrive() -> None:
            opened = self._opened()
            for queue in self.shards():
                left = None if n is None else n - sum(counts)
                if self.config.groups is not None:
                    counts.append(self._redrive_here_or_there(queue, left, force))
                elif force or not opened.recorded.draining:
                    counts.append(queue.redrive(left, force=force))
                else:
                    counts.append(self._redrive_what_is_not_elsewhere(opened, queue, left))

        self._opening(redrive)
        return Redriven.of(sum(counts), [each for count in counts for each in count.refused])

    def _redrive_what_is_not_elsewhere(
        self, opened: ShardSet, queue: Queue, n: int | None
    ) -> Redriven:
        """Redrive dead letters of a shard, but no unique one that a resized queue has again."""
        left = queue.stats().dead if n is None else n
        redriven, refused, after = 0, list[str](), None
        while left > 0 and (found := queue.dead_letters(min(100, left), after=after)):
            chosen = []
            for letter in found:
                if letter.unique and self._is_elsewhere(opened, queue, letter.id, "done"):
                    refused.append(letter.entry)
                else:
                    chosen.append(letter.entry)
            if chosen:
                part = queue.redrive(entries=chosen)
                redriven, refused = redriven + part, [*refused, *part.refused]
            left, after = left - len(found), found[-1].entry
        return Redriven.of(redriven, refused)

    def _redrive_here_or_there(self, queue: Queue, n: int | None, force: bool) -> Redriven:
        """Redrive dead letters of a shard; those of a sealed one are pushed to the new shards.

        They are deleted afterwards. If it ends in between, some are both dead and ready.
        """
        if not queue.execute(resize.is_sealed):
            return queue.redrive(n, force=force)
        left = queue.stats().dead if n is None else n
        redriven = 0
        while redriven < left and (found := queue.dead_letters(min(100, left - redriven))):
            self.push_many([letter.body for letter in found])
            redriven += queue.drop_dead_letters(*(letter.entry for letter in found))
        return Redriven.of(redriven, [])

    def search(
        self,
        where: Mapping[str, str | int | float | bool | None],
        *,
        limit: int = 100,
        within: int | None = WITHIN,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """Return messages with these fields, shard by shard; see `Queue.search`.

        Args:
            where: as in `Queue.search`.
            limit: how many at most. Defaults to 100.
            within: as in `find`.
            on_progress: as in `Queue.search`.
        """

        def look() -> list[Found]:
            matches: list[Found] = []
            for queue in self.shards():
                # A limit that is out of range is refused by the first shard.
                if not matches or len(matches) < limit:
                    matches += queue.search(
                        where, limit=limit - len(matches), within=within, on_progress=on_progress
                    )
            return matches

        return self._opening(look)

    def close(self) -> None:
        """Leave the consumers and close the connections. Leases continue until they end."""
        for shards in (*self._former, *([self._shards] if self._shards else [])):
            shards.close()
        self._home.close()

    def __repr__(self) -> str:
        return f"<ackq.{type(self).__name__} {self.name!r} on {self._home.address}>"

    def _opened(self) -> ShardSet:
        """Return the shards as recorded, at most a second ago; record them if they are new."""
        if self._shards is None or time.monotonic() >= self._next_read:
            with self._lock:
                if self._shards is None or time.monotonic() >= self._next_read:
                    self._open(self._shards)
        assert self._shards is not None
        return self._shards

    def _reopened(self) -> ShardSet:
        """Return the shards as they are recorded now."""
        self._next_read = 0.0
        return self._opened()

    def _open(self, former: ShardSet | None) -> None:
        if former is None:
            recorded = self._read()
        else:
            try:
                stored = self._home.execute(operations.read, self.name)
            except (redis.RedisError, OSError):
                # The shards may be on other nodes.
                self._next_read = time.monotonic() + READ_AGAIN_LATER
                return
            recorded = former.recorded if stored is None else stored
        if recorded.groups or self.config.grouped:
            self._home.execute(operations.check_groups, self.name, recorded)
        if former is None or recorded != former.recorded:
            draining = recorded.draining_names(self.name)
            self._stages = dict.fromkeys(draining if recorded.groups else (), "closed")
            self._patient_until = time.monotonic() + PATIENCE
            self._shards = ShardSet(
                recorded,
                [*map(self.queue_of, recorded.names(self.name))],
                [*map(self.queue_of, draining)],
                self._members_of(recorded),
            )
            if former is not None:
                # Calls that began with it end with it.
                self._former.append(former)
                former.members.close()
        fixed = recorded.format == 1
        self._next_read = math.inf if fixed else time.monotonic() + READ_INTERVAL

    def _change(self, version: int, number: int, draining: Iterable[int]) -> int:
        return self._home.execute(resize.change, self.name, version, number, draining)

    def _change_limits(self, changes: Mapping[str, Any]) -> None:
        """Change the record of the queue, then those of its shards; see `set_groups`."""
        is_changed = 0
        while not is_changed:
            now = self._reopened().recorded
            if now.draining:
                raise ConfigurationError(
                    f"sharded queue {self.name!r} is resized now: change its groups when its former"
                    " shards are empty"
                )
            fields = group_limits.fields_of(self.name, self.config, changes)
            if "max_in_flight" in fields:
                raise ConfigurationError("a sharded queue has no max_in_flight")
            is_changed = self._home.execute(
                resize.change, self.name, now.version, now.number, (), fields
            )
        super()._change_limits(changes)
        self._reopened()

    def _resize_groups(self, opened: ShardSet, shards: int) -> bool:
        """Change the number of shards of a queue with groups; return False to look again.

        Raises:
            ConfigurationError: a former shard has messages, or a new one does.
        """
        recorded = opened.recorded
        if opened.draining:
            if not opened.advance():
                raise ConfigurationError(
                    f"sharded queue {self.name!r} still has messages, dead letters or a pause on"
                    " the shards of its former number. Wait until consumers have emptied them, and"
                    " redrive or drop the dead letters"
                )
            self._change(recorded.version, recorded.number, ())
            return False
        names = shard_names(self.name, shards, recorded.format)
        retiring = [
            self.queue_of(name).beginning(resize.retire, recorded.version) for name in names
        ]
        if not all(run(retiring)):
            raise ConfigurationError(
                f"one of the new shards has messages of another program: {', '.join(names)}"
            )
        if not self._change(recorded.version, shards, (recorded.number,)):
            return False
        self._reopened().switch()
        return True

    def _changed(self, opened: ShardSet) -> bool:
        """Return whether a shard that refused a call no longer does: another try may help."""
        now = self._reopened()
        if now.recorded != opened.recorded:
            return True
        version = now.recorded.version
        if now.recorded.groups and now.draining and time.monotonic() < self._patient_until:
            # New shards refuse pushes until the former ones do.
            now.switch()
            self._home.execute(operations.pause)
            return True
        if not version:
            return False
        changed = now.recorded.changed
        revived = [shard.beginning(resize.revive, version, changed) for shard in now.used]
        results = run(revived, tolerates=redis.ResponseError)
        return any(done is True for done in results)  # others were refused: this user may not

    def _opening(self, call: Callable[[], T]) -> T:
        """Make a call on all shards, and again if one was closed meanwhile, or is in use."""
        tries = 0
        while True:
            opened = self._opened()
            try:
                return call()
            except KeyTypeError:
                tries += 1  # each former shard may have been closed between two requests
                if not self._changed(opened) and tries > len(opened.draining):
                    raise

    def _on_all(
        self,
        combined: Callable[[Sequence[T]], T],
        operation: Callable[Concatenate[QueueSpec, P], Operation[T]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> T:
        def all_shards() -> T:
            shards = self.shards()
            return combined(
                run([shard.beginning(operation, *args, **settings) for shard in shards])
            )

        return self._opening(all_shards)

    def _on_each(
        self,
        operation: Callable[Concatenate[QueueSpec, P], Operation[int]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> int:
        counts: list[int] = []

        def each_shard() -> None:
            for queue in self.shards():
                counts.append(queue.execute(operation, *args, **settings))

        self._opening(each_shard)
        return sum(counts)

    def _push_each(self, messages: list[Pushable], options: dict[str, Any]) -> list[Pushed]:
        """Push unique messages while other shards have to be looked at for each."""
        pushed: list[Pushed] = []
        for at, message in enumerate(messages):
            try:
                pushed.append(self.push(message, **options))
            except EXPECTED as error:
                ended = account(error, range(at), [at], range(at + 1, len(messages)))
                raise ended from ended.__cause__
        return pushed

    def _is_elsewhere(
        self, opened: ShardSet, queue: Queue, message_id: str, unique: Uniqueness
    ) -> bool:
        """Return whether a shard for another number of shards has a message with this id."""
        recorded = opened.recorded
        for number in (recorded.number, *recorded.draining):
            names = shard_names(self.name, number, recorded.format)
            shard = self.queue_of(names[operations.shard_of(message_id, number)])
            if shard.name != queue.name and shard.execute(uniqueness.is_queued, message_id, unique):
                return True
        return False

    def _push_part(
        self,
        opened: ShardSet,
        queue: Queue,
        bodies: list[bytes],
        options: dict[str, Any],
    ) -> Any:
        try:
            return queue.push_many(bodies, **options)
        except KeyTypeError:
            if not self._changed(opened):
                raise
            if "dedup" in options or "unique" in options or self.config.groups is not None:
                return self.push_many(bodies, **options)
            again = self._opened()
            # The key of these messages is not known here. While a queue is resized, there is no
            # order by key anyway.
            other = queue if queue in again.used else self._shard_for(again, None)
            return other.push_many(bodies, **options)

    def _read(self) -> Shards:
        """Return the number of shards and the format of their names.

        Raises:
            ConfigurationError: unknown, or not the number that was given.
        """
        given = self._given
        stored = self._home.execute(operations.read, self.name)
        if stored is None and given is not None:
            former = Shards(1, given)
            queues = map(self.queue_of, former.names(self.name))
            if any(run([queue.beginning(inspection.has_keys) for queue in queues])):
                return former
            stored = self._home.execute(operations.read, self.name, given)
        return operations.agreed(self.name, stored, given)

    def _members_of(self, recorded: Shards) -> ConsumerGroup:
        return ConsumerGroup(
            self._client,
            operations.group_of(self.name, recorded),
            recorded.number,
            session_timeout=self._session_timeout,
        )

    def queue_of(self, name: str, stage: Stage | None = None) -> Queue:
        """Return the queue of a shard. For any other name, one that refuses its messages.

        Args:
            name: of the shard.
            stage: of the shard. Defaults to None: as the record says.
        """
        if not is_shard(name, self.name):
            return self._home
        known = stage or self._stages.get(name, "open")
        if (name, known) not in self._queues:
            self._queues[name, known] = self._home.beside(name, stage=known)
        return self._queues[name, known]

    def _shard_for(self, opened: ShardSet, key: str | None) -> Queue:
        size = len(opened.used)
        turn = next(self._turns) if key is None else operations.shard_of(key, size)
        return opened.used[turn % size]

    def _settle(
        self,
        method: str,
        messages: Iterable[Message | Iterable[Message]],
        settling: Callable[[Queue, list[Message]], int],
    ) -> int:
        settled = 0
        lost: list[LeaseLost] = []
        failed: Exception | None = None
        for name, part in operations.by_queue(messages, method).items():
            try:
                settled += self._settle_part(name, part, settling)
            except LeaseLost as error:
                settled += error.settled
                lost.append(error)
            except EXPECTED as error:
                failed = failed or error  # go on: the other shards may be on other nodes
        if failed is not None:
            raise failed
        operations.raise_lost(lost, settled)
        return settled

    def _settle_part(
        self,
        name: str,
        part: list[Message],
        settling: Callable[[Queue, list[Message]], int],
    ) -> int:
        """Settle messages of one shard; again, if it has just been closed to producers.

        Raises:
            LeaseLost: it was closed for good, so others have settled these messages.
        """
        left = part
        while True:
            try:
                return len(part) - len(left) + settling(self.queue_of(name), left)
            except KeyTypeError as error:
                opened = self._shards
                left = [message for message in part if message.settled_by is None]
                if self.queue_of(name).execute(stages.stage_of) in (None, "sealed"):
                    raise operations.closed(name, left, len(part) - len(left)) from error
                if not (self.config.groups and opened is not None and self._changed(opened)):
                    raise
