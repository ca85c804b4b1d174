"""Chosen messages: make them ready now, or cancel them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Arg, Operation, Request
from ackq.core.ids import key_of_id
from ackq.errors import ConfigurationError
from ackq.queue import delayed_entries, places, record
from ackq.queue.spec import QueueSpec

#: Most messages that one call makes ready.
RUN_CHUNK = 500
#: Most messages that one call of cancel is given; it cancels at most 100 of them.
CANCEL_CHUNK = 1000
#: Most ids that are looked for at once on the lists.
PICK_CHUNK = 1000
#: Messages at the end that is taken, among which is one that was moved there to wake a consumer.
WOKEN = 16


def run_now(spec: QueueSpec, entries: Sequence[str], ids: Iterable[str | int]) -> Operation[int]:
    """Make messages the next ones to be delivered; see `ackq.Queue.run_now`."""
    chosen, keys = _chosen(entries, ids)
    if spec.keys.grouped:
        yield from _refuse_ready(spec, keys)
        moved = 0
    else:
        # Those that are picked from the ready list go to the hand-off list: look there first.
        moved = yield from _pick(spec, "run_now", ("handoff", "ready"), keys)
    chosen += yield from _recorded(spec, keys)
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
    chosen, keys = _chosen(entries, ids)
    chosen += [part for key in keys for part in ("", key)]
    canceled = yield from _cancel_recorded(spec, chosen, running)
    if keys:
        # Messages go from the ready list to the hand-off list, then into flight, then perhaps into
        # a delay. Those that did so meanwhile are found in the end.
        lists = ("ready", "handoff")
        canceled += yield from _pick(spec, "cancel", lists, keys)
        if spec.keys.grouped:
            canceled += yield from cancel_moved_aside(spec, keys)
            # One of these may have been moved to the end that is taken, to wake a consumer.
            canceled += yield from _pick(spec, "cancel", lists, keys, WOKEN)
        recorded = yield from _recorded(spec, keys)
        canceled += yield from _cancel_recorded(spec, recorded, running)
    return canceled


def _recorded(spec: QueueSpec, ids: Sequence[str]) -> Operation[list[Arg]]:
    """Return pairs of any due time and a lease key, of all leased and delayed messages of ids."""
    if not ids:
        return []
    keys = yield from places.recorded(spec, dict.fromkeys(ids))
    return [part for each in keys.values() for key in each for part in ("", key)]


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


def cancel_moved_aside(spec: QueueSpec, keys: Sequence[Arg]) -> Operation[int]:
    """Cancel messages that were moved aside: these, or those of a group if the first is empty."""
    passed = spec.keys.passed("groups/cancel")
    canceled = 0
    for first in range(0, len(keys), PICK_CHUNK):
        after, is_over = b"", False
        while not is_over:
            chunk = keys[first : first + PICK_CHUNK]
            request = Request((*passed, after, *chunk), script=scripts.load("groups/cancel"))
            after, count = yield from call(spec, request)
            canceled += count
            is_over = not after
    return canceled


def _refuse_ready(spec: QueueSpec, keys: Sequence[str]) -> Operation[None]:
    """Check that none of these messages is ready: those of a queue with groups keep their order.

    Raises:
        ConfigurationError: one is.
    """
    for key in keys:
        found = yield from places.find(spec, key, None)
        if found is not None and found.state == "ready" and not found.entry:
            raise ConfigurationError(
                f"message {key!r} of queue {spec.name!r} is ready, and a queue with groups keeps"
                " the order of ready messages: only delayed ones can be run now"
            )


def _pick(
    spec: QueueSpec,
    verb: str,
    lists: Sequence[str],
    keys: Sequence[str],
    within: int = 2**53 - 1,
) -> Operation[int]:
    """Pick messages with these lease keys from lists, and return how many.

    Args:
        spec: of the queue.
        verb: what to do with them.
        lists: where to look for them.
        keys: of the messages.
        within: how many messages to look at, from the end that is taken. Defaults to all.
    """
    passed = spec.keys.passed("pick")
    picked = 0
    if spec.keys.pop_from == "left":
        yield from record.record(spec)
    # What is run now goes in front of what was before: the first ids last.
    for first in reversed(range(0, len(keys), PICK_CHUNK)):
        chunk = keys[first : first + PICK_CHUNK]
        ends: Arg = 0
        for place in lists:
            left: Arg = within
            while int(left):
                # Not resent: it would note a canceled message twice.
                args = (verb, place, left, ends, spec.keys.known, *chunk)
                request = Request((*passed, *args), script=scripts.load("pick"))
                left, _, ends, count, _ = yield from call(spec, request)
                picked += count
    return picked


def _chosen(entries: Sequence[str], ids: Iterable[str | int]) -> tuple[list[Arg], list[str]]:
    """Return pairs of a due time and a lease key for the entries, and the keys of the ids."""
    pairs: list[Arg] = []
    keys: list[str] = []
    for entry in entries:
        pairs += delayed_entries.parts_of(entry)
    for message_id in ids:
        key = key_of_id(message_id)
        if key is None:
            raise ConfigurationError(f"{message_id!r} is not the id of a message")
        keys.append(key)
    return pairs, keys
