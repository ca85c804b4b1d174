"""Read the figures of list queues, as operations: of many together, or of one alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from ackq import scripts
from ackq.core.creation_time import CLOUDEVENT
from ackq.core.effects import Arg, Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.errors import AckqError, GroupsMismatch, KeyTypeError, PopFromMismatch
from ackq.ops.readings import Asked, Reading, backlog_of, due_soon, lease_age, totals_of, watched
from ackq.ops.trials import is_denial
from ackq.queue import inspection
from ackq.queue.keys import QueueKeys, Stage
from ackq.queue.messages import QueueCounters, QueueStats
from ackq.queue.record import recorded
from ackq.queue.spec import QueueSpec
from ackq.queue.stages import stage_of

#: Queues of one call, which takes the server about half a millisecond.
TOGETHER = 25
#: Most workers of a shard that are counted.
MAX_WORKERS = 1000
#: The suffixes of the keys that are read together, in the order of the script.
_KEYS = tuple(
    name.removeprefix("{name}").encode() for name, _ in scripts.load("overview/lists").keys
)
#: A shard, or what concerns all shards of a queue.
_SHARD = re.compile(r"\{[^{}]+(?::\d+(?:\.\d+)?\}|\}:all)")


def may_be_together(name: str, asked: Asked) -> bool:
    """Return whether a list queue can be read by `read_together`.

    Of shards the workers are needed by id, and messages that are due soon are rarely asked for.
    """
    return (
        name not in asked.alone
        and asked.due_within is None
        and not (name[0] == "{" and _SHARD.fullmatch(name))
    )


def read_together(names: Sequence[str], asked: Asked) -> Operation[list[Reading | Exception]]:
    """Return the figures of several list queues, or why one cannot be read.

    They are read in one call if the server allows it. In a cluster, their keys must be in one slot.
    """
    readings: list[Reading | Exception] = []
    while len(readings) < len(names):
        rest = names[len(readings) :]
        try:
            now, *figures = yield _request(rest, asked)
        except ResponseError as error:
            now, figures = 0, [str(error).encode()] * len(rest)
        for name, counts in zip(rest, figures, strict=False):
            if isinstance(counts, list):
                readings.append(_of_figures(name, now, counts, asked))
            else:
                # This shows what is wrong, or reads a queue that is popped from the left.
                if is_denial(ResponseError(counts.decode(errors="replace"))):
                    asked.alone.add(name)  # the server logs each denial
                readings.append((yield from _or_error(name, asked)))
    return readings


def _request(names: Sequence[str], asked: Asked) -> Request:
    keys = [raw + suffix for raw in map(str.encode, names) for suffix in _KEYS]
    window = 0 if asked.window is None else max(1, round(asked.window * 1000))
    field = asked.config.time_field or CLOUDEVENT
    return Request(
        (len(keys), *keys, window, CLOUDEVENT, field),
        script=scripts.load("overview/lists"),
        resend=True,
    )


def _of_figures(name: str, now: int, figures: Sequence[Any], asked: Asked) -> Reading:
    workers, live, held, pairs = figures[17:]
    stats = inspection.read_stats(figures[:14])
    oldest = inspection.read_oldest((now, *figures[14:17]), asked.config.time_field)
    counted = None
    if pairs:
        counts = dict(zip(pairs[::2], map(int, pairs[1::2]), strict=True))
        counted = inspection.read_counters(now, live, held, counts)
    return _reading(name, stats, oldest, counted, workers if workers >= 0 else None)


def _or_error(name: str, asked: Asked) -> Operation[Reading | Exception]:
    try:
        return (yield from read_alone(name, asked))
    except (ResponseError, AckqError) as error:
        return error


def read_alone(name: str, asked: Asked) -> Operation[Reading]:
    """Return the figures of one list queue, as far as this user may read them.

    Raises:
        KeyTypeError: a key of that name does not belong to a list queue.
    """
    spec = QueueSpec(name, QueueKeys.of(name), asked.config, outside=SYSTEM)
    if name in asked.alone:  # a user who may read only the keys of a queue with groups
        spec = yield from _as_recorded(spec)
    try:
        stats = yield from inspection.stats(spec)
    except (PopFromMismatch, GroupsMismatch, KeyTypeError):
        spec = yield from _as_recorded(spec)
        stats = yield from inspection.stats(spec)
    oldest = (yield from _oldest_ready(spec, asked)) if stats.ready else 0.0
    soon = yield from due_soon(spec.keys.delayed, 1_000_000, asked)
    workers, ids = yield from _workers(spec, asked.now)
    counted = yield from watched(inspection.counters, spec, asked.window)
    return _reading(name, stats, oldest, counted, workers, ids, soon)


def _as_recorded(spec: QueueSpec) -> Operation[QueueSpec]:
    """Return a queue with the settings that are recorded of it, if this user may read them."""
    settings: dict[str, Any] = {}
    with suppress(NoPermissionError):
        settings = yield from recorded(spec.keys)
    config = replace(spec.config, **settings)
    stage: Stage | None = "open"
    if _SHARD.fullmatch(spec.name):
        stage = yield from stage_of(spec)
    grouped = config.grouped or stage != "open"
    keys = QueueKeys.of(spec.name, config.pop_from, grouped, stage or "sealed")
    return replace(spec, keys=keys, config=config)


def _oldest_ready(spec: QueueSpec, asked: Asked) -> Operation[float | None]:
    if spec.name in asked.unreadable:
        return None
    try:
        return (yield from inspection.oldest_ready(spec))
    except ResponseError as error:
        if not is_denial(error):
            raise
        # The server logs each denial, so do not cause one with each reading.
        asked.unreadable.add(spec.name)
        return None


def _workers(spec: QueueSpec, now: int | None) -> Operation[tuple[int | None, frozenset[bytes]]]:
    """Count the workers whose heartbeats have not ended; of a shard, return their ids as well."""
    if now is None:
        return None, frozenset()
    seen, _, _ = spec.keys.workers
    limits: tuple[Arg, ...] = (seen, f"({now}", b"+inf")
    try:
        if not _SHARD.fullmatch(spec.name):
            return (yield Request((b"ZCOUNT", *limits), resend=True)), frozenset()
        command = (b"ZRANGEBYSCORE", *limits, b"LIMIT", 0, MAX_WORKERS)
        ids = frozenset((yield Request(command, resend=True)))
    except ResponseError:  # the user may not look, or the key is of another type
        return None, frozenset()
    return len(ids), ids


def _reading(
    name: str,
    stats: QueueStats,
    oldest: float | None,
    counted: QueueCounters | None,
    workers: int | None,
    worker_ids: frozenset[bytes] = frozenset(),
    soon: int | None = None,
) -> Reading:
    left = stats.lease_ends_in
    states = {
        "ready": stats.ready,
        "in_flight": stats.in_flight,
        "delayed": stats.delayed,
        "dead": stats.dead,
    }
    return Reading(
        "list",
        name,
        backlog_of(stats),
        states,
        stats.paused,
        -left if left is not None and left < 0 else 0.0,
        oldest,
        workers,
        worker_ids,
        totals_of(counted) if counted else None,
        due_soon=soon,
        lease_age=lease_age(left, counted.timeouts if counted else {}),
        stats=stats,
        groups=stats.groups,
    )
