"""Hooks for metrics, tracing and error reports in a worker."""

from __future__ import annotations

from collections.abc import Iterable

from ackq.queue.messages import Message
from ackq.worker.logs import log


class Hooks:
    """Override the methods that you need. All but `lost_lease` and `dead` run in the handler's
    thread or task, and must be quick. An exception in a hook is logged and has no other effect.
    """

    def before(self, message: Message) -> None:
        """Run before the handler is called."""

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        """Run after the handler has ended.

        Args:
            message: the message that the handler received.
            outcome: "ack", "nack", "reject", "release", or "lost" if the lease was lost: then
                the worker does not settle the message. Otherwise it does so within 50 ms.
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
        """Run when the message's lease is lost: another consumer has it, or will receive it."""


def call(hooks: Iterable[Hooks], name: str, *args: object) -> None:
    """Call one hook of each object. Log exceptions; they do not affect the message."""
    for hook in hooks:
        try:
            getattr(hook, name)(*args)
        except BaseException as error:
            log.error("hook %s.%s failed: %s", type(hook).__name__, name, type(error).__name__)
