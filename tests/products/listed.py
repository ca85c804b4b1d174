"""The list queue."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock
from zlib import crc32

import ackq
from ackq import scripts
from ackq.errors import NotConfirmed, PartlyStored

from .bodies import id_of
from .product import WATCH, Entries, Got, Noted, Product, Taken, dead_left, totals_left, value

if TYPE_CHECKING:
    from tests.histories.log import Log

#: As many dead letters as there are.
ALL = 100_000


class ListQueue(Product):
    """`Queue` or `AsyncQueue`."""

    rules: ClassVar[dict[str, Any]] = {"order": True, "totals": True}
    verbs: ClassVar[dict[str, int]] = {"ack": 70, "nack": 8, "release": 4, "fused": 18}
    #: Whether some messages are pushed as unique ones. All have different ids.
    has_unique = False

    async def prepare(self) -> None:
        if self.rules.get("totals"):
            await value(self.queue.counters(WATCH))

    async def push(self, entries: Entries, delay: float, is_once: bool) -> Noted:
        bodies = [body for _, body in entries]
        about = {"delay": delay or None, "confirm": self.settings.get("confirm")}
        if self.settings.get("unique"):
            try:
                pushed = await value(self.queue.push_many(bodies, unique="done", **about))
            except NotConfirmed as error:
                raise error.account((), range(len(bodies)), ()) from error
            stored = [at for at, each in enumerate(pushed) if each.stored]
            refused = {*range(len(bodies))} - {*stored}
            raise PartlyStored("others have their ids").account(stored, (), refused)
        if self.has_unique and not is_once and (unique := _uniqueness(entries[0][0])):
            for each in await value(self.queue.push_many(bodies, unique=unique, **about)):
                assert each.stored, f"{each} is refused, and no message has its id"
        elif len(bodies) > 1:
            await value(self.queue.push_many(bodies, **about))
        else:
            dedup = entries[0][0] if is_once else None
            await value(self.queue.push(bodies[0], dedup=dedup, **about))
        return {}

    async def take(self, n: int, timeout: float | None, done: Sequence[Any]) -> Taken:
        found = await value(self.queue.pop_many(n, timeout=timeout, ack=done))
        return [Got(m.body, m.receive_count, m.receipt / 1e6, m) for m in found], {}

    async def settle(self, verb: str, handles: Sequence[Any], delay: float) -> int:
        all_settings: dict[str, dict[str, Any]] = {
            "nack": {"delay": delay},
            "reject": {"reason": "rejected"},
        }
        settings = all_settings.get(verb, {})
        settled: int = await value(getattr(self.queue, verb)(*handles, **settings))
        return settled

    async def stored(self) -> int:
        stats = await value(self.queue.stats())
        stored: int = stats.ready + stats.in_flight + stats.delayed
        return stored

    async def left(self) -> dict[str, Any]:
        dead = await value(self.queue.dead_letters(ALL))
        left = dead_left(dead, [id_of(each.body) or each.id for each in dead])
        for part in await self._parts():
            left["findings"] += map(str, (await value(part.audit())).findings)
        if self.rules.get("totals"):
            left |= totals_left(await value(self.queue.counters(WATCH)), dead)
        left["findings"] += await self._blocked()
        return left

    async def _blocked(self) -> list[str]:
        """Return which ids are refused although no message has them."""
        ids = [f"u-{n}" for n in range(self.settings.get("unique", 0))]
        if not ids:
            return []
        await value(self.queue.push({"id": "listed"}))  # without a list no note would be believed
        pushed = await value(self.queue.push_many([{"id": each} for each in ids], unique="done"))
        while found := await value(self.queue.pop_many(100)):
            await value(self.queue.ack(*found))
        return [f"the id {each} is refused" for each in pushed if not each.stored]

    async def _parts(self) -> Sequence[Any]:
        """Return the queues that can be audited."""
        return [self.queue]


@contextlib.contextmanager
def deep_after(near: int) -> Iterator[None]:
    """Let a list be deep after ``near`` messages, so that these are canceled by notes."""
    load = scripts.load
    sound = load("pick").text
    text = sound.replace(b"local NEAR = 50000 ", b"local NEAR = %d " % near)
    assert text != sound
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
    deep = scripts.Script("pick", text, sha)
    with mock.patch.object(scripts, "load", lambda name: deep if name == "pick" else load(name)):
        yield


class GroupedListQueue(ListQueue):
    """`Queue` or `AsyncQueue` with groups.

    The settings say how many of one are in flight, ``group_in_flight``; of all, ``max_in_flight``;
    how many of one are taken, ``group_rate``: a number, in how many seconds, and at once; and
    whether a dead letter stops its group, ``group_stops``.
    """

    rules: ClassVar[dict[str, Any]] = {"totals": True, "group_in_flight": 1, "group_turns": True}
    groups = 12

    def limits(self) -> dict[str, Any]:
        """Return the settings of the client."""
        rate = self.settings.get("group_rate")
        in_flight = self.settings.get("group_in_flight", 1)
        groups = ackq.Groups(
            "of",
            in_flight,
            rate and ackq.RateLimit(*rate),
            "stop" if self.settings.get("group_stops") else "continue",
        )
        return {"groups": groups, "max_in_flight": self.settings.get("max_in_flight")}

    async def resume(self, log: Log) -> None:
        if not self.settings.get("group_stops"):
            return
        for each in await value(self.queue.groups(100)):
            if each.stopped_by:
                call = log.begin("resume", ids=[each.name])
                await value(self.queue.resume_group(each.name))
                log.end(call, "ok")


def _uniqueness(message_id: str) -> str | None:
    """Return how a message with this id is pushed."""
    return ("done", "taken", None, None)[crc32(message_id.encode()) % 4]
