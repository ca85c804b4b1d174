"""One queue in full: its figures, totals, causes of death, consumers, parts and workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackq.cli.tables import STYLES
from ackq.cli.times import local_time, short_time
from ackq.escaping import printable
from ackq.ops.figures import count, rate, span
from ackq.ops.kinds import KINDS
from ackq.ops.samples import Key, Row

if TYPE_CHECKING:
    import redis
    from rich.text import Text

    from ackq.ops.dead_letters import Causes
    from ackq.ops.readings import Reading
    from ackq.ops.worker_info import WorkerInfo
    from ackq.queue.messages import GroupStats

#: Seconds after which causes and workers are read again. Workers send heartbeats as often.
FRESH = 5.0
#: Most shards whose workers are read.
MAX_SHARDS = 100
#: Groups that are shown, and how many are looked at for them on each shard.
GROUPS, WALKED = 10, 1000
#: The cause of a message that was rejected without an error or a reason.
NO_REASON = "(no reason given)"
#: Lines of the screen that are not those of the queue.
FRAME = 1
#: What the keys do.
KEYS = "q quit  enter, esc back  arrows, j, k, PgUp, PgDn scroll"


@dataclass(frozen=True, slots=True)
class Detail:
    """What is read only of a queue that is opened. None: unknown, for the reason in ``problem``."""

    causes: Causes | None = None
    workers: Sequence[WorkerInfo] | None = None
    problem: str = ""
    groups: Sequence[GroupStats] = ()


class Details:
    """Reads the details of the opened queue, at most once in `FRESH` seconds."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._key: Key | None = None
        self._read_at = 0.0
        self._detail = Detail()

    def of(self, row: Row) -> Detail:
        """Return the details of a queue.

        Raises:
            redis.ConnectionError: Redis cannot be reached.
        """
        now = time.monotonic()
        if self._key != row.key or now - self._read_at >= FRESH:
            self._detail = _read(self._client, row.reading)
            self._key, self._read_at = row.key, time.monotonic()
        return self._detail


def _read(client: redis.Redis, reading: Reading) -> Detail:
    from redis.exceptions import ResponseError

    from ackq.errors import AckqError
    from ackq.ops.dead_letters import causes_of
    from ackq.ops.kinds import opened
    from ackq.ops.workers import workers
    from ackq.queue.group_stats import ranked

    causes, working, problem = None, None, ""
    groups: list[GroupStats] = []
    names = [part.name for part in reading.parts or (reading,) if part.kind == "list"]
    try:
        causes = causes_of(client, reading)
        working = workers(client, names[:MAX_SHARDS]) if names else None
        for name in names[:MAX_SHARDS] if reading.groups else ():
            with opened(client, "list", name, "peek") as queue:
                groups += queue.client.groups(GROUPS, within=WALKED)
    except (ResponseError, AckqError) as error:  # this user may not look
        problem = str(error)
    return Detail(causes, working, problem, ranked(groups, GROUPS, "waiting"))


def lines(row: Row, detail: Detail) -> Iterator[tuple[str, str]]:
    """Yield each line of a queue's page with its style. All text of others is escaped."""
    reading = row.reading
    yield (
        f"{printable(reading.name)}  ({reading.kind}{', paused' if reading.paused else ''})",
        ("bold"),
    )
    for trouble in row.troubles:
        yield f"! {trouble.evidence}. See: {trouble.help}", STYLES[trouble.severity]
    yield _pairs({"backlog": reading.backlog, **reading.states}), ""
    yield "   ".join(f"{name} {rate(per_second)}/s" for name, per_second in row.rates.items()), ""
    yield "   ".join(_ages(reading)), "yellow" if reading.overdue else ""
    if reading.totals:
        since = local_time(reading.totals.since)
        columns = [_pairs(reading.totals.counts), _pairs(reading.totals.dead)]
        yield from _section(f"Totals since {since}" if since else "Totals", columns)
    yield from _causes(reading, detail)
    yield from _groups(reading, detail)
    behind = sorted(reading.lags.items(), key=lambda lag: (-lag[1], lag[0]))
    yield from _section(
        "Consumers", [f"{count(lag):>10} behind  {printable(name)}" for name, lag in behind]
    )
    yield from _section(
        f"{KINDS[reading.kind].part}s".capitalize(),
        [f"{printable(part.name)}  {_pairs(part.states)}" for part in reading.parts],
    )
    if detail.workers is not None:
        yield from _section(
            "Workers", [line for worker in detail.workers for line in _worker(worker)] or ["none"]
        )
    if detail.problem:
        yield "", ""
        yield printable(detail.problem), "red"


def wrapped(row: Row, detail: Detail, width: int) -> list[Text]:
    """Return the lines, wrapped to a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=width)
    texts: list[Text] = []
    for text, style in lines(row, detail):
        texts += Text(text, style).wrap(console, width) or [Text("")]
    return texts


def _section(title: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    if any(texts):
        yield "", ""
        yield title, "bold"
        yield from ((f"  {line}", "") for line in texts if line)


def _pairs(counts: Mapping[str, int]) -> str:
    return "   ".join(
        f"{printable(name).replace('_', ' ')} {count(number)}" for name, number in counts.items()
    )


def _ages(reading: Reading) -> Iterator[str]:
    yield f"oldest ready {span(reading.oldest_ready)}"
    yield f"oldest lease {span(reading.lease_age)}"
    if reading.overdue:
        yield f"a lease ended {span(reading.overdue)} ago, and its message is not redelivered"


def _causes(reading: Reading, detail: Detail) -> Iterator[tuple[str, str]]:
    if detail.causes is None or not detail.causes.counts:
        return
    read, dead = detail.causes.read, reading.states.get("dead", 0)
    title = "Dead letters by cause"
    if read < dead:
        title += f", the {read:,} oldest of {dead:,}"
    yield from _section(
        title,
        [
            f"{count(number):>7}  {printable(cause) or NO_REASON}"
            for cause, number in detail.causes.counts
        ],
    )


def _groups(reading: Reading, detail: Detail) -> Iterator[tuple[str, str]]:
    counts = reading.groups
    if counts is None:
        return
    moved = f"{count(counts.moved_aside)} messages moved aside"
    states = {
        "in flight": counts.in_flight,
        "ready": counts.ready,
        "limited": counts.limited,
        "stopped": counts.stopped,
    }
    yield from _section(
        "Groups",
        [
            f"{_pairs(states)}   {moved}   the first is ready for {span(counts.turn_for)}",
            *(
                f"{count(group.waiting):>10} waiting  {count(group.in_flight):>6} in flight"
                f"  {span(group.oldest):>8}  {printable(group.name)}"
                f"{'  stopped' if group.stopped_by else ''}"
                for group in detail.groups
            ),
        ],
    )


def _worker(worker: WorkerInfo) -> Iterator[str]:
    state = ", ".join(
        [
            worker.state,
            *(["late"] if worker.late else []),
            *([f"{worker.order} ordered"] if worker.order else []),
        ]
    )
    yield printable(
        f"{worker.name}  {state}  {worker.busy} of {worker.concurrency} busy  "
        f"{worker.host}, process {worker.pid}  since {short_time(worker.started_at)}"
    )
    for message in worker.running:
        runs = span(max(0.0, worker.seen_at - message.since))
        yield f"  {runs:>7}  {printable(message.message_id)}"
