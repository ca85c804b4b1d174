"""Read the counts of a queue or topic from Spark's progress of a query."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of one source of a query after one micro-batch."""

    #: The claim of the batch, or the last index that it read.
    batch: int
    #: Number of rows in the batch.
    rows: int
    #: Messages that are ready, counted at most a second ago. For a topic, the indexes after the
    #: batch.
    lag: int
    #: Messages in claims of this query and others; 0 for a topic.
    claimed: int
    #: Claims of this query that are not acked; 0 for a topic.
    open_claims: int
    delayed: int
    dead: int


def source_progress(source: SourceProgress) -> QueueProgress | None:
    """Return the counts in ``query.lastProgress.sources[n]``, or None if it is not an ackq source.

    They are in ``latestOffset``, the only field that a source written in Python can fill.
    """
    try:
        end, seen = json.loads(source.endOffset or "{}"), json.loads(source.latestOffset or "{}")
    except ValueError:
        return None
    if not isinstance(end, dict) or not isinstance(seen, dict) or "version" not in end:
        return None
    if "batch" not in end:
        read = end.get("index", 0)
        return QueueProgress(read, source.numInputRows, seen.get("index", read) - read, 0, 0, 0, 0)
    return QueueProgress(
        batch=end["batch"],
        rows=source.numInputRows,
        lag=seen.get("ready", 0),
        claimed=seen.get("claimed", 0),
        open_claims=seen.get("open", 0),
        delayed=seen.get("delayed", 0),
        dead=seen.get("dead", 0),
    )
