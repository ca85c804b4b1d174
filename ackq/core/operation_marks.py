"""Which operations an observer sees: those with a decorator above their definition.

    @observed(Settle("nack"))
    def nack(spec, messages, ...) -> Operation[int]: ...

The decorator only makes an entry in a table: it costs a call nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ackq.core.fencing import unpacked

Args = tuple[Any, ...]
Observed = TypeVar("Observed", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Send:
    """A push of one message, or of several."""

    name: str
    #: The position of the message or messages among the arguments.
    at: int = 1
    many: bool = False

    def messages(self, args: Args) -> tuple[Args, Sequence[Any]]:
        """Return the arguments, which can be read again, and the messages among them."""
        if not self.many:
            return args, (args[self.at],)
        return _listed(args, self.at)


@dataclass(frozen=True, slots=True)
class Receive:
    """A take of up to as many messages as the argument at position ``wanted`` says."""

    name: str
    wanted: int = 1
    #: The position of the messages to settle in the same call; 0: there are none.
    settles: int = 0
    #: What that settle is called.
    settled_as: str = ""

    def settled(self, args: Args) -> tuple[Args, Sequence[Any]]:
        """Return the arguments, which can be read again, and the messages that are settled."""
        return _unpacked(args, self.settles) if self.settles else (args, ())

    def group(self, args: Args) -> str | None:
        """Return the id of a topic's consumer."""
        return str(args[1]) if self.settled_as == "commit" else None


@dataclass(frozen=True, slots=True)
class Settle:
    """A settle of messages, batches or ids."""

    name: str
    at: int = 1

    def messages(self, args: Args) -> tuple[Args, Sequence[Any]]:
        """Return the arguments, which can be read again, and what is settled."""
        return _unpacked(args, self.at)

    def named(self, settings: Mapping[str, Any]) -> str:
        """Return the name of the client's method: a nack that does not count is a release."""
        return self.name if settings.get("charge", True) else "release"


#: The observed operations. A product's are in it once the product is imported.
OBSERVED: dict[Callable[..., Any], Send | Receive | Settle] = {}


def observed(what: Send | Receive | Settle) -> Callable[[Observed], Observed]:
    """Let observers see an operation. Clients call it through ``_perform``."""

    def register(operation: Observed) -> Observed:
        OBSERVED[operation] = what
        return operation

    return register


def _unpacked(args: Args, at: int) -> tuple[Args, Sequence[Any]]:
    """Return the arguments with the messages to settle at ``at``, not in lists, and these."""
    args, given = _listed(args, at)
    messages = unpacked(given)
    return (*args[:at], messages, *args[at + 1 :]) if given else args, messages


def _listed(args: Args, at: int) -> tuple[Args, Sequence[Any]]:
    """Return the arguments with a sequence at ``at``: an iterator could be read only once."""
    given = args[at]
    if hasattr(given, "lease_lost"):  # one message, instead of several
        return args, (given,)
    if isinstance(given, list | tuple) or not isinstance(given, Iterable):
        # The operation itself refuses what is not iterable.
        return args, given if isinstance(given, Sequence) else ()
    listed = tuple(given)
    return (*args[:at], listed, *args[at + 1 :]), listed
