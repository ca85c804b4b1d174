"""Put committed rows into a delay queue."""

from __future__ import annotations

import re

from ackq import scripts
from ackq.config import QueueConfig, check_integer
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.core.outside import Outside
from ackq.delay.messages import LATEST, DelaySpec, encode_key
from ackq.membership.operations import GroupSpec
from ackq.staging.keys import StagingKeys, has_settings

#: Most rows that one call stores: each costs several commands.
CHUNK_ROWS = 500
#: Suffix of a list's name: the number of partitions, 0 for none.
_SETTINGS = re.compile(rb":partitions=(\d+):\Z")


def spec_of(name: str, partitions: int | None, outside: Outside) -> DelaySpec:
    """Return a delay queue as its writers see it.

    Raises:
        QueueNameError: the queue's name cannot be used.
        ConfigurationError: the number of partitions is out of range.
    """
    if partitions is None:
        return DelaySpec.plain(name, QueueConfig(), 1.0, outside)
    group = GroupSpec.of(name, partitions, 10.0)
    return DelaySpec.partitioned(name, QueueConfig(), group, 1.0, outside)


def settings_suffix(spec: DelaySpec) -> str:
    """Return the suffix of staged lists' names, which gives the number of partitions."""
    return f"partitions={_count(spec)}"


def row(spec: DelaySpec, key: str, due: int, body: bytes) -> bytes:
    """Return a message as a row to stage; see `ackq.delay.DelayStaging.row`."""
    raw = encode_key(key)
    check_integer(due, "due", 0, LATEST)
    return b"%d:%d:%d:%b%b" % (spec.index_of(raw, None) + 1, due, len(raw), raw, body)


def move(spec: DelaySpec, staging: StagingKeys, name: bytes) -> Operation[bool]:
    """Store a bounded part of a committed list; return whether rows are left.

    The rows go to the writer's partitions, not those of ``spec``. A topic of the same name has
    its lists under the same keys: those are left alone.
    """
    if has_settings(name):
        if not (settings := _SETTINGS.search(name)):
            return False
        if (count := int(settings[1])) != _count(spec):
            spec = spec_of(spec.name, count or None, spec.outside)
    keys = [key for partition in spec.partitions for key in partition.all()]
    request = Request(
        (3 + len(keys), staging.held, staging.heldrows, name, *keys, CHUNK_ROWS),
        script=scripts.load("staging/delay"),
        resend=True,  # a stored row is no longer in the list
    )
    _, left, _ = yield from call(spec, request)
    return bool(left)


def _count(spec: DelaySpec) -> int:
    return len(spec.partitions) if spec.group else 0
