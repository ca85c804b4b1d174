"""Hooks for metrics, tracing and error reports in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ackq.queue.messages import Message
from ackq.worker.logs import log
from ackq.worker.slot import Lent
from ackq.worker.verdicts import check_blocking


class Hooks:
    """Override the methods that you need. They must be quick. `before`, `after` and `error` run in
    the handler's thread or task. An exception in a hook is logged and has no other effect. A hook
    gets a copy of the message, as the handler does.
    """

    def taken(self, queue: str, messages: Sequence[Message]) -> None:
        """Run when messages have arrived in this worker, before they wait for a handler.

        Args:
            queue: the queue's name; of a sharded queue, its name and not that of a shard.
            messages: at least one.
        """

    def before(self, message: Message) -> None:
        """Run before the handler is called."""

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        """Run after the handler has ended.

        Args:
            message: the message that the handler received.
            outcome: "ack", "nack", "reject", "release", "lost" if the lease was lost, or
                "canceled" if an operator canceled the message meanwhile. The worker settles the
                message within 50 ms, unless it was lost or canceled.
            seconds: how long the handler took.
        """

    def error(self, message: Message, error: BaseException) -> None:
        """Run when the handler raised anything but a verdict, or exceeded its time limit."""

    def dead(self, message: Message) -> None:
        """Run when this worker moved the message to the dead letters.

        A message whose last lease ended becomes a dead letter at another consumer's pop; no hook
        runs for it.
        """

    def lost_lease(self, message: Message) -> None:
        """Run when the message's lease is lost: another consumer has it, or will receive it.

        Or an operator has canceled it: then ``message.canceled`` is True.
        """


class Supervised(Hooks):
    """Hooks of a worker process whose supervisor can run a message in another process."""

    def hand_over(self, message: Message) -> bool:
        """Let the supervisor run a message alone. Return False if it cannot take it now."""
        raise NotImplementedError


def check(hooks: Iterable[Hooks]) -> None:
    """Check that calling a hook runs it.

    Raises:
        ConfigurationError: it is asynchronous, or has a yield.
    """
    for hook in hooks:
        for name in (name for name in vars(Hooks) if not name.startswith("_")):
            check_blocking(getattr(hook, name), f"hook {type(hook).__name__}.{name}")


def call(hooks: Iterable[Hooks], name: str, *args: object) -> None:
    """Call one hook of each object. Log exceptions; they do not affect the message."""
    for hook in hooks:
        # The hooks of a worker process change nothing, so they need no copies.
        given = args if isinstance(hook, Supervised) else map(_lent, args)
        try:
            getattr(hook, name)(*given)
        except BaseException as error:
            log.error("hook %s.%s failed: %s", type(hook).__name__, name, type(error).__name__)


def _lent(argument: Any) -> Any:
    if isinstance(argument, Message):
        return Lent(argument)
    return [*map(Lent, argument)] if isinstance(argument, list) else argument
