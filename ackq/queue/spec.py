"""A queue as operations see it: keys, settings, and the limits of its connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from redis.exceptions import ResponseError

from ackq.config import QueueConfig, microseconds
from ackq.core.chunks import GROUPED_CHUNK, SETTLE_CHUNK
from ackq.core.effects import Arg, Operation
from ackq.core.outside import Outside
from ackq.core.waits import Emptiness
from ackq.queue import record
from ackq.queue.keys import QueueKeys
from ackq.queue.record import PushCheck


@dataclass(frozen=True)
class QueueSpec:
    """One queue."""

    name: str
    keys: QueueKeys
    config: QueueConfig
    #: Random numbers and the time of day.
    outside: Outside = field(kw_only=True, repr=False, compare=False)
    #: Longest wait in seconds of a single consumer, below the connection's read timeout.
    block_limit: float = 1.0
    #: Shared by the consumers of this client.
    emptiness: Emptiness = field(default_factory=Emptiness, init=False, repr=False, compare=False)
    #: Checks the end onto which this client pushes.
    push_check: PushCheck = field(default_factory=PushCheck, init=False, repr=False, compare=False)
    #: The record of the settings that this client was given, once it uses others; see `adopt`.
    given: str | None = field(default=None, repr=False, compare=False)

    def adopt(self, settings: Mapping[str, Any]) -> None:
        """Use the recorded limits from now on: they were changed while this client worked."""
        object.__setattr__(self, "given", self.given or record.text_of(self.config))
        object.__setattr__(self, "config", self.config.changed(settings))
        self.__dict__.pop("pop_settings", None)

    @cached_property
    def lease(self) -> int:
        """The visibility timeout in microseconds."""
        return microseconds(self.config.visibility_timeout, "visibility_timeout")

    @cached_property
    def group_field(self) -> str | None:
        """The member that names the group of a message; None without groups."""
        return self.config.groups.field if self.config.groups is not None else None

    @cached_property
    def settle_chunk(self) -> int:
        """Most messages that one call acks."""
        return GROUPED_CHUNK if self.keys.grouped else SETTLE_CHUNK

    @cached_property
    def push_command(self) -> tuple[Arg, ...]:
        """The command that pushes behind the ready messages, up to the messages."""
        return (b"RPUSH" if self.keys.pop_from == "left" else b"LPUSH", self.keys.ready)

    @cached_property
    def pop_keys(self) -> tuple[Arg, ...]:
        """The first arguments of every call of the pop script."""
        passed = self.keys.passed(self.pop_script)
        if not self.outside.taker:
            return passed
        return (len(passed), *passed[1:], self.keys.taken(self.outside.taker))

    @cached_property
    def ack_keys(self) -> tuple[Arg, ...]:
        """The first arguments of every call of the ack script."""
        return self.keys.passed("ack")

    @cached_property
    def pop_script(self) -> str:
        """The name of the script that takes messages."""
        return "groups/pop" if self.keys.grouped else "pop"

    @cached_property
    def pop_settings(self) -> tuple[Arg, ...]:
        """The queue's settings as arguments of the pop script."""
        config = self.config
        limits = (config.max_receives or 0, config.max_body_bytes)
        if config.grouped:
            return (*limits, record.text_of(config))
        return (*limits, config.requeue, config.pop_from)

    def raise_for_reply(self, error: ResponseError) -> Operation[NoReturn]:
        """Raise the error that a reply means.

        Raises:
            PopFromMismatch: the queue is popped from the other end.
            GroupsMismatch: the groups of the queue and of this client differ.
            KeyTypeError: a key has another type.
            ResponseError: ``error`` itself, if it is another one.
        """
        yield from record.raise_for_reply(self, error)
        raise error  # only for mypy: the line before always raises
