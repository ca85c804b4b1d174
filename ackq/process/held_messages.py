"""The messages that a worker process holds, in a file that its parent can read after killing it.

A handler that never returns may hold Python's lock, so its process cannot report anything by then.
Therefore each message is written down when it arrives and when its handler begins and ends. The
file is mapped into memory, so this takes about four microseconds per message and no system call.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import random
import signal
import struct
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ackq.config import QueueConfig
from ackq.queue.messages import Message
from ackq.queue.record import settings_of, text_of
from ackq.worker.hooks import Supervised
from ackq.worker.policy import Backoff, Settlement, Terms, settlement_of

#: The states of a message. A finished one is about to be acked, a failed one to be retried, and a
#: handed one is the parent's.
FREE, WAITING, RUNNING, FINISHED, HANDED, FAILED = range(6)
#: The states of those whose handlers have ended. The others are settled already.
_AFTER = {"ack": FINISHED, "nack": FAILED, "reject": FAILED, "release": WAITING}
#: The file begins with the number of slots, of records, of bytes of the queues' settings, and of
#: messages that were handed to the parent.
_HEAD = struct.Struct("<IIII")
#: Messages that a process hands over at most in `_KEPT` seconds, in which no record of them is
#: overwritten.
_MOST_HANDED, _KEPT = 200, 2.0
#: When a slot's handler must have ended, by the machine's monotonic clock, its record and thread.
_SLOT = struct.Struct("<dII")
#: State, the number of the queue's settings, receipt, receive count, the limit of that or 0,
#: lengths of queue, key and the reason for a dead letter, and the delay of a retry.
_RECORD = struct.Struct("<BxHqIIHHHd")
#: Bytes of one record: long enough for the name of any queue and any lease key that ackq makes.
_SIZE = 1024


def killed() -> TimeoutError:
    """Return the error of a handler whose process was killed."""
    return TimeoutError("over the time limit, and its process was killed")


def ended(code: int) -> ChildProcessError:
    """Return the error of a handler that ended its process, by the exit code of that."""
    # Most real-time signals have no name.
    name = next((each.name for each in signal.Signals if each == -code), -code)
    how = f"exit code {code}" if code >= 0 else f"signal {name}"
    return ChildProcessError(f"ended its process, {how}")


@dataclass(frozen=True, slots=True)
class Held:
    """One message of a process that was killed."""

    message: Message
    config: QueueConfig
    state: int
    #: Whether its handler was over its limit, or has failed.
    overdue: bool
    #: What becomes of it in that case, or if it ended its process.
    settlement: Settlement
    #: The number of its queue among those of the worker.
    number: int
    #: How often it may be received, if there is a limit.
    limit: int | None
    #: Why it failed, if that is known.
    error: Exception | None = field(default_factory=killed)

    @property
    def id(self) -> tuple[str, bytes, int]:
        """What tells its lease from all others."""
        return self.message.queue, self.message.key, self.message.receipt


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of messages, of which some tasks have their own."""

    #: Seconds after which the process of a handler is to be killed.
    usual: float
    #: The same, by the name of the task.
    by_task: Mapping[str | None, float] = field(default_factory=dict)
    #: The terms of messages, by the name of the task. Other messages have those of their queue.
    terms_by_task: Mapping[str | None, Terms] = field(default_factory=dict)

    def of(self, message: Message) -> float:
        """Return after how many seconds the process of this message's handler is to be killed."""
        return self.by_task.get(message.task, self.usual) if self.by_task else self.usual

    def settlement(self, message: Message, usual: Terms) -> tuple[Settlement, int | None]:
        """Return what becomes of a message that ended its process, and how often it is delivered.

        Args:
            message: the message.
            usual: the terms of its queue.
        """
        terms = self.terms_by_task.get(message.task, usual) if self.terms_by_task else usual
        if terms.max_receives is None:
            terms = dataclasses.replace(terms, max_receives=usual.max_receives)
        chance = random.random()
        settled = settlement_of(killed(), message.receive_count, Backoff(), chance, terms)
        return settled, terms.max_receives


class HeldMessages(Supervised):
    """Writes down what this process holds. Hooks of a worker."""

    def __init__(
        self,
        file: Path,
        queues: Mapping[str, QueueConfig],
        sharded: Collection[str],
        concurrency: int,
        prefetch: int,
        limits: Limits,
    ) -> None:
        """Make the file.

        Args:
            file: where. It is replaced.
            queues: the settings of each queue, by its name.
            sharded: the names of those that are sharded.
            concurrency: how many messages are handled at a time.
            prefetch: how many messages wait for that at most.
            limits: when a handler's process is to be killed, and when a message is dead.
        """
        self._limits = limits
        self._usual = {name: Terms(max_receives=each.max_receives) for name, each in queues.items()}
        self._numbers = {name: number for number, name in enumerate(queues)}
        settings = orjson.dumps([(_written(queues[n]), n, n in sharded) for n in queues])
        # Messages that the worker releases because they waited too long are overwritten in turn.
        self._records = 2 * (concurrency + prefetch) + 1000
        self._first_slot = _HEAD.size + len(settings)
        self._first_record = self._first_slot + concurrency * _SLOT.size
        with open(file, "w+b") as opened:
            os.truncate(opened.fileno(), self._first_record + self._records * _SIZE)
            self._map = mmap.mmap(opened.fileno(), 0)
        self._map[_HEAD.size : self._first_slot] = settings
        self._free_slots = deque(range(concurrency))
        self._lock = threading.Lock()
        self._next = 0
        self._owners: list[Message | None] = [None] * self._records
        self._places: dict[Message, int] = {}
        self._running: dict[Message, int] = {}
        #: When the latest messages were handed over, and their places.
        self._handed: deque[tuple[float, int]] = deque(maxlen=_MOST_HANDED)
        self._head = concurrency, self._records, len(settings)
        self._all_handed = 0
        # Last, so that the parent never reads half of it.
        _HEAD.pack_into(self._map, 0, *self._head, 0)

    def taken(self, queue: str, messages: Sequence[Message]) -> None:
        """Write down messages that wait."""
        number, usual = self._numbers[queue], self._usual[queue]
        with self._lock:
            for message in messages:
                name = message.queue.encode()
                (verb, argument), limit = self._limits.settlement(message, usual)
                reason = str(argument).encode() if verb == "reject" else b""
                body = name + message.key + reason
                if len(body) > _SIZE - _RECORD.size:
                    continue  # of another program; it comes back when its lease ends
                place = self._free_place()
                at = self._first_record + place * _SIZE
                self._map[at] = FREE  # until the record is whole
                start = at + _RECORD.size
                self._map[start : start + len(body)] = body
                lengths = len(name), len(message.key), len(reason)
                delay = 0.0 if reason else float(argument)
                count = min(message.receive_count, 2**32 - 1)
                fields = number, message.receipt, count, limit or 0, *lengths, delay
                _RECORD.pack_into(self._map, at, WAITING, *fields)
                self._places[message] = place
                self._owners[place] = message

    def hand_over(self, message: Message) -> bool:
        """Write down that the parent is to run a message in another process."""
        now = time.monotonic()
        with self._lock:
            while self._handed and self._handed[0][0] < now - _KEPT:
                self._handed.popleft()
            place = self._places.get(message)
            if place is None or len(self._handed) == _MOST_HANDED:
                return False
            self._map[self._first_record + place * _SIZE] = HANDED
            self._forget(place)
            self._handed.append((now, place))
            self._all_handed = (self._all_handed + 1) % 2**32
            _HEAD.pack_into(self._map, 0, *self._head, self._all_handed)
        return True

    def before(self, message: Message) -> None:
        """Write down when the handler must have ended."""
        place = self._places.get(message)
        if place is None:
            return
        slot = self._free_slots.popleft()
        self._running[message] = slot
        self._map[self._first_record + place * _SIZE] = RUNNING
        deadline, thread = time.monotonic() + self._limits.of(message), threading.get_native_id()
        at = self._first_slot + slot * _SLOT.size
        _SLOT.pack_into(self._map, at, deadline, place, thread)

    def after(self, message: Message, outcome: str, seconds: float) -> None:
        """Write down that the handler has ended."""
        slot = self._running.pop(message, None)
        if slot is None:
            return
        place = self._places[message]
        _SLOT.pack_into(self._map, self._first_slot + slot * _SLOT.size, 0.0, 0, 0)
        self._map[self._first_record + place * _SIZE] = _AFTER.get(outcome, FREE)
        self._free_slots.append(slot)
        with self._lock:
            self._forget(place)

    def _free_place(self) -> int:
        """Return the next place whose message does not run, and forget that message."""
        while True:
            place = self._next
            self._next = (place + 1) % self._records
            owner = self._owners[place]
            if any(place == handed for _, handed in self._handed):
                continue
            if owner is None or owner not in self._running:
                self._forget(place)
                return place

    def _forget(self, place: int) -> None:
        owner, self._owners[place] = self._owners[place], None
        if owner is not None:
            self._places.pop(owner, None)


class HeldBy:
    """What a process holds, as its parent reads it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._map: mmap.mmap | None = None
        self._handed = 0
        #: The leases of the messages that were handed over.
        self.taken: set[tuple[str, bytes, int]] = set()

    def forget(self) -> None:
        """Prepare for the next process, which makes its own file."""
        self._map = None
        self._handed = 0
        self.taken.clear()
        self.file.unlink(missing_ok=True)

    def overdue(self, pid: int) -> set[int]:
        """Return the records of the handlers that keep this process from going on.

        Those are the handlers that should have ended by now. If some of their threads compute, it
        is only these: the others may just wait for Python's lock.
        """
        now = time.monotonic()
        late = {place: thread for deadline, place, thread in self._slots() if 0 < deadline < now}
        return {place for place, thread in late.items() if _computes(pid, thread)} or {*late}

    def handed(self) -> list[Held]:
        """Return the messages that the process has handed over since the last call."""
        written = self._opened()
        if written is None or (number := _HEAD.unpack_from(written, 0)[3]) == self._handed:
            return []
        self._handed = number
        return [held for held in self.read(()) if held.state == HANDED]

    def read(self, overdue: Collection[int]) -> list[Held]:
        """Return all messages of a process that has ended, those that it settled just now too.

        One that was handed over is returned once.

        Args:
            overdue: what `overdue` returned.
        """
        written = self._opened()
        if written is None:
            return []
        slots, records, length, _ = _HEAD.unpack_from(written, 0)
        configs = [config for config, _, _ in self.queues()]
        first = _HEAD.size + length + slots * _SLOT.size
        held = []
        for place in range(records):
            at = first + place * _SIZE
            state, number, receipt, count, limit, name, key, reason, delay = _RECORD.unpack_from(
                written, at
            )
            if state == FREE:
                continue
            start = at + _RECORD.size
            queue = written[start : start + name].decode()
            end = start + name + key
            leased = Message(queue, written[start + name : end], b"", receipt, count)
            text = written[end : end + reason].decode()
            settlement = Settlement("reject", text) if text else Settlement("nack", delay)
            late = place in overdue or state == FAILED
            error = None if state == FAILED else killed()
            one = Held(
                leased, configs[number], state, late, settlement, number, limit or None, error
            )
            if state != HANDED or one.id not in self.taken:
                held.append(one)
        self.taken.update(one.id for one in held if one.state == HANDED)
        return held

    def queues(self) -> list[tuple[QueueConfig, str, bool]]:
        """Return the settings and the name of each queue, and whether it is sharded."""
        written = self._opened()
        if written is None:
            return []
        length = _HEAD.unpack_from(written, 0)[2]
        found = orjson.loads(written[_HEAD.size : _HEAD.size + length])
        return [(_read(config), name, is_sharded) for config, name, is_sharded in found]

    def _slots(self) -> list[tuple[float, int, int]]:
        written = self._opened()
        if written is None:
            return []
        slots, _, length, _ = _HEAD.unpack_from(written, 0)
        first = _HEAD.size + length
        return list(_SLOT.iter_unpack(written[first : first + slots * _SLOT.size]))

    def _opened(self) -> mmap.mmap | None:
        """Return the file, or None as long as it is not made and complete."""
        if self._map is None:
            try:
                with open(self.file, "rb") as opened:
                    self._map = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                return None
        return self._map if _HEAD.unpack_from(self._map, 0)[1] else None


def _written(config: QueueConfig) -> tuple[dict[str, Any], str]:
    """Return the settings of a queue as JSON can have them: its groups as in their record."""
    plain = dataclasses.replace(config, groups=None, max_in_flight=None)
    return plain.settings(), text_of(config) if config.grouped else ""


def _read(written: tuple[dict[str, Any], str]) -> QueueConfig:
    plain, record = written
    return QueueConfig(**plain | settings_of(record))


def _computes(pid: int, thread: int) -> bool:
    """Return whether a thread uses a processor just now, as far as Linux's /proc tells."""
    try:
        stat = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "R"
