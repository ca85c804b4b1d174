"""A worker's entries in the lists of workers of its queues, and the orders that it finds there."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import orjson
from redis.exceptions import ResponseError

from ackq.config import Seconds, check_seconds
from ackq.core.effects import Operation
from ackq.errors import EXPECTED, ConfigurationError
from ackq.ops.trials import is_denial
from ackq.queue.registry import call_list, cropped
from ackq.queue.spec import QueueSpec
from ackq.worker.effects import Bell, Call, Routine, Wait
from ackq.worker.lane import Lane
from ackq.worker.logs import log
from ackq.worker.state import State

#: Default interval between two heartbeats, in seconds.
INTERVAL = 5.0
#: An entry ends this many intervals after the last heartbeat.
LIFETIME = 6
#: Longest interval, in seconds: the script's longest lifetime is an hour.
MAX_INTERVAL = 600.0
#: Seconds between two checks of whether there is something new to report.
CHECK_INTERVAL = 0.2
#: Seconds that a worker waits at its end for its entries to be deleted.
LEAVE_TIMEOUT = 1.0
#: Seconds until the next try if the user may not write the list of workers.
REFUSED_PAUSE = 60.0
#: Longest name, in characters.
MAX_NAME = 100
#: Most of a record: characters of a host, messages, and queues.
HOST_SHOWN, RUNNING_SHOWN, QUEUES_SHOWN = 64, 50, 100


class Presence:
    """The service that keeps a worker in the lists of its queues' workers."""

    def __init__(
        self, name: str | None, interval: Seconds | None, stop: Callable[[], None]
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            name: of the worker. None: its id.
            interval: seconds between two heartbeats. None: the worker is not listed.
            stop: stops the worker.

        Raises:
            ConfigurationError: the name or the interval is out of range.
        """
        _check(name)
        self._name = name
        self._stop = stop
        self._bells: list[Bell] = []
        self.interval = 0.0 if interval is None else _checked(interval)
        self.ended = False  #: whether to delete the entries
        self.ordered_to_stop = False

    def start(self, state: State, bell: Callable[[], Bell]) -> list[Routine[None]]:
        """Return a routine for each list. The id is made here, thus after any fork."""
        if not self.interval:
            return []
        host, pid = socket.gethostname()[:HOST_SHOWN], os.getpid()
        self.id = f"{host}:{pid}:{secrets.token_hex(4)}"
        self._state = state
        self._since = state.clock()
        self._fixed = {
            "name": self._name or self.id,
            "host": host,
            "pid": pid,
            "version": version("ackq"),
            "queues": [lane.queue.name for lane in state.lanes[:QUEUES_SHOWN]],
            "concurrency": len(state.slots),
            "interval": self.interval,
            "lifetime": self.lifetime,
        }
        self._bells = [bell() for _ in state.lanes]
        lanes = zip(state.lanes, self._bells, strict=True)
        return [stay_listed(state, lane, self, its_bell) for lane, its_bell in lanes]

    def end(self) -> None:
        """Let the routines delete their entries and end."""
        self.ended = True
        for bell in self._bells:
            bell.ring()

    @property
    def lifetime(self) -> float:
        """Seconds that an entry lasts without a heartbeat."""
        return self.interval * LIFETIME

    def condition(self) -> str:
        """Return what the worker does, in the words of `ackq.ops.workers.WorkerInfo`."""
        state = self._state
        if state.stopping or self.ordered_to_stop:
            return "stopping"
        # A take that was sent before the order may still bring messages. They are in the buffer
        # before it is over, so look at the takes first.
        if not state.quiet or any(lane.take.under_way for lane in state.lanes):
            return "working"
        return "quiet" if state.settled() else "quieting"

    def record(self, lane: Lane) -> bytes:
        """Return what the worker does, for the list of one of its queues."""
        state, now = self._state, self._state.clock()
        fields = {
            **self._fixed,
            "state": self.condition(),
            "busy": state.busy(),
            "age": round(now - self._since, 3),
        }
        running = sorted(self._running(lane, now), key=lambda run: -run[1])[:RUNNING_SHOWN]
        return encode_record(fields, running)

    def _running(self, lane: Lane, now: float) -> list[tuple[str, float]]:
        running = []
        for slot in self._state.slots:
            message = slot.message
            started = slot.started
            held = slot.held()
            # Only if it is still there: otherwise the time may be that of the next message.
            if message is None or slot.message is not message:
                continue
            seconds = round(max(0.0, now - started), 3)
            running += [
                (cropped(one.id), seconds) for one in held if self._state.by_name[one.queue] is lane
            ]
        return running

    def obey(self, order: str) -> None:
        """Carry out an order, such as ``1700000000000000:quiet``."""
        verb = order.rpartition(":")[2]
        if verb == "stop" and not self._state.stopping and not self.ordered_to_stop:
            log.info("stop ordered through Redis")
            self.ordered_to_stop = True
            self._stop()
        elif verb in ("quiet", "resume") and self._state.quiet != (verb == "quiet"):
            log.info("%s ordered through Redis", verb)
            self._state.hush(verb == "quiet")


def stay_listed(state: State, lane: Lane, presence: Presence, bell: Bell) -> Routine[None]:
    """Send heartbeats to the list of one queue until the worker has ended; then leave the list."""
    obeyed = b""
    listed = False
    while not presence.ended:
        listed_as = presence.condition()
        pause = presence.interval
        try:
            order: bytes = yield Call(lane.queue.execute, _heartbeat(presence, lane, obeyed))
        except EXPECTED as error:
            lane.outages.failed("registration of this worker", error, state.clock())
            if isinstance(error, ResponseError) and is_denial(error):
                pause = max(pause, REFUSED_PAUSE)
        else:
            listed = True
            lane.outages.succeeded("registration of this worker", state.clock())
            if order and order != obeyed:
                obeyed = order
                presence.obey(order.decode(errors="replace"))
                continue  # confirm it at once
        until = state.clock() + pause
        while not presence.ended and (left := until - state.clock()) > 0:
            if listed and presence.condition() != listed_as:
                break
            yield Wait(bell, min(left, CHECK_INTERVAL))
    if listed:
        try:
            yield Call(lane.queue.execute, (leave, presence.id))
        except EXPECTED:
            return  # the entry ends by itself


def _heartbeat(presence: Presence, lane: Lane, obeyed: bytes) -> tuple[Any, ...]:
    return heartbeat, presence.id, presence.record(lane), presence.lifetime, obeyed


def _check(name: str | None) -> None:
    if name is not None and not (isinstance(name, str) and 1 <= len(name) <= MAX_NAME):
        raise ConfigurationError(f"a worker's name has 1 to {MAX_NAME} characters: {name!r}")
    if name is not None:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(f"the worker's name {name!r} is not valid Unicode") from None


def _checked(interval: Seconds) -> float:
    seconds = check_seconds(interval, "heartbeat")
    if not 0.05 <= seconds <= MAX_INTERVAL:
        raise ConfigurationError(
            f"heartbeat is 0.05 to {MAX_INTERVAL:g} seconds, or None, not {interval}"
        )
    return seconds


#: Longest record in bytes.
MAX_RECORD = 8192


def encode_record(fields: dict[str, Any], running: Sequence[tuple[str, float]]) -> bytes:
    """Return a record that fits: with as many of the ``running`` messages as there is room for."""
    while True:
        record = orjson.dumps({**fields, "running": running})
        if len(record) <= MAX_RECORD:
            return record
        running = running[: len(running) // 2]


def heartbeat(
    spec: QueueSpec, worker: str, record: bytes, lifetime: float, obeyed: bytes
) -> Operation[bytes]:
    """Enter a worker into the list or keep it there; return the order for it, if there is one.

    Args:
        spec: the queue.
        worker: unlike any other.
        record: what to show, see `encode_record`.
        lifetime: seconds until the entry ends unless there is another heartbeat.
        obeyed: the order last received, so that it is not returned again.
    """
    microseconds = round(lifetime * 1_000_000)
    order: bytes = yield from call_list(spec, "heartbeat", worker, record, microseconds, obeyed)
    return order


def leave(spec: QueueSpec, worker: str) -> Operation[bool]:
    """Delete a worker from the list; return whether it was there."""
    left: int = yield from call_list(spec, "leave", worker)
    return bool(left)
