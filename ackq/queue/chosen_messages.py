"""Chosen messages: make them ready now, or cancel them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote_from_bytes, unquote_to_bytes

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.ids import key_of_id
from ackq.errors import ConfigurationError
from ackq.queue.spec import QueueSpec

#: Most messages that one call makes ready.
RUN_CHUNK = 500
#: Most messages that one call of cancel is given; it cancels at most 100 of them.
CANCEL_CHUNK = 1000

_ENTRY = re.compile(r"([0-9]{1,16})-([!-~]+)")


def entry_of(due: bytes, key: bytes) -> str:
    """Return `PeekedMessage.entry` of a delayed message: its due time in µs and its lease key.

    The key alone would also name a later message with the same id.
    """
    return f"{float(due):.0f}-{quote_from_bytes(key, safe='')}"


def run_now(spec: QueueSpec, entries: Sequence[str], ids: Iterable[str | int]) -> Operation[int]:
    """Make delayed messages ready; see `ackq.Queue.run_now`."""
    chosen = _chosen(entries, ids)
    moved = 0
    for first in range(0, len(chosen), 2 * RUN_CHUNK):
        chunk = chosen[first : first + 2 * RUN_CHUNK]
        # Not resent: a repeat would return 0.
        request = Request((*spec.keys.passed("run_now"), *chunk), script=scripts.load("run_now"))
        moved += yield from call(spec, request)
    return moved


def cancel(
    spec: QueueSpec, entries: Sequence[str], ids: Iterable[str | int], running: bool
) -> Operation[int]:
    """Move messages to the dead letters; see `ackq.Queue.cancel`."""
    passed = spec.keys.passed("cancel")
    chosen = _chosen(entries, ids)
    canceled = first = 0
    while first < len(chosen):
        chunk = chosen[first : first + 2 * CANCEL_CHUNK]
        request = Request((*passed, int(running), *chunk), script=scripts.load("cancel"))
        count, looked = yield from call(spec, request)
        canceled += count
        first += 2 * looked  # one call stops at 1 MiB of bodies
    return canceled


def _chosen(entries: Sequence[str], ids: Iterable[str | int]) -> list[Arg]:
    """Return pairs of a due time and a lease key; an id stands for any due time."""
    pairs: list[Arg] = []
    for entry in entries:
        matched = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
        if matched is None:
            raise ConfigurationError(
                f"{entry!r} is not a delayed message: pass PeekedMessage.entry, as"
                " '1795252215312092-order-7', or ids=['order-7']"
            )
        pairs += (matched[1], unquote_to_bytes(matched[2]))
    for message_id in ids:
        key = key_of_id(message_id)
        if key is None:
            raise ConfigurationError(f"{message_id!r} is not the id of a message")
        pairs += ("", key)
    return pairs
