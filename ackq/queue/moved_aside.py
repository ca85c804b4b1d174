"""Messages of a queue with groups that consumers have moved aside: ready, but on no list."""

from __future__ import annotations

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.queue.group_names import tag_of
from ackq.queue.spec import QueueSpec

#: Messages of one call.
CHUNK = 1000


def bodies(
    spec: QueueSpec, after: bytes, wanted: int, group: str | int | None = None
) -> Operation[tuple[bytes, list[bytes]]]:
    """Return the next bodies, group by group.

    Args:
        spec: of the queue.
        after: empty for the first ones.
        wanted: how many; one call returns fewer if they are long.
        group: only those of this group. Defaults to None: of all.

    Returns:
        What to pass as ``after`` in the next call, empty if there are no more; and the bodies.
    """
    if not spec.keys.grouped:
        return b"", []
    tags = () if group is None else (tag_of(str(group)),)
    request = Request(
        (*spec.keys.passed("groups/peek"), after, min(wanted, CHUNK), *tags),
        script=scripts.load("groups/peek"),
        resend=True,
    )
    after, *found = yield from call(spec, request)
    return after, found
