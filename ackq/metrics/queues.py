"""The metrics of queues: a table of what each one is and where its figures are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from ackq.metrics.families import Family, Labels, Since, label
from ackq.ops.readings import Reading, Totals
from ackq.queue.messages import GroupCounts

#: Labels of what every kind of queue has.
_QUEUE = ("queue", "kind")
#: Most reasons of dead letters that one queue reports; the rest is "other".
MAX_REASONS = 20

#: The gauges with one figure for each queue; None: unknown.
_GAUGES: dict[str, tuple[str, Callable[[Reading], float | None]]] = {
    "ackq_backlog": (
        "Messages that need a consumer now: ready and in flight, without claims.",
        attrgetter("backlog"),
    ),
    "ackq_paused": (
        "1 while the queue is paused.",
        lambda each: None if each.paused is None else int(each.paused),
    ),
    "ackq_lease_overdue_seconds": (
        "Time since the first lease ended whose message was not delivered again; 0 if none.",
        attrgetter("overdue"),
    ),
    "ackq_oldest_ready_seconds": (
        "Time for which the oldest ready message has been ready; missing if it is not known.",
        attrgetter("oldest_ready"),
    ),
    "ackq_workers": ("Worker processes that take from the queue.", attrgetter("workers")),
}
#: The gauges of queues with groups. No label names a group, since there may be a million.
_OF_GROUPS: dict[str, tuple[str, Callable[[GroupCounts], float]]] = {
    "ackq_moved_aside": (
        "Ready messages that consumers have moved aside, since their groups were busy.",
        attrgetter("moved_aside"),
    ),
    "ackq_group_turn_seconds": (
        "Time for which the group that has waited longest for its turn has waited; 0 if none.",
        attrgetter("turn_for"),
    ),
}
#: The states of groups, as in `GroupCounts`.
_GROUP_STATES = ("in_flight", "ready", "limited", "stopped")
#: The gauges with a figure for each consumer of a topic.
_OF_CONSUMERS: dict[str, tuple[str, Callable[[Reading], Mapping[str, float]]]] = {
    "ackq_topic_lag": ("Messages that a consumer of a topic is behind.", attrgetter("lags")),
    "ackq_topic_lag_seconds": (
        "Age of the message that a consumer of a topic reads next; missing if it is not known.",
        attrgetter("lag_seconds"),
    ),
    "ackq_topic_position": (
        "Index of the last message that a consumer of a topic committed.",
        attrgetter("positions"),
    ),
}
#: The counters, by the name that `Totals` has for them, with their help.
_COUNTERS = {
    "pushed": "Messages pushed.",
    "taken": "Messages taken, each delivery counted.",
    "acked": "Messages acked.",
    "returned": "Messages delivered again because a lease had ended.",
    "nacked": "Messages returned with nack, to be tried again.",
    "released": "Messages returned with release; these deliveries do not count.",
    "redriven": "Dead letters that were made ready again.",
    "dropped": "Messages deleted by a purge, a cancel, or the retention of a topic.",
    "dead_dropped": "Dead letters deleted.",
}
_NO_TOTALS = Totals(None, {})


def queue_metrics(readings: Sequence[Reading]) -> Iterator[Family]:
    """Yield the metrics of queues."""
    labels = [Labels.of(_QUEUE, (reading.name, reading.kind)) for reading in readings]
    states = {state: label("state", state) for reading in readings for state in reading.states}
    yield Family(
        "ackq_messages",
        "gauge",
        "Messages by state, as in ackq stats.",
        (*_QUEUE, "state"),
        labels=[each.plus(*state) for each in labels for state in states.items()],
        numbers=[reading.states.get(state) for reading in readings for state in states],
    )
    for name, (help, figure) in _GAUGES.items():
        yield Family(name, "gauge", help, _QUEUE, labels=labels, numbers=[*map(figure, readings)])
    yield from _group_metrics(readings)
    for name, (help, figures) in _OF_CONSUMERS.items():
        yield Family(
            name,
            "gauge",
            help,
            ("queue", "consumer"),
            labels=[
                Labels.of(("queue", "consumer"), (reading.name, consumer))
                for reading in readings
                for consumer in figures(reading)
            ],
            numbers=[number for reading in readings for number in figures(reading).values()],
        )
    totals = [reading.totals or _NO_TOTALS for reading in readings]
    since = [
        None if total.since is None else Since(total.since, repr(total.since)) for total in totals
    ]
    for name, help in _COUNTERS.items():
        yield Family(
            f"ackq_{name}",
            "counter",
            help,
            _QUEUE,
            labels=labels,
            numbers=[total.counts.get(name) for total in totals],
            since=since,
        )
    dead = [_by_reason(total.dead) for total in totals]
    yield Family(
        "ackq_dead",
        "counter",
        "Messages that became dead letters, by reason.",
        (*_QUEUE, "reason"),
        labels=[
            each.plus(reason, label("reason", reason))
            for each, counts in zip(labels, dead, strict=True)
            for reason, _ in counts
        ],
        numbers=[count for counts in dead for _, count in counts],
        since=[each for each, counts in zip(since, dead, strict=True) for _ in counts],
    )


def _group_metrics(readings: Sequence[Reading]) -> Iterator[Family]:
    grouped = [
        (Labels.of(_QUEUE, (reading.name, reading.kind)), reading.groups)
        for reading in readings
        if reading.groups is not None
    ]
    labels, counts = [labels for labels, _ in grouped], [groups for _, groups in grouped]
    states = [(state, label("state", state)) for state in _GROUP_STATES]
    yield Family(
        "ackq_groups",
        "gauge",
        "Groups that are in flight, ready, held back by a rate, or stopped by a dead letter.",
        (*_QUEUE, "state"),
        labels=[each.plus(*state) for each in labels for state in states],
        numbers=[getattr(groups, state) for groups in counts for state in _GROUP_STATES],
    )
    for name, (help, figure) in _OF_GROUPS.items():
        yield Family(name, "gauge", help, _QUEUE, labels=labels, numbers=[*map(figure, counts)])


def _by_reason(dead: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the counts of dead letters; those of more than `MAX_REASONS` are added up."""
    reasons = sorted(dead.items())
    if rest := sum(count for _, count in reasons[MAX_REASONS:]):
        return [*reasons[:MAX_REASONS], ("other", rest)]
    return reasons
