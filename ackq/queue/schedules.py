"""The schedules that are stored for a queue. Workers push their ticks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal
from zoneinfo import ZoneInfo

import orjson

from ackq import scripts
from ackq.core.call import Keys, call
from ackq.core.cron import normal
from ackq.core.effects import Operation, Request
from ackq.core.encode import Pushable, encode, mapping_of
from ackq.core.json_values import to_json
from ackq.core.outside import Outside
from ackq.core.timetable import Timetable, check_schedule_name
from ackq.errors import ConfigurationError
from ackq.queue.spec import QueueSpec
from ackq.queue.unique import Uniqueness, check_found, check_uniqueness, identified

#: Which missed ticks are pushed when a worker starts: none, or the last one.
CatchUp = Literal["none", "last"]
#: Most schedules of a queue, longest name and longest definition in bytes, as in the script.
MAX_SCHEDULES, MAX_NAME, MAX_DEFINITION = 256, 200, 16_384
#: Bytes of the version before a definition.
VERSION_SIZE = 16
#: The fields of a definition that decide which of its ticks are pushed.
DECIDE_TICKS = ("every", "cron", "zone", "catch_up", "paused")
Fields = dict[str, Any]
#: What `put` did.
Stored = Literal["stored", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule that is stored for a queue. All times are in seconds since the epoch."""

    name: str
    #: The JSON object that is pushed at each tick. Without an ``id``, it gets ``<name>@<tick>``,
    #: or the name if it is ``unique``.
    message: dict[str, Any]
    #: Seconds from tick to tick, counted from the epoch; or None.
    every: float | None
    #: The fields of cron; or None.
    cron: str | None
    #: The time zone of ``cron``, as in "Europe/Berlin".
    zone: str
    #: "none", or "last" to push the last tick that was missed while no worker ran.
    catch_up: CatchUp
    #: "done" or "taken" if nothing is pushed while a message of the same id is in the queue.
    unique: Uniqueness | None
    #: Whether nothing is pushed for now.
    paused: bool
    #: The latest tick that was pushed or left out as not unique, or when its ticks began to count.
    last: float
    #: The next tick; None while paused.
    next: float | None
    #: How many ticks were missed, since no worker ran.
    missed: int
    #: Changes with the definition, so that a worker pushes nothing for an earlier definition.
    version: str

    @property
    def timetable(self) -> Timetable:
        """When it ticks."""
        # An earlier version also stored a zone beside ``every``.
        zone = zone_of("UTC" if self.cron is None else self.zone)
        return Timetable(self.name, self.every, self.cron, zone)


def zone_of(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        ConfigurationError: there is none of this name.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, TypeError, KeyError):  # KeyError: there is none of this name
        raise ConfigurationError(
            f"zone is the name of a time zone, such as 'Europe/Berlin', not {name!r}"
        ) from None


def put(
    spec: QueueSpec,
    name: str,
    message: Mapping[str, Any],
    every: float | None,
    cron: str | None,
    zone: str,
    catch_up: CatchUp,
    unique: Uniqueness | None,
) -> Operation[Stored]:
    """Store or replace a schedule, unless it is stored already; leave it paused if it is."""
    Timetable(name, every, cron, zone_of(zone))
    if len(name.encode()) > MAX_NAME:
        raise ConfigurationError(f"the name of a schedule has at most {MAX_NAME} bytes: {name!r}")
    if catch_up not in ("none", "last"):
        raise ConfigurationError(f"catch_up is 'none' or 'last', not {catch_up!r}")
    check_uniqueness(unique)
    if not isinstance(message, Mapping):
        raise ConfigurationError(
            f"schedule {name!r}: the message is a mapping, which becomes a JSON object, not"
            f" {type(message).__name__}"
        )
    limit, field = spec.config.max_body_bytes, spec.config.time_field
    body_of(name, message, unique, datetime.fromtimestamp(0, UTC), limit, spec.outside, field)
    given = {
        "message": message,
        "every": None if every is None else float(every),  # so that 5 and 5.0 are equal
        "cron": None if cron is None else normal(cron),
        "zone": zone,
        "catch_up": catch_up,
        "unique": unique,
        "paused": False,
    }
    definition = to_json({name: value for name, value in given.items() if value is not None})
    if len(definition) > MAX_DEFINITION:
        raise ConfigurationError(
            f"schedule {name!r}: its definition has {len(definition)} bytes, over the limit of"
            f" {MAX_DEFINITION}: push the id of what is stored elsewhere"
        )
    fields = orjson.loads(definition)

    def keeping_the_pause(former: Fields | None) -> Fields:
        return {**fields, "paused": (former or {}).get("paused") is True}

    status = yield from _store(spec, name, b"", keeping_the_pause)
    if status == "full":
        raise ConfigurationError(
            f"queue {spec.name!r} has {MAX_SCHEDULES} schedules already: remove one"
        )
    return status  # type: ignore[return-value]


def body_of(
    name: str,
    message: Pushable,
    unique: Uniqueness | None,
    tick: datetime,
    limit: int,
    outside: Outside,
    time_field: str | None,
) -> bytes:
    """Return the body that a schedule pushes for a tick.

    Raises:
        MessageError: the message cannot be pushed.
    """
    if not isinstance(message, bytes | bytearray | memoryview):
        message = {"id": name if unique else f"{name}@{tick.isoformat()}", **mapping_of(message)}
    if unique:
        message = identified(message, None)
    id, body = encode(message, limit, outside, time_field)
    if unique:
        check_found(id, body)
    return body


def remove(spec: QueueSpec, name: str) -> Operation[bool]:
    """Remove a schedule. Return whether there was one of this name."""
    check_schedule_name(name)
    status, *_ = yield from _put(spec, name, b"", b"", False)
    return bool(status == b"removed")


def set_paused(spec: QueueSpec, name: str, paused: bool) -> Operation[bool]:
    """Pause a schedule, or let it tick again from now on. Return False if there is none."""

    check_schedule_name(name)

    def change(former: Fields | None) -> Fields | None:
        return None if former is None else {**former, "paused": paused}

    _, *rows = yield from _list(spec)
    for title, stored in zip(rows[::4], rows[1::4], strict=True):
        if title.decode(errors="replace") == name:
            return (yield from _store(spec, name, stored, change)) != "none"
    return False


def read(spec: QueueSpec) -> Operation[list[StoredSchedule]]:
    """Return the stored schedules, by name. Those that nobody can read are left out."""
    now, *rows = yield from _list(spec)
    stored = [_stored(now, *rows[at : at + 4]) for at in range(0, len(rows), 4)]
    return sorted((one for one in stored if one is not None), key=lambda one: one.name)


def _list(spec: QueueSpec) -> Operation[Any]:
    request = Request(
        spec.keys.passed("schedules/list"), script=scripts.load("schedules/list"), resend=True
    )
    return call(_keys(spec), request)


def _store(
    spec: QueueSpec, name: str, stored: bytes, change: Callable[[Fields | None], Fields | None]
) -> Operation[str]:
    """Store what ``change`` makes of a schedule, even if others change it meanwhile.

    Args:
        spec: the queue.
        name: of the schedule.
        stored: what is stored for it, as far as known; empty if nothing.
        change: returns the new fields for the stored ones, or None to change nothing.
    """
    while True:
        former = _fields_of(stored)
        fields = change(former)
        if fields is None:
            return "none"
        if former is not None and _sorted(fields) == _sorted(former):
            return "unchanged"
        # A missed tick is still to be caught up, unless the new definition has other ticks.
        keep = former is not None and fields["catch_up"] == "last"
        keep = keep and all(fields.get(each) == former.get(each) for each in DECIDE_TICKS)  # type: ignore[union-attr]
        status, _, *found = yield from _put(
            spec, name, to_json(fields), stored[:VERSION_SIZE], keep
        )
        if status != b"changed":
            return str(status.decode())
        (stored,) = found


def _put(
    spec: QueueSpec, name: str, definition: bytes, former: bytes, keep: bool
) -> Operation[list[Any]]:
    version = spec.outside.token(VERSION_SIZE // 2).hex()
    request = Request(
        (*spec.keys.passed("schedules/put"), name, version, definition, former, int(keep)),
        script=scripts.load("schedules/put"),
        resend=True,
    )
    return call(_keys(spec), request)


def _fields_of(stored: bytes) -> Fields | None:
    """Return the definition of a schedule, or None if nobody can read it."""
    try:
        fields = orjson.loads(stored[VERSION_SIZE:])
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) else None


def _sorted(fields: Fields) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def _keys(spec: QueueSpec) -> Keys:
    return Keys(f"queue {spec.name!r}", {spec.keys.schedules: "hash", spec.keys.ticks: "hash"})


def _stored(now: int, name: bytes, stored: bytes, last: int, missed: int) -> StoredSchedule | None:
    try:
        fields = _fields_of(stored) or {}
        schedule = StoredSchedule(
            name=name.decode(),
            message=dict(fields["message"]),
            every=fields.get("every"),
            cron=fields.get("cron"),
            zone=fields["zone"],
            catch_up=fields["catch_up"],
            unique=fields.get("unique"),
            paused=fields["paused"],
            last=last / 1_000_000,
            next=None,
            missed=missed,
            version=stored[:VERSION_SIZE].decode(),
        )
        timetable = schedule.timetable
    except (ValueError, TypeError, KeyError, ConfigurationError):
        return None
    if schedule.paused:
        return schedule
    return replace(schedule, next=timetable.after(max(now, last)) / 1_000_000)
