"""`report`: read many queues, and count what is dead and in flight."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from ackq.core.ids import usable_id
from ackq.core.inspection_results import DeadLetter, PeekedMessage
from ackq.errors import ConfigurationError
from ackq.ops.dead_letters import every
from ackq.ops.kinds import only_part
from ackq.ops.kinds.kind import Redis
from ackq.ops.kinds.lists import open_list
from ackq.ops.overview import Overview
from ackq.ops.report.summary import Row, State, Summary, summarise
from ackq.queue.client import Queue
from ackq.queue.messages import QueueStats

#: Messages in flight per call.
PAGE = 500
#: Rows of a group in a Parquet file, which are kept in memory.
GROUP = 50_000
#: The last time that Python has, in seconds since the epoch.
_LATEST = 253_402_300_799


def report(
    client: Redis,
    queues: Iterable[str] = (),
    *,
    parquet: str | Path | None = None,
) -> Summary:
    """Report the dead letters and the messages in flight of list queues.

    Takes and changes no messages, and contains no bodies. A report is not a snapshot: messages that
    are taken or settled in the meantime may be missing or appear twice.

    Args:
        client: of the server.
        queues: names of the queues. Defaults to all queues found.
        parquet: a folder. Each report adds a partition ``taken=<time>`` with one row per message,
            so you can look up messages that have been redriven or dropped since. Requires the
            extra ``report``.

    Raises:
        ConfigurationError: PyArrow is missing.
        OSError: a file or folder cannot be written.
        redis.ConnectionError: Redis cannot be reached.
        KeyTypeError: the key of a named queue is of another type.
    """
    if parquet is not None and find_spec("pyarrow") is None:
        raise ConfigurationError("the files need PyArrow: pip install 'ackq[report]'")
    with Overview(client, tuple(queues)) as overview:
        snapshot = overview.read()
    snapshot.check()
    taken_at = time.time() if snapshot.at is None else snapshot.at
    readings = (part for queue in snapshot.queues for part in (queue, *queue.parts))
    stats = {each.name: each.stats for each in readings if each.stats is not None}
    stats = dict(sorted(stats.items()))
    rows = _rows(client, stats)
    if parquet is not None:
        # Some file systems do not allow colons in names.
        name = f"taken={_time(taken_at):%Y-%m-%dT%H-%M-%SZ}"
        rows = _written(rows, Path(parquet) / name)
    return summarise(rows, stats)


def _rows(client: Redis, queues: Mapping[str, QueueStats]) -> Iterator[Row]:
    for name, stats in queues.items():
        with closing(open_list(client, name)) as opened:
            part = only_part(opened)
            for letter in every(part) if stats.dead else ():
                yield _row(name, letter, letter.died_at, letter.entry, letter.reason)
            assert isinstance(part, Queue)
            for skip in range(0, stats.in_flight, PAGE):
                for each in part.peek(PAGE, "in_flight", skip=skip):
                    yield _row(name, each, each.at or 0.0)


def _row(
    queue: str,
    message: DeadLetter | PeekedMessage,
    at: float,
    entry: str | None = None,
    reason: str | None = None,
) -> Row:
    state: State = "in_flight" if entry is None else "dead"
    body, receives = message.body, message.receive_count
    return Row(queue, state, usable_id(body), entry, reason, receives, _time(at), len(body))


def _time(seconds: float) -> datetime:
    # Other clients write any number.
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LATEST), UTC)


def _written(rows: Iterator[Row], folder: Path) -> Iterator[Row]:
    """Yield rows after writing them to a file, which gets its name when it is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = dict.fromkeys(("queue", "state", "id", "entry", "reason"), pa.string())
    numbers = dict.fromkeys(("receive_count", "bytes"), pa.int64())
    schema = pa.schema({**text, **numbers, "at": pa.timestamp("us", "UTC")})
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".rows.{os.getpid()}"
    try:
        with pq.ParquetWriter(draft, schema) as writer:
            while group := list(islice(rows, GROUP)):
                writer.write_table(pa.Table.from_pylist([*map(asdict, group)], schema))
                yield from group
        draft.replace(folder / "rows.parquet")
    finally:
        draft.unlink(missing_ok=True)
