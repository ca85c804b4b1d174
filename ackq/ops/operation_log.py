"""The log of what people did through the page: `OperationLog`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import redis
from redis.exceptions import NoPermissionError

from ackq.core.client import Closable
from ackq.core.effects import Operation, Request
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.ops import asking

#: A stream in Redis. It outlives the page, and all pages of a server share it.
KEY = b"ackq:web:log"
#: About how many entries are kept, of some 300 bytes each.
KEPT = 5000
#: Longest text of a field.
MAX_TEXT = 300
#: Newest entries that are searched for operations that are running.
RECENT = 500
#: Seconds within which an operation in the background records its progress for the first time.
FIRST_DUE = 15.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an operation in the background."""

    looked: int
    moved: int
    total: int
    #: What it did to those that it moved, such as "redriven".
    done: str
    #: Within how many seconds there will be another record; after that, the page has died.
    due_in: float


@dataclass(frozen=True, slots=True)
class Running:
    """An operation without a result: what was recorded of it, and whether a page is at it."""

    entry: Entry
    progress: Progress | None
    alive: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation, as it was recorded before it began or when it had ended."""

    id: str
    who: str
    #: A sentence such as "Redrive 3 dead letters".
    what: str
    kind: str
    #: The queue; empty if the operation was not on a queue.
    name: str
    #: Its result; None if it had not begun when this was recorded.
    result: str | None
    #: The entry that was recorded before it began, or an empty text.
    begun: str
    #: What it is called if it goes on in the background, such as "redrive"; else an empty text.
    job: str = ""
    #: Its progress, if this entry tells only that.
    progress: Progress | None = None
    #: Who asked for its end, if this entry tells only that.
    stop: str = ""

    @property
    def at(self) -> float:
        """When it was recorded, in seconds since the epoch by the server's clock."""
        return int(self.id.partition("-")[0]) / 1000


class OperationLog(Closable):
    """Records every operation twice: before it begins, and with its result.

    An operation whose first entry cannot be written must not begin. If the page dies meanwhile,
    the first entry remains, without a result. Safe to share between threads.
    """

    def __init__(self, client: redis.Redis | redis.RedisCluster) -> None:
        """Prepare; nothing is sent."""
        self._driver = Driver(route_of(client, KEY))

    def begin(self, who: str, what: str, kind: str, name: str, job: str = "") -> str:
        """Record that somebody is about to do something, and return the entry's id.

        Raises:
            NoPermissionError: the user may not write the log.
        """
        fields = {"who": who, "what": what, "kind": kind, "name": name}
        return self._add(fields | ({"job": job} if job else {}))

    def mark(self, who: str, text: str) -> str:
        """Record something that was not done through a page, such as a deployment.

        Returns:
            The entry's id.

        Raises:
            NoPermissionError: the user may not write the log.
        """
        return self._add({"who": who, "what": text, "result": "marked"})

    def note(self, begun: str, progress: Progress) -> None:
        """Record the progress of an operation, for other pages."""
        self._add({"begun": begun, "progress": json.dumps(asdict(progress))})

    def ask_to_stop(self, begun: str, who: str) -> None:
        """Ask the page that is at an operation to stop it."""
        self._add({"begun": begun, "stop": who})

    def stop_asked(self, begun: str, after: str) -> tuple[str, str]:
        """Return who asked for the end of an operation, or an empty text, and the newest entry.

        Args:
            begun: the operation.
            after: the entry up to which somebody has looked.
        """
        entries = self._driver.run(_range("+", f"({after}", RECENT))
        asked = (entry.stop for entry in entries if entry.begun == begun and entry.stop)
        return next(asked, ""), entries[0].id if entries else after

    def running(self) -> list[Running]:
        """Return the operations in the background that have no result, the newest first.

        None of those whose last record is not among the newest 500.
        """
        try:
            entries = self._driver.run(_range("+", "-", RECENT))
        except NoPermissionError:
            return []
        now = self._driver.run(asking.now())
        ended = {entry.begun for entry in entries if entry.result is not None}
        # The newest record of each comes first.
        latest: dict[str, Entry] = {}
        begun: dict[str, Entry | None] = {}
        for entry in entries:
            if entry.progress and entry.begun not in ended:
                latest.setdefault(entry.begun, entry)
                begun.setdefault(entry.begun, None)
            elif entry.job and entry.id not in ended:
                begun[entry.id] = entry
        return [
            _running(first, latest.get(key), now)
            for key, entry in begun.items()
            if (first := entry or self.entry(key)) is not None
        ]

    def end(self, begun: str, result: str) -> str:
        """Record the result of an operation, and return the entry's id."""
        before = self.entry(begun)
        about = {"begun": begun, "result": result}
        if before is not None:
            about |= {
                "who": before.who,
                "what": before.what,
                "kind": before.kind,
                "name": before.name,
            }
        return self._add(about)

    def entry(self, id: str) -> Entry | None:
        """Return an entry, or None if there is none with this id."""
        entries = self._driver.run(_range(id, id, 1))
        return entries[0] if entries else None

    def newest(self, n: int) -> list[Entry] | None:
        """Return what was done last: one entry for each operation, newest first.

        That is the entry with the result if there is one. None if the user may not read the log.
        """
        try:
            entries = self._driver.run(_range("+", "-", 2 * n))
        except NoPermissionError:
            return None
        ended = {entry.begun for entry in entries if entry.result is not None}
        return [
            entry
            for entry in entries
            if entry.id not in ended and not entry.progress and not entry.stop
        ][:n]

    def _add(self, fields: Mapping[str, str]) -> str:
        flat = [text for field, value in fields.items() for text in (field, value[:MAX_TEXT])]
        encoded = [each.encode(errors="backslashreplace") for each in flat]
        return self._driver.run(_add(encoded))

    def close(self) -> None:
        """Close the connections."""
        self._driver.route.close()


def _add(fields: list[bytes]) -> Operation[str]:
    # An entry that is there twice does less harm than one that is missing.
    request = Request((b"XADD", KEY, b"MAXLEN", b"~", KEPT, b"*", *fields), resend=True)
    id: bytes = yield request
    return id.decode()


def _range(newest: str, oldest: str, n: int) -> Operation[list[Entry]]:
    request = Request((b"XREVRANGE", KEY, newest, oldest, b"COUNT", n), resend=True)
    return [_entry(id, fields) for id, fields in (yield request)]


def _entry(id: bytes, fields: list[bytes]) -> Entry:
    texts = {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in zip(fields[::2], fields[1::2], strict=True)
    }
    return Entry(
        id.decode(),
        texts.get("who", ""),
        texts.get("what", ""),
        texts.get("kind", ""),
        texts.get("name", ""),
        texts.get("result"),
        texts.get("begun", ""),
        texts.get("job", ""),
        _progress(texts.get("progress", "")),
        texts.get("stop", ""),
    )


def _progress(text: str) -> Progress | None:
    try:
        return Progress(**json.loads(text))
    except (ValueError, TypeError):  # there is none, or another program wrote it
        return None


def _running(entry: Entry, latest: Entry | None, now: float) -> Running:
    progress = latest.progress if latest else None
    due = latest.at + progress.due_in if latest and progress else entry.at + FIRST_DUE
    return Running(entry, progress, now < due)
