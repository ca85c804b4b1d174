"""Messages that go before all ready ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.errors import EXPECTED, NotConfirmed
from ackq.queue.push_options import Terms
from ackq.queue.spec import QueueSpec

#: Bytes of bodies that one call stores: a second one may have to move them.
CHUNK_BYTES = 1024 * 1024


def store(spec: QueueSpec, bodies: Sequence[bytes], terms: Terms) -> Operation[NotConfirmed | None]:
    """Push messages before all ready ones, at most 1,000; see `Terms.send`."""
    request = _request(spec, 0, *bodies)
    request.confirm = terms.confirm
    on_list, unconfirmed = yield from terms.send(spec, request)
    yield from hand_over(spec, on_list, bodies[-1])
    return unconfirmed


def hand_over(spec: QueueSpec, on_list: int, last: bytes) -> Operation[None]:
    """Move what a push to the front left on the ready list to the hand-off list.

    They are stored already, so an error only means that later pushes to the front may pass them.

    Args:
        spec: of the queue.
        on_list: how many messages the push left there.
        last: the last of them.
    """
    with suppress(*EXPECTED):
        while on_list:
            request = _request(spec, on_list, last)
            request.resend = True
            on_list = yield from call(spec, request)


def _request(spec: QueueSpec, on_list: int, *bodies: bytes) -> Request:
    args: tuple[Arg, ...] = (spec.keys.pop_from, on_list, *bodies)
    return Request((*spec.keys.passed("push_front"), *args), scripts.load("push_front"))
