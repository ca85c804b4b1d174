"""Change groups while consumers work: the limits of all, or pause, limit or cancel one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ackq import scripts
from ackq.config import Groups, QueueConfig, RateLimit, Seconds, in_seconds, microseconds
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import ConfigurationError
from ackq.queue import chosen_messages, group_audit, group_stats, places, record, stopped_groups
from ackq.queue.group_names import group_of, shown_name
from ackq.queue.spec import QueueSpec

#: Leaves a setting as it is.
Keep = Literal["keep"]
#: Longest pause that ends by itself, in seconds: 31 years.
MAX_PAUSE = 1e9
#: A name that JSON writes in one way only.
_PLAIN = re.compile(r"[\w.:@ -]+", re.ASCII)


def fields_of(name: str, config: QueueConfig, changes: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of the record that change.

    Args:
        name: of the queue.
        config: its settings.
        changes: in_flight, rate, on_dead, max_in_flight; "keep" changes nothing.

    Raises:
        ConfigurationError: a setting is out of range, or the queue cannot have it.
    """
    given = {setting: each for setting, each in changes.items() if each != "keep"}
    of_groups = {setting: each for setting, each in given.items() if setting != "max_in_flight"}
    limit = given.get("max_in_flight", config.max_in_flight)
    if config.groups is None and (of_groups or None in (limit, config.max_in_flight)):
        raise ConfigurationError(
            f"queue {name!r} has no groups: only max_in_flight can be changed, to another number."
            f" Stop the consumers, then run: ackq groups {name} --off, and --on for groups"
        )
    groups = config.groups and replace(config.groups, **of_groups)
    fields = record.fields_of(replace(config, groups=groups, max_in_flight=limit))
    return {setting: fields[setting] for setting in given}


def change(spec: QueueSpec, changes: Mapping[str, Any]) -> Operation[None]:
    """Change the limits of all groups, or of the queue; see `ackq.Queue.set_groups`."""
    fields = fields_of(spec.name, spec.config, changes)
    yield from record.record(spec)  # of a queue that nobody has used yet
    yield from _change(spec, *(part for pair in fields.items() for part in pair))
    if "in_flight" in fields:
        yield from group_audit.compare(spec, "turns", True)
    if fields.get("on_dead") == "continue":
        cursor: Arg = b"0"
        while True:
            _, cursor, rows = yield from group_stats.page(spec, "stopped", cursor)
            for tag in [tag for tag, *_, ids in rows if ids]:
                yield from stopped_groups.resume(spec, shown_name(tag))
            if cursor == b"0":
                break
    yield from _change(spec)


def _change(spec: QueueSpec, *pairs: str) -> Operation[None]:
    """Change the record, and let consumers look again that wait."""
    reply = yield from _call(spec, "groups/change", *pairs)
    if reply == b"busy":
        raise ConfigurationError(
            f"messages of queue {spec.name!r} are in flight. To change on_dead to 'stop', pause the"
            " queue, and wait until they are settled"
        )
    record.check(spec, dict(zip(reply[::2], reply[1::2], strict=True)))


def pause(spec: QueueSpec, group: str | int, seconds: Seconds | None) -> Operation[None]:
    """Pause a group; see `ackq.Queue.pause_group`."""
    endless = seconds is None or in_seconds(seconds) == math.inf
    length = group_stats.ENDLESS
    if not endless:
        length = microseconds(seconds, "for_", MAX_PAUSE)  # type: ignore[arg-type]
    yield from _limit(spec, group, length)


def limit(
    spec: QueueSpec, group: str | int, in_flight: int | None, rate: RateLimit | None
) -> Operation[None]:
    """Give a group limits of its own; see `ackq.Queue.limit_group`."""
    checked = Groups("group", 1 if in_flight is None else in_flight, rate)
    text = "0/0/0" if rate is None else record.fields_of(QueueConfig(groups=checked))["rate"]
    yield from _limit(spec, group, 0, in_flight or 0, text)


def _limit(spec: QueueSpec, group: str | int, *args: Arg) -> Operation[None]:
    tags = stopped_groups.tags_in(spec, group)
    yield from record.record(spec)
    for tag in tags:
        yield from _call(spec, "groups/limit", tag, *args)


def _call(spec: QueueSpec, script: str, *args: Arg) -> Operation[Any]:
    request = Request((*spec.keys.passed(script), *args), scripts.load(script), resend=True)
    return (yield from call(spec, request))


def cancel(spec: QueueSpec, group: str | int) -> Operation[int]:
    """Cancel the messages of a group that wait; see `ackq.Queue.cancel_group`."""
    tags, field, name = stopped_groups.tags_in(spec, group), spec.group_field or "", str(group)
    target = places.Target(
        [text.encode() for text in (field, name) if _PLAIN.fullmatch(text)],
        lambda found: group_of(found.body, field) == name,
        2**53,
        None,
    )
    canceled = yield from _cancel_moved_aside(spec, tags)
    found = yield from places.locate(spec, target)
    entries = [each.entry for each in found if each.state == "delayed"]
    ids = [each.id for each in found if each.state == "ready" and each.id]
    canceled += yield from chosen_messages.cancel(spec, entries, ids, False)
    return canceled + (yield from _cancel_moved_aside(spec, tags))


def _cancel_moved_aside(spec: QueueSpec, tags: Sequence[bytes]) -> Operation[int]:
    canceled = 0
    for tag in tags:
        canceled += yield from chosen_messages.cancel_moved_aside(spec, ("", tag))
    return canceled
