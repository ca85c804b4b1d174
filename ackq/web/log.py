"""The log of what people did through the page: `OperationLog`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import redis
from redis.exceptions import NoPermissionError

from ackq.core.client import Closable
from ackq.core.effects import Operation, Request
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of

#: A stream in Redis. It outlives the page, and all pages of a server share it.
KEY = b"ackq:web:log"
#: About how many entries are kept, of some 300 bytes each.
KEPT = 5000
#: Longest text of a field.
MAX_TEXT = 300


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

    def begin(self, who: str, what: str, kind: str, name: str) -> str:
        """Record that somebody is about to do something, and return the entry's id.

        Raises:
            NoPermissionError: the user may not write the log.
        """
        return self._add({"who": who, "what": what, "kind": kind, "name": name})

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
        found = self._driver.run(_range(id, id, 1))
        return found[0] if found else None

    def newest(self, n: int) -> list[Entry] | None:
        """Return what was done last: one entry for each operation, newest first.

        That is the entry with the result if there is one. None if the user may not read the log.
        """
        try:
            found = self._driver.run(_range("+", "-", 2 * n))
        except NoPermissionError:
            return None
        ended = {each.begun for each in found if each.begun}
        return [each for each in found if each.id not in ended][:n]

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
    )
