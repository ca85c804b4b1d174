"""`RowDeadLetters`: appends rows of batches to a queue's dead letters, each once."""

from __future__ import annotations

from collections.abc import Iterable

import redis

from ackq.config import QueueConfig, microseconds
from ackq.core.client import Client
from ackq.core.io.outside import SYSTEM
from ackq.queue.keys import QueueKeys
from ackq.queue.row_dead_letters import RejectedRow, RowWriter, begin_batch, reject_rows
from ackq.queue.spec import QueueSpec

#: Longest time that the rows of a batch are remembered, in seconds: ten years.
MAX_WINDOW = 315_360_000.0


class RowDeadLetters(Client):
    """Appends to the dead letters of queue ``name`` for one writer, batch after batch.

    One process begins a batch, and any number of them write its rows.

    Guarantee: within ``window``, each row of the current batch is appended once, however often
    the batch is replayed and however it is divided. After that, at least once.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        name: str,
        writer: str,
        *,
        window: float = 30 * 86400.0,
    ) -> None:
        """Set up the client. Nothing is sent.

        Args:
            client: any redis-py client, as in `ackq.Queue`.
            name: the queue to whose dead letters the rows are added; it need not exist.
            writer: identifies the writer, such as a query id. It writes one batch at a time.
            window: seconds that the rows of the last batch are remembered. Defaults to 30 days.

        Raises:
            QueueNameError: the name cannot be used.
            ConfigurationError: the window is out of range.
        """
        keys = QueueKeys.of(name)
        window_ms = max(1, microseconds(window, "window", MAX_WINDOW) // 1000)
        super().__init__(client, name)
        spec = QueueSpec(name, keys, QueueConfig(), self._block_limit, outside=SYSTEM)
        self._row_writer = RowWriter(spec, writer, window_ms)

    def begin(self, batch: str) -> None:
        """Begin ``batch``, and discard the record of the previous one. Repeated calls do nothing.

        Cost: one round trip.

        Raises:
            KeyTypeError: a key has another type; nothing was changed.
        """
        self._run(begin_batch(self._row_writer, batch))

    def reject(self, batch: str, rows: Iterable[RejectedRow]) -> int:
        """Append the ``rows`` of ``batch`` that were not appended yet, and return how many.

        Cost: one round trip per 500 rows or 1 MiB of bodies.

        Raises:
            BatchSuperseded: another batch was begun, or none. The rows were not appended.
            KeyTypeError: a key has another type; nothing was changed.
        """
        return self._run(reject_rows(self._row_writer, batch, rows))
