# Written by tools/blocking.py: edit client_async.py instead, then run make clients.
"""`Queue`: the list queue, blocking."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, overload

import redis

from ackq.config import (
    Confirm,
    Groups,
    PopFrom,
    QueueConfig,
    RecordErrors,
    Seconds,
    in_seconds,
)
from ackq.core.claim_groups import HeldClaim
from ackq.core.client import Client, client_of
from ackq.core.effects import Operation
from ackq.core.encode import Pushable
from ackq.core.inspection_results import DeadLetter, Found, PeekedMessage, State
from ackq.core.io.outside import SYSTEM
from ackq.core.io.together import Prepared
from ackq.core.search_terms import WITHIN, OnProgress
from ackq.errors import AckqError
from ackq.queue import held_lists, inspection, places, push, settle, take
from ackq.queue.dedup import DedupKeys
from ackq.queue.keys import QueueKeys, Stage
from ackq.queue.messages import AuditReport, Message, Pushed, Redriven
from ackq.queue.push_options import PLAIN, PushOptions
from ackq.queue.renewal import Renewer
from ackq.queue.schedules_client import Schedules
from ackq.queue.spec import QueueSpec
from ackq.queue.unique import Uniqueness
from ackq.queue.whole_queue import WholeQueue

P = ParamSpec("P")
T = TypeVar("T")


class Queue(WholeQueue, Client):
    """A reliable queue over the Redis list ``name``.

    Guarantee: at least once. An accepted message is in exactly one place (ready, in flight,
    delayed or dead) until it is acked. If a consumer dies, its messages are delivered again when
    their leases end.

    Safe to share between threads, and after a fork.
    The queue opens its own connections with the client's settings. Close it, or use it as
    a context manager. Each duration is a number of seconds or a timedelta.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        *,
        visibility_timeout: Seconds = 30.0,
        max_receives: int | None = None,
        requeue: Literal["front", "back"] = "front",
        max_body_bytes: int = 1024 * 1024,
        pop_from: PopFrom = "right",
        record_errors: RecordErrors = "text",
        time_field: str | None = None,
        groups: Groups | None = None,
        max_in_flight: int | None = None,
    ) -> None:
        """Set up queue ``name``. Nothing is sent before the first operation.

        Args:
            client: any redis-py client: standalone, Sentinel's `master_for`, or cluster. Its
                address, credentials, TLS and timeouts are used, but not its connections. If it
                sets no timeout, ackq allows 5 seconds to connect and 5 for each reply, so a
                silent connection ends in an error.
            name: the list that producers push to. In a cluster it needs a hash tag: ``{jobs}``.
            visibility_timeout: seconds that a lease lasts, up to 43200. Defaults to 30.
            max_receives: deliveries after which a message goes to the dead letters. Defaults to
                None, no limit.
            requeue: where a message goes when its lease ends: "front", ahead of the ready
                messages, or "back", behind them, as in the article "Explain how redis implements
                ack for queue messages" (2019). Defaults to "front".
            max_body_bytes: longest body. Push refuses a longer one; pop moves one that another
                producer pushed to the dead letters. Defaults to 1 MiB.
            pop_from: the end of the list that consumers pop: "right" if producers use LPUSH,
                "left" if they use RPUSH. All clients of the queue must agree: the left end is
                recorded at first use, and a client with the other end gets `PopFromMismatch`.
                To check this, the first push of each object, and then one every 10 seconds, costs
                an additional round trip. Defaults to "right".
            record_errors: what to store about the error passed to `nack` or `reject`: "none",
                "type" (with the line of code and the time), "text" (also the error's text,
                cropped to 500 characters) or "traceback" (its last 4,000 characters too). It is
                kept for the last five failures of a message, until the message is acked; a dead
                letter keeps it. Defaults to "text".
            time_field: the member of each message's JSON object that holds the time at which it
                was created: text in RFC 3339 with Z or an offset, or a number of seconds since the
                epoch; from 1e11 on, of milliseconds. `Message.created_at` and `oldest_ready` read
                it. Push adds the time, by this machine's clock, to a mapping that lacks the member.
                Defaults to None: only the ``time`` of CloudEvents is read; nothing is added.
            groups: what a group of messages is, and how many of one are handled at a time; see
                `Groups`. All clients of the queue must agree: the first one that pops records it,
                and others get `GroupsMismatch`. Defaults to None, no groups.
            max_in_flight: messages that are leased at a time, by all consumers together, 1 to
                1000000. All clients of the queue must agree, as with ``groups``. Defaults to None,
                no limit.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: a setting is out of range.
        """
        config = QueueConfig(
            in_seconds(visibility_timeout),
            max_receives,
            requeue,
            max_body_bytes,
            pop_from,
            record_errors,
            time_field,
            groups,
            max_in_flight,
        )
        keys = QueueKeys.of(name, pop_from, config.grouped)
        super().__init__(client, name)
        self._spec = QueueSpec(name, keys, config, self._block_limit, outside=SYSTEM)
        self._renewer = Renewer(self._extend_one)

    @classmethod
    def from_url(cls, url: str | None, name: str, **settings: Any) -> Self:
        """Return queue ``name`` on the server at ``url``, with the settings of `Queue`.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: the list that producers push to.
            settings: the keyword arguments of `Queue`.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, **settings)

    @property
    def name(self) -> str:
        """The list that producers push to."""
        return self._spec.name

    @property
    def config(self) -> QueueConfig:
        """The settings of this queue object."""
        return self._spec.config

    def with_config(self, **changes: Any) -> Self:
        """Return a queue object with other settings that shares the connections of this one.

        Args:
            changes: fields of `config`, with their new values.

        Raises:
            ConfigurationError: a setting is out of range.
        """
        changed = copy.copy(self)
        config = self._spec.config.changed(changes)
        stage = self._spec.keys.stage
        keys = QueueKeys.of(self._spec.name, config.pop_from, config.grouped, stage)
        changed._spec = replace(self._spec, keys=keys, config=config)
        return changed

    def beside(self, name: str, *, stage: Stage = "open") -> Self:
        """Return queue ``name`` with the settings and the connections of this one.

        Closing one of them closes the idle connections of both.

        Args:
            name: the list that producers push to.
            stage: of a shard of a sharded queue with groups. Defaults to "open".

        Raises:
            QueueNameError: the name cannot be used.
        """
        own = self._spec.keys
        keys = QueueKeys.of(name, own.pop_from, own.grouped, stage)
        other = self._beside(name)
        other._spec = replace(self._spec, name=name, keys=keys)
        other._renewer = Renewer(other._extend_one)
        return other

    def beginning(
        self,
        operation: Callable[Concatenate[QueueSpec, P], Operation[T]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> Prepared[T]:
        """Return an operation to run together with those of other queues; see `execute`.

        `ackq.core.io` runs them. Sharded queues use this.

        Args:
            operation: called with the `QueueSpec` of this queue and the other arguments.
            args: the operation's arguments.
            settings: the operation's keyword arguments.
        """
        return self._prepared(operation, self._spec, *args, **settings)

    def execute(
        self,
        operation: Callable[Concatenate[QueueSpec, P], Operation[T]],
        *args: P.args,
        **settings: P.kwargs,
    ) -> T:
        """Run an operation that another package defines for list queues.

        Workers use this for their rate limits and schedules.

        Args:
            operation: called with the `QueueSpec` of this queue and the other arguments.
            args: the operation's arguments.
            settings: the operation's keyword arguments.
        """
        return self._run(operation(self._spec, *args, **settings))

    def push(
        self,
        message: Pushable,
        *,
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
        """Store one message, ready now or later, and return its id.

        Guarantee: once this call returns, the message is delivered until it is acked. Cost: one
        round trip, and every ten seconds another, which looks at the recorded end. It is a plain
        LPUSH (or RPUSH, see ``pop_from``), unless the message is scheduled, deduplicated or for
        the front.

        Args:
            message: a mapping, a record or bytes. A record is a dataclass, a model of pydantic 2 or
                a struct of msgspec. Mappings and records are pushed as a JSON object with its
                ``id`` first, a random one if it has none: dates, times and UUIDs become text,
                tuples lists, enums their values. Bytes are pushed unchanged. To forward a message,
                push its ``body``: `Message.json` turns integers over 64 bits into floats.
            delay: seconds until the message becomes ready.
            at: when it becomes ready: seconds since the epoch, or a datetime with a time zone.
            front: deliver it before all messages on the ready list, but behind earlier ones pushed
                to the front. Redelivered messages and delayed ones that are due still come first.
                Costs another round trip if the queue is empty. Defaults to False.
            dedup: a key. A second push with the same key within the window stores nothing and
                returns the id of the first, with ``stored`` False. If the reply is lost, such a
                push is sent again.
            dedup_window: seconds that the key is remembered. Defaults to 3600.
            unique: store nothing while a message with this id is in the queue: "done": ready,
                delayed or in flight; "taken": ready or delayed, also for another delivery. Then
                ``stored`` is False. Use one of the two for an id. A push with neither is not
                compared with anything. Defaults to None.
            unique_by: fields of a message without an id. Messages that have the same values there
                get the same id, as "customer=17&kind=refund". Defaults to None.
            unique_for: seconds for which a message that was pushed onto the ready list is taken to
                be there, unless a consumer of ackq took it. After that, a push looks for it in the
                lists. A bare RPOP leaves no trace, so after one the id may be refused for as long.
                Defaults to 86400.
            replace: if a message with this id is still delayed and no delivery of it counts (a
                released one does not), put this one into its place, with its own ``delay`` or
                ``at``. Then ``stored`` is True. Refused if the queue has groups. Defaults to False.
            group: of a queue with groups, the message's group, which is written next to its id: a
                text or an integer. Defaults to None: the group that the message names, if any.
            confirm: number of replicas that must have the message, or a `Confirm`. Defaults to
                None.

        Returns:
            The id, a `Pushed`: text that also says whether this push ``stored`` the message.
            Empty for bytes without a usable id.

        Raises:
            InvalidMessage: not a mapping, a record or bytes, a bad id, or a value that JSON
                cannot hold; the error names its path.
            MessageTooLarge: the body is over ``max_body_bytes``.
            ConfigurationError: an argument is out of range, or ``front`` is given with a time.
            PopFromMismatch: the queue is popped from the other end; nothing was stored.
            NotConfirmed: stored, but too few servers confirmed it in time.
            UnknownOutcome: the reply was lost, so the message may or may not be stored. With
                ``dedup`` or ``unique``, push it again.
        """
        if confirm is not None:
            confirm = self._fit(confirm)
        options = PLAIN
        timed = front or delay is not None or at is not None
        named = dedup is not None or unique is not None or unique_by is not None or replace
        grouped = group is not None or self._spec.group_field is not None
        if timed or named or grouped or confirm is not None:
            options = PushOptions(
                delay,
                at,
                front,
                dedup,
                dedup_window,
                unique,
                unique_by,
                unique_for,
                replace,
                group,
                confirm,
            )
        return self._perform(push.push, self._spec, message, options)

    @overload
    def push_many(
        self,
        messages: Iterable[Pushable],
        *,
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
        group: str | int | None = None,
        confirm: int | Confirm | None = None,
    ) -> list[Pushed]: ...

    def push_many(
        self,
        messages: Iterable[Pushable],
        *,
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
        """Store many messages and return their ids. The first is delivered first.

        That holds with ``front``, ``delay`` and ``at`` too: messages for the same time, also of
        several calls, become ready a microsecond apart, in the order of the pushes.

        All messages are checked before any is sent. Cost: one round trip per chunk of 1,000
        messages (500 if they are delayed or deduplicated, 100 if they are unique) or 4 MiB (1 MiB
        to the front), and every ten seconds one that looks at the recorded end. Each chunk is
        stored whole or not at all.

        Args:
            messages: as in `push`.
            delay: as in `push`, for all of them.
            at: as in `push`, for all of them.
            front: as in `push`, for all of them.
            dedup: a function that returns the key of a message, as in `push`, or a list with a key
                for each. Messages whose keys are remembered are not stored. Defaults to None.
            dedup_window: as in `push`.
            unique: as in `push`, for each of them.
            unique_by: as in `push`.
            unique_for: as in `push`.
            replace: as in `push`.
            group: as in `push`, for all of them.
            confirm: as in `push`, for each chunk.

        Returns:
            The ids. With ``dedup`` or ``unique`` each is a `Pushed`, as of `push`.

        Raises:
            InvalidMessage: as in `push`; nothing was sent.
            MessageTooLarge: as in `push`; nothing was sent.
            ConfigurationError: as in `push`; nothing was sent.
            NotConfirmed: as in `push`; later chunks are not stored.
            UnknownOutcome: as in `push`; ``stored`` counts the messages known to be stored.
            PartlyStored: a later chunk failed; ``__cause__`` is the error.

        The last three errors list which messages are stored, in ``stored_positions``,
        ``unknown_positions`` and ``not_stored_positions``.
        """
        if confirm is not None:
            confirm = self._fit(confirm)
        options = PushOptions(
            delay,
            at,
            front,
            dedup,
            dedup_window,
            unique,
            unique_by,
            unique_for,
            replace,
            group,
            confirm,
        )
        return self._perform(push.push_many, self._spec, messages, options)

    def pop(
        self,
        timeout: Seconds | None = None,
        visibility_timeout: Seconds | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> Message | None:
        """Lease and return the next message, or None if there is none in time.

        The messages in ``ack`` are acked first, in the same round trip. See `pop_many`.
        """
        messages = self._perform(take.pop_many, self._spec, 1, timeout, visibility_timeout, ack)
        return messages[0] if messages else None

    def pop_many(
        self,
        n: int,
        timeout: Seconds | None = None,
        visibility_timeout: Seconds | None = None,
        ack: Iterable[Message] | Message = (),
    ) -> list[Message]:
        """Lease and return up to ``n`` messages.

        Guarantee: each message is yours alone until its lease ends. Then it is delivered again,
        ahead of the ready messages unless ``requeue`` is "back". Messages whose leases ended are
        delivered first, then due messages, then the ready list. Cost: one round trip if there is
        work; at most one per second while there is none.

        Args:
            n: how many at most. One call takes at most 1,000 messages or 1 MiB. A message on its
                last permitted delivery is returned alone.
            timeout: seconds to wait for the first message. None: do not wait; ``math.inf``: wait
                forever.
            visibility_timeout: seconds that these leases last. Defaults to the queue's.
            ack: messages to ack in the same round trip. A refused ack raises nothing; it sets
                the message's ``lease_lost``.

        Returns:
            0 to ``n`` messages, oldest first. More may be ready, even if there are fewer than
            ``n``.

        Raises:
            UnknownOutcome: the reply was lost. The acks have been sent again. Messages that the
                lost call leased are delivered again after their visibility timeout.
            KeyTypeError: a key of the queue has another type; nothing was changed.
            PopFromMismatch: the queue is popped from the other end; nothing was changed.
        """
        return self._perform(take.pop_many, self._spec, n, timeout, visibility_timeout, ack)

    def ack(
        self, *messages: Message | Iterable[Message], confirm: int | Confirm | None = None
    ) -> int:
        """Delete messages whose work is done, and return how many were deleted.

        Acks can be repeated: a message that this consumer has already acked counts 0 and is no
        error. If a reply is lost, ackq repeats the ack itself. Cost: one round trip per 1,000.

        Args:
            messages: messages that pop returned, or lists of them.
            confirm: number of replicas that must have the deletion, or a `Confirm`. Defaults to
                None.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                acked.
            NotConfirmed: acked, but too few servers confirmed it in time.
        """
        if confirm is not None:
            confirm = self._fit(confirm)
        return self._perform(settle.ack, self._spec, messages, confirm)

    def ack_id(self, *ids: str | int) -> int:
        """Delete messages in flight by their bare ids, as the article's ack script does.

        NOT FENCED: a late call deletes a message that another consumer has leased. Use `ack`.
        """
        return self._run(settle.ack_id(self._spec, ids))

    def nack(
        self,
        *messages: Message | Iterable[Message],
        delay: Seconds | None = None,
        error: BaseException | None = None,
    ) -> int:
        """Return messages to the queue, to be delivered again, and return how many there were.

        A message at ``max_receives`` goes to the dead letters, and its ``dead`` becomes True. It is
        counted too.

        Args:
            messages: messages that pop returned, or lists of them.
            delay: seconds until they are ready again. Defaults to a backoff by receive count:
                1, 2, 4, ... at most 300 seconds. With ``requeue="back"`` the default is no
                delay, and they go to the back.
            error: why they failed, stored as ``record_errors`` says. `peek` and `dead_letters`
                return it. Defaults to None: nothing is stored.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                returned.
        """
        return self._perform(settle.nack, self._spec, messages, delay, error=error)

    def release(self, *messages: Message | Iterable[Message], delay: Seconds = 0) -> int:
        """Return messages to the queue, without counting the delivery, and return how many.

        Args:
            messages: messages that pop returned, or lists of them.
            delay: seconds until they are ready again. Defaults to 0, at once.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                returned.
        """
        return self._perform(settle.nack, self._spec, messages, delay, charge=False)

    def reject(
        self,
        *messages: Message | Iterable[Message],
        reason: str = "",
        error: BaseException | None = None,
    ) -> int:
        """Move messages to the dead letters at once, with the reason.

        Args:
            messages: messages that pop returned, or lists of them.
            reason: stored with the dead letters. Defaults to no text.
            error: why they failed, stored as in `nack`. Defaults to None.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                moved.
        """
        return self._perform(settle.reject, self._spec, messages, reason, error)

    def extend(self, *messages: Message | Iterable[Message], timeout: Seconds | None = None) -> int:
        """Make leases end ``timeout`` seconds from now, and return how many were extended.

        This sets each message's ``lease_expires_at``. The receipt does not change, so a lost
        reply does no harm. A message that this consumer has settled counts 0 and is no error.

        Args:
            messages: messages that pop returned, or lists of them.
            timeout: seconds from now, up to 43200. Defaults to the queue's visibility timeout.

        Raises:
            LeaseLost: this consumer no longer has the lease of some messages; the others are
                extended.
        """
        return self._run(settle.extend(self._spec, messages, timeout))

    @overload
    def lease(
        self, *, visibility_timeout: Seconds | None = None
    ) -> AbstractContextManager[Message]: ...

    @overload
    def lease(
        self, timeout: Seconds | None, visibility_timeout: Seconds | None = None
    ) -> AbstractContextManager[Message | None]: ...

    def lease(
        self, timeout: Seconds | None = math.inf, visibility_timeout: Seconds | None = None
    ) -> AbstractContextManager[Any]:
        """Lease a message for a ``with`` block: ack it when the block ends, nack it on an error.

        This waits for a message. With a ``timeout``, the block gets None if there was none in
        time. Any exception that ends the block nacks the message, also Ctrl-C and the
        cancellation of a task, and is recorded as its error.

        While the block runs, the lease is renewed in the background, each time after a third of
        the visibility timeout, so a block may take as long as it needs. If the lease is lost
        anyway, because the process was frozen or disconnected for too long, the message's
        ``lease_lost`` becomes True.

        Cost: a pop, an ack, and one round trip per renewal. In threads, all blocks of a queue
        share one renewing thread; on asyncio, each block has a task. A block that hangs keeps
        its message for as long as it hangs. On asyncio, a block that blocks the event loop
        prevents renewals.

        Args:
            timeout: seconds to wait for a message, as in `pop`. Defaults to waiting forever.
            visibility_timeout: seconds of the lease, and of each renewal. Defaults to the
                queue's.

        Raises:
            LeaseLost: at the end of the block, if another consumer has the message, or it is
                gone.
        """
        return self._lease(timeout, visibility_timeout)

    @contextmanager
    def _lease(
        self, timeout: Seconds | None, visibility_timeout: Seconds | None
    ) -> Iterator[Message | None]:
        message = self.pop(timeout, visibility_timeout)
        if message is None:
            yield None
            return
        seconds = in_seconds(visibility_timeout or self._spec.config.visibility_timeout)
        try:
            with self._renewer.renewing(message, seconds):
                yield message
        except BaseException as error:
            # The block's error matters more than a failed nack: the lease ends anyway.
            with suppress(AckqError, redis.RedisError):
                self.nack(message, error=error)
            raise
        self.ack(message)

    def _extend_one(self, message: Message, timeout: Seconds) -> None:
        self.extend(message, timeout=timeout)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages forever, waiting for each. Settle them in the body of the loop."""
        while True:
            message = self.pop(math.inf)
            if message is not None:
                yield message

    def claims(self) -> list[HeldClaim]:
        """List the claims of all groups: batches that a reader such as Spark has not acked yet.

        Cost: one round trip per 100 claims and committed lists of staged rows.
        """
        return self._run(held_lists.claims(self._spec))

    def peek(
        self,
        n: int = 10,
        state: State = "ready",
        *,
        skip: int = 0,
        group: str | int | None = None,
    ) -> list[PeekedMessage]:
        """Return up to ``n`` messages in the order of their delivery, without taking them.

        Args:
            n: how many; 0 and up.
            state: "ready" (what pop would take), "in_flight" (soonest deadline first) or
                "delayed" (soonest due first).
            skip: how many messages to skip first. Defaults to 0.
            group: of a queue with groups: instead, the messages of this group that consumers have
                moved aside. Defaults to None.

        Raises:
            ConfigurationError: a group is given, and the queue has no groups, or the state is not
                "ready".
        """
        return self._run(inspection.peek(self._spec, n, state, skip, group))

    def search(
        self,
        where: Mapping[str, str | int | float | bool | None],
        *,
        limit: int = 100,
        within: int | None = WITHIN,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """Return messages whose bodies are JSON objects with these fields, and where they are.

        Ready messages come first, then those in flight, delayed and dead ones. Nothing is changed.
        Cost: one round trip per 2,000 messages or 1 MiB that are looked through.

        Args:
            where: 1 to 4 fields with their values. A dot leads into an object: "customer.id".
            limit: how many at most. Defaults to 100.
            within: as in `find`.
            on_progress: called after each round trip with the number of messages that were looked
                at. Defaults to None.

        Raises:
            ConfigurationError: a field or value cannot be searched for, or a number is out of
                range.
        """
        return self._run(places.search(self._spec, where, limit, within, on_progress))

    @property
    def schedules(self) -> Schedules:
        """The schedules that are stored for this queue: put, pause, remove and list them."""
        return Schedules(self)

    def dead_letters(
        self, n: int = 100, *, after: str | None = None, entries: Iterable[str] = ()
    ) -> list[DeadLetter]:
        """Return up to ``n`` dead letters, oldest first, without removing them.

        Args:
            n: how many. One round trip reads at most 100, or fewer if they are long.
            after: only those after this `DeadLetter.entry`, to page through many. Defaults to
                None, from the first.
            entries: only those with these `DeadLetter.entry` values, if they exist; one round
                trip each.

        Raises:
            ConfigurationError: ``after`` is not an entry.
        """
        return self._run(inspection.dead_letters(self._spec, n, tuple(entries), after))

    def redrive(
        self, n: int | None = None, *, entries: Iterable[str] = (), force: bool = False
    ) -> Redriven:
        """Make dead letters ready again with receive counts of zero, and return how many.

        Their recorded errors are deleted. A dead letter stays if a message with its id is in the
        queue that a ``unique`` push stored: the ``refused`` of the returned number names it.

        Args:
            n: how many, oldest first; those that stay count. Defaults to all that are dead now.
            entries: only these, by `DeadLetter.entry`.
            force: redrive these, too. Defaults to False.
        """
        return self._run(inspection.redrive(self._spec, n, tuple(entries), force=force))

    def drop_dead_letters(self, *entries: str) -> int:
        """Delete dead letters for good by `DeadLetter.entry`, and return how many."""
        return self._run(inspection.drop_dead_letters(self._spec, entries))

    def drain(self) -> int:
        """Put all leased and delayed messages back on the list, and return how many.

        A bare RPOP can then take every message (LPOP, if the queue is popped from the left). The
        record of the left end is deleted. Stop the consumers first, because this ends their
        leases. Delayed messages become ready at once, and receive counts are lost.
        """
        return self._run(inspection.drain(self._spec))

    def audit(self, repair: bool = False) -> AuditReport:
        """Check every record of the queue for inconsistencies, in calls of bounded length.

        Args:
            repair: repair what can be repaired. An orphan body becomes ready, a record without
                a body goes to the dead letters, and an expiry is removed. Nothing is deleted.
                Groups get the slots of their messages in flight, and their turns, if these are
                wrong; slots are compared if at most 1,000 messages of groups are in flight.
                If claims of the left end have lost the record of that end, only that is reported
                and, unless messages are taken from the right now, repaired: audit once more.
        """
        return self._run(inspection.audit(self._spec, repair))
