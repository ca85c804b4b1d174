"""Chosen messages: make them ready now, or cancel them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote_from_bytes, unquote_to_bytes

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.ids import key_of_id
from ackq.errors import ConfigurationError
from ackq.queue import pop_from
from ackq.queue.spec import QueueSpec

#: Most messages that one call makes ready.
RUN_CHUNK = 500
#: Most messages that one call of cancel is given; it cancels at most 100 of them.
CANCEL_CHUNK = 1000
#: Most ids that are looked for at once on the lists.
PICK_CHUNK = 1000

_ENTRY = re.compile(r"([0-9]{1,16})-([!-~]+)")


def entry_of(due: bytes, key: bytes) -> str:
    """Return `PeekedMessage.entry` of a delayed message: its due time in µs and its lease key.

    The key alone would also name a later message with the same id.
    """
    return f"{float(due):.0f}-{quote_from_bytes(key, safe='')}"


def run_now(spec: QueueSpec, entries: Sequence[str], ids: Iterable[str | int]) -> Operation[int]:
    """Make messages the next ones to be delivered; see `ackq.Queue.run_now`."""
    chosen, keys = _chosen(spec, entries, ids)
    moved = 0
    for first in range(0, len(chosen), 2 * RUN_CHUNK):
        chunk = chosen[first : first + 2 * RUN_CHUNK]
        # Not resent: a repeat would return 0.
        request = Request((*spec.keys.passed("run_now"), *chunk), script=scripts.load("run_now"))
        moved += yield from call(spec, request)
    # Those that are picked from the ready list go to the hand-off list, so that is looked at first.
    return moved + (yield from _pick(spec, "run_now", ("handoff", "ready"), keys))


def cancel(
    spec: QueueSpec, entries: Sequence[str], ids: Iterable[str | int], running: bool
) -> Operation[int]:
    """Move messages to the dead letters; see `ackq.Queue.cancel`."""
    chosen, keys = _chosen(spec, entries, ids)
    canceled = yield from _cancel_recorded(spec, chosen, running)
    if keys:
        # Messages go from the ready list to the hand-off list, then into flight, then perhaps into
        # a delay. Those that did so meanwhile are found in the end.
        canceled += yield from _pick(spec, "cancel", ("ready", "handoff"), keys)
        recorded = [part for key in keys for part in ("", key)]
        canceled += yield from _cancel_recorded(spec, recorded, running)
    return canceled


def _cancel_recorded(spec: QueueSpec, chosen: Sequence[Arg], running: bool) -> Operation[int]:
    """Cancel delayed and leased messages: pairs of a due time and a lease key."""
    passed = spec.keys.passed("cancel")
    canceled = first = 0
    while first < len(chosen):
        chunk = chosen[first : first + 2 * CANCEL_CHUNK]
        request = Request((*passed, int(running), *chunk), script=scripts.load("cancel"))
        count, looked = yield from call(spec, request)
        canceled += count
        first += 2 * looked  # one call stops at 100 messages or 1 MiB of bodies
    return canceled


def _pick(spec: QueueSpec, verb: str, places: Sequence[str], keys: Sequence[str]) -> Operation[int]:
    """Pick messages with these lease keys from lists, and return how many."""
    passed = spec.keys.passed("pick")
    picked = 0
    for first in range(0, len(keys), PICK_CHUNK):
        chunk = keys[first : first + PICK_CHUNK]
        ends: Arg = 0
        for place in places:
            left: Arg = 2**53 - 1
            while int(left):
                # Not resent: it would note a canceled message twice.
                request = Request(
                    (*passed, verb, place, left, ends, *chunk), script=scripts.load("pick")
                )
                try:
                    left, _, ends, count, _ = yield from call(spec, request)
                except ResponseError as error:
                    if not pop_from.is_missing(error):
                        raise
                    yield from pop_from.record(spec.keys)
                    continue
                picked += count
    return picked


def _chosen(
    spec: QueueSpec, entries: Sequence[str], ids: Iterable[str | int]
) -> tuple[list[Arg], list[str]]:
    """Return pairs of a due time and a lease key, and the keys for which any due time will do."""
    pairs: list[Arg] = []
    keys: list[str] = []
    for entry in entries:
        matched = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
        if matched is None:
            raise ConfigurationError(
                f"{entry!r} is not a delayed message: pass PeekedMessage.entry, as"
                " '1795252215312092-order-7', or ids=['order-7']"
            )
        pairs += (matched[1], unquote_to_bytes(matched[2]))
    for message_id in ids:
        if spec.keys.grouped:
            raise ConfigurationError(
                f"queue {spec.name!r} has groups, so its messages cannot be chosen by their ids:"
                " pass entries of delayed messages"
            )
        key = key_of_id(message_id)
        if key is None:
            raise ConfigurationError(f"{message_id!r} is not the id of a message")
        pairs += ("", key)
        keys.append(key)
    return pairs, keys
