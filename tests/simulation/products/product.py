"""What every product has besides, as simulated processes use it: its asyncio client."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from unittest import mock

import redis.asyncio

from ackq.core import client_async
from ackq.staging.operations import Delayed, Mover, StagingSpec
from tests.products import Product
from tests.products.product import Entries, Settings
from tests.simulation.steps import Driver, sleep

if TYPE_CHECKING:
    from tests.simulation.world import Life, World

#: The name of every queue and topic.
NAME = "{jobs}"
#: Seconds that a process waits in one blocking command, at most.
MAX_BLOCK = 0.3
#: Seconds without a heartbeat after which a consumer of a group counts as dead.
SESSION = 0.6

#: Rows to stage: those that are ready at once, and delayed ones.
Rows = tuple[list[bytes], list[Delayed]]


class Order(NamedTuple):
    """What an operator does to chosen messages."""

    verb: str  #: as the history names it; "" if it need not know
    ids: list[str]
    act: Callable[[], Awaitable[Any]]
    delay: float = 0.0
    #: Whether the request is sent again if its reply is lost, so that 0 may be a late answer.
    is_resent: bool = False


class SimulatedProduct(Product):
    """One product in one simulated process."""

    #: Seconds in which faults strike: some leases.
    chaos = 3.0
    #: Seconds that delayed pushes wait.
    delays: ClassVar[tuple[float, ...]] = (0.1, 0.7)
    #: Whether the server's clock may be set.
    sets_clock = True
    #: Whether an operator is at work in some histories; see `plan`.
    is_operated = False
    #: What operators do, by the verbs of histories.
    chosen: ClassVar[tuple[str, ...]] = ()
    #: How many messages in a row have the same id.
    sharers = 1
    #: Whether producers stage rows and commit them in batches; see `staging`.
    is_staged = False

    @staticmethod
    def draw_settings(draw: random.Random) -> Settings:
        """Draw the settings that all processes of a history have."""
        return {"max_receives": draw.choice((None, None, 2, 4)), "salt": draw.randrange(1 << 30)}

    @classmethod
    @contextlib.contextmanager
    def environment(cls, world: World) -> Iterator[None]:
        """Let the processes of this product live in this world."""
        with mock.patch.object(client_async, "Driver", Driver):
            yield

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.queue = self._open(redis.asyncio.Redis(socket_timeout=2 * MAX_BLOCK))

    def _open(self, client: redis.asyncio.Redis) -> Any:
        """Return a client of ackq."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        await sleep(seconds)

    def background(self) -> Life | None:
        """Return what the process does beside its work, if anything, until that ends."""
        return None

    async def plan(self, draw: random.Random) -> Order | None:
        """Look at the queue, and return what an operator does next, if anything."""
        raise NotImplementedError

    def staging(self, writer: str) -> tuple[StagingSpec, Mover]:
        """Return where a writer stages its rows, and what moves them in after a commit."""
        raise NotImplementedError

    def rows(self, entries: Entries, due: int | None) -> Rows:
        """Return messages as rows to stage: those that are ready at once, and delayed ones.

        ``due``: when all are ready, in µs by the server's clock. None: at once.
        """
        raise NotImplementedError
