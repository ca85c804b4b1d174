"""Where metrics, tracing and error reports hook into a worker."""

from __future__ import annotations

from collections.abc import Iterable

from ackq.queue.messages import Message
from ackq.worker.logs import log


class Hooks:
    """Override what is wanted. Each is called in the thread or task of the handler, but for
    `lost_lease`, and must be quick; what it raises is logged and changes nothing.
    """

    def before(self, message: Message) -> None:
        """The handler is about to be called."""

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        """The handler has ended.

        Args:
            message: what it was given.
            outcome: "ack", "nack", "reject", "release" or "lost" (its lease was, so it is settled
                by whoever holds it now). The settling itself follows within 50 ms.
            seconds: how long the handler took.
        """

    def error(self, message: Message, error: BaseException) -> None:
        """The handler raised something that is no verdict, or was over its time limit."""

    def lost_lease(self, message: Message) -> None:
        """Somebody else holds the message now, or will."""


def call(hooks: Iterable[Hooks], name: str, *args: object) -> None:
    """Call one hook of each, and log what fails: the message goes on."""
    for each in hooks:
        try:
            getattr(each, name)(*args)
        except BaseException as error:
            log.error("hook %s.%s failed: %s", type(each).__name__, name, type(error).__name__)
