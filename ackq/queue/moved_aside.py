"""Messages of a queue with groups that consumers have moved aside: ready, but on no list."""

from __future__ import annotations

from typing import NamedTuple

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.queue.group_names import tags_of
from ackq.queue.spec import QueueSpec

#: Messages of one call.
CHUNK = 1000


class Page(NamedTuple):
    """Some of the messages."""

    #: What to pass for the next page; empty if there is none.
    after: bytes
    #: The mark of the message that was on the list at that moment, to wake a consumer; or empty.
    woken: bytes
    bodies: list[bytes]


def page(
    spec: QueueSpec, after: bytes, wanted: int, group: str | int | None = None
) -> Operation[Page]:
    """Return the next bodies, group by group.

    Args:
        spec: of the queue.
        after: empty for the first ones.
        wanted: how many; one call returns fewer if they are long.
        group: only those of this group. Defaults to None: of all.

    Returns:
        A page, empty if the queue has no groups.
    """
    if not spec.keys.grouped:
        return Page(b"", b"", [])
    read = Page(b"", b"", [])
    for tags in ((),) if group is None else ((tag,) for tag in tags_of(str(group))):
        request = Request(
            (*spec.keys.passed("groups/peek"), after, min(wanted, CHUNK), *tags),
            script=scripts.load("groups/peek"),
            resend=True,
        )
        next_after, woken, *found = yield from call(spec, request)
        read = Page(next_after, woken.partition(b" ")[0], found)
        if found or after:
            break
    return read
