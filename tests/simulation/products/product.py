"""What every product has, as simulated processes use it: operations of ackq over one queue."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ackq.core.effects import Operation
from ackq.core.inspection_results import DeadLetter
from ackq.staging.operations import Delayed, Mover, StagingSpec

if TYPE_CHECKING:
    from tests.simulation.world import Life, World

#: Of every queue and topic.
NAME = "{jobs}"
#: Seconds that a lease lasts.
LEASE = 0.5
#: Seconds that a process waits in one blocking command, at most.
MAX_BLOCK = 0.3
#: Seconds without a heartbeat after which a consumer of a group counts as dead.
SESSION = 0.6

Settings = Mapping[str, Any]


class Got(NamedTuple):
    """A message as its consumer receives it."""

    body: bytes
    received: int | None  #: how often
    until: float | None  #: end of the lease by the server's clock
    handle: Any  #: what settles it


class Order(NamedTuple):
    """What an operator does to chosen messages."""

    verb: str  #: as the history names it; "" if it need not know
    ids: list[str]
    act: Callable[[], Operation[Any]]
    delay: float = 0.0
    #: Whether the request is sent again if its reply is lost, so that 0 may be a late answer.
    is_resent: bool = False


class Product:
    """One product in one process."""

    #: Seconds that a lease lasts.
    lease = LEASE
    #: Seconds in which faults strike: some leases.
    chaos = 3.0
    #: Seconds that delayed pushes wait.
    delays: ClassVar[tuple[float, ...]] = (0.1, 0.7)
    #: What may become of a message, with weights: "fused" is an ack with the next take.
    verbs: ClassVar[dict[str, int]] = {"ack": 40, "nack": 20, "release": 15, "fused": 25}
    #: Settings of the checker.
    rules: ClassVar[dict[str, Any]] = {}
    #: Seconds by which the ends of delays are rounded.
    rounded = 0.0
    #: Share of pushes that are delayed.
    delayed = 0.0
    #: Whether the server's clock may be set.
    sets_clock = True
    #: What a fused ack that was not refused is: "gone" if it may have been applied before.
    fused = "ok"
    #: Whether an operator is at work in some histories; see `plan`.
    is_operated = False
    #: How many messages in a row have the same id.
    sharers = 1
    #: Whether an error lists which messages of a push are stored.
    is_accounted = False
    #: Whether producers stage rows and commit them in batches; see `staging`.
    is_staged = False

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        """Draw the settings that all processes of a history have."""
        return {"max_receives": draw.choice((None, None, 2, 4)), "salt": draw.randrange(1 << 30)}

    @classmethod
    def environment(cls, world: World) -> contextlib.AbstractContextManager[None]:
        """Return the context in which the processes of this product live."""
        return contextlib.nullcontext()

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def background(self) -> Life | None:
        """Return what the process does beside its work, if anything, until that ends."""
        return None

    def close(self) -> Operation[None]:
        """End the work of this process in order."""
        return
        yield

    def prepare(self) -> Operation[None]:
        """Set up what must exist before the first push."""
        return
        yield

    def push(
        self, entries: Sequence[tuple[str, bytes]], delay: float, is_once: bool
    ) -> Operation[dict[str, Any]]:
        """Store messages; return what the history is to know besides: the index, of a topic.

        ``is_once``: if the reply is lost, push again, unless the first push is known to be stored.
        """
        raise NotImplementedError

    def take(
        self, n: int, timeout: float | None, done: Sequence[Any]
    ) -> Operation[tuple[list[Got], dict[str, Any]]]:
        """Take messages, and ack ``done`` in the same call; return reader and index, of a topic."""
        raise NotImplementedError

    def settle(self, verb: str, handles: Sequence[Any], delay: float) -> Operation[int]:
        """Settle messages, and return how many."""
        raise NotImplementedError

    def stored(self) -> Operation[int]:
        """Return how many messages are stored, in any state but dead."""
        raise NotImplementedError

    def left(self) -> Operation[dict[str, Any]]:
        """Return ``dead`` and ``findings`` of the history's last event."""
        return {"dead": [], "findings": []}
        yield

    def plan(self, draw: random.Random) -> Operation[Order | None]:
        """Look at the queue, and return what an operator does next, if anything."""
        raise NotImplementedError

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        """Return where a writer stages its rows, and what moves them in after a commit."""
        raise NotImplementedError

    def rows(
        self, entries: Sequence[tuple[str, bytes]], due: int | None
    ) -> tuple[list[bytes], list[Delayed]]:
        """Return messages as rows to stage: those that are ready at once, and delayed ones.

        ``due``: when all are ready, in µs by the server's clock. None: at once.
        """
        raise NotImplementedError


def bodiless(dead: Sequence[DeadLetter]) -> list[str]:
    """Return what is wrong with dead letters: a key of the queue had lost their bodies."""
    return [f"{each.id}: {each.reason}" for each in dead if each.reason == "body missing"]
