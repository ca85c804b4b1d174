"""What can be done with one message: make it ready now, or cancel it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from urllib.parse import unquote

from ackq.errors import ConfigurationError
from ackq.ops.kinds import kind_for, opened
from ackq.ops.kinds.kind import Redis
from ackq.web import format
from ackq.web.requests import Ask, Preview, short

#: The result for a message that was taken, settled or delayed again since the page was loaded.
CHANGED = "nothing: the message was taken, settled or delayed again"
#: The same for messages named by their id.
NOT_READY = "nothing: no message with this id is ready or delayed"
NOT_THERE = "nothing: no message with this id is ready, delayed or in flight"
TOO_DEEP = f"{NOT_READY}, or the list is long and it is far from both ends"


@dataclass(frozen=True, slots=True)
class MessageActions:
    """Acts on a message that is named by `Ask.key`, or on all that `Ask.id` names."""

    client: Redis

    def run_now(self, ask: Ask) -> str:
        """Make it the next one to be delivered, and return the result."""
        with opened(self.client, ask.kind, ask.name, "cancel" if ask.id else "run_now") as queue:
            if ask.id:
                moved = queue.client.run_now(ids=[ask.id])
                return f"{format.messages(moved)} ready now" if moved else TOO_DEEP
            done = queue.kind.run_now(queue.client, ask.key)
        return "ready" if done else CHANGED

    def cancel(self, ask: Ask, running: bool) -> str:
        """Cancel it, and return the result."""
        with opened(self.client, ask.kind, ask.name, "cancel" if ask.id else "run_now") as queue:
            if ask.id:
                count = queue.client.cancel(ids=[ask.id], running=running)
                if not count:
                    return NOT_THERE if running else NOT_READY
                return f"{format.messages(count)} canceled"
            done = queue.client.cancel(ask.key)
            canceled = "canceled, now a dead letter" if queue.kind.keeps_canceled else "canceled"
        return canceled if done else CHANGED

    def preview_cancel(self, ask: Ask, running: bool) -> Preview:
        """Return what canceling would do."""
        if ask.id:
            return self._preview_of_id(ask, running)
        which = f"The message {message_of(ask)} of {short(ask.name)}"
        if kind_for("run_now", ask.kind).keeps_canceled:
            return Preview(
                ask,
                "Cancel a delayed message",
                f"{which} moves to the dead letters with the cause"
                " “canceled”. It is not delivered unless you redrive it.",
            )
        return Preview(
            ask,
            "Cancel a message",
            f"{which} is deleted and will not be delivered.",
            "It cannot be restored.",
        )

    def _preview_of_id(self, ask: Ask, running: bool) -> Preview:
        with opened(self.client, ask.kind, ask.name, "cancel") as queue:
            by_state = Counter(each.state for each in queue.client.find_all(ask.id))
        states = ("in_flight", "ready", "delayed") if running else ("ready", "delayed")
        counts = [f"{by_state[each]} {each.replace('_', ' ')}" for each in states if by_state[each]]
        text = (
            f"Every message {message_of(ask)} of {short(ask.name)} that is"
            f" {'ready, delayed or in flight' if running else 'ready or delayed'} moves to the dead"
            " letters with the cause “canceled”. It is not delivered unless you redrive it."
            f" Found now: {', '.join(counts) or 'none'}."
        )
        if not running:
            return Preview(ask, "Cancel a message", text)
        return Preview(
            ask,
            "Cancel a running message",
            text,
            "Its worker notices when it renews the lease, and cancels an asynchronous handler. A"
            " function in a thread goes on, but its ack is refused.",
        )


def message_of(ask: Ask) -> str:
    """Return the id or key of a message for a sentence; without the due time in front of a key."""
    if ask.id or ask.kind != "list":
        return short(ask.id or ask.key)
    return short(unquote(ask.key.partition("-")[2], errors="surrogateescape"))


def check(ask: Ask) -> None:
    """Raise an error unless either an id or a key names the message.

    Raises:
        ConfigurationError: neither an id nor a key is given, or both are.
    """
    if bool(ask.id) == bool(ask.key):
        raise ConfigurationError("name a message by its id or by its key")
