"""The key space of one delay queue: set by hand, and changed by raw script calls."""

from pathlib import Path
from typing import Any

from ackq.core.counters import Counters, derived
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import FUTURE, SECOND, Value, counted, evalsha, mark


class Partition:
    """The keys of delay queue ``name``, and the scripts of ``directory`` called on them."""

    def __init__(self, client: Any, name: str, directory: Path) -> None:
        self.client = client
        self.name = name
        self.directory = directory

    def key(self, part: str) -> str:
        return f"{self.name}:{part}"

    def call(self, script: str, *args: Value) -> Any:
        """Call a script with the keys that its header names."""
        text = read(self.directory, script)
        keys = [slot.name.replace("{queue}", self.name) for slot in parse(text).keys]
        return evalsha(self.client, text, keys, *args)

    def store(self, key: str, body: bytes = b"body", ready: float = 1.0) -> None:
        """Put a message into the queue; by default it has been ready for long."""
        self.client.zadd(self.key("z"), {key: ready})
        self.client.hset(self.key("h"), key, body)

    def lease(
        self, key: str, body: bytes = b"body", deadline: int = FUTURE, count: int | None = None
    ) -> None:
        """Put a message in flight."""
        self.store(key, body, deadline / SECOND)
        self.client.zadd(self.key("leases"), {key: deadline})
        if count is not None:
            self.client.hset(self.key("receives"), key, count)

    def note(self, key: str, body: bytes, *lines: bytes) -> None:
        """Note failures of a message: lines of a receive count, a time and an error."""
        self.client.hset(self.key("errors"), key, b"\n".join((mark(body), *lines)))

    def take(self, wanted: int = 10, max_receives: int = 0) -> tuple[int, list[bytes]]:
        """Take messages, and return their receipt and their keys."""
        reply = self.call("delay/take", "", 0, wanted, 30 * SECOND, 0, max_receives)
        return (reply[1], reply[3::5]) if reply[0] == b"ok" else (0, [])

    def delete(self, receipt: int, *keys: Value) -> Any:
        return self.call("delay/delete", "", 1, receipt, len(keys), *keys)

    def nack(
        self,
        receipt: int,
        *keys: Value,
        way: str = "nack",
        max_receives: int = 0,
        errors: tuple[Value, ...] = (),
    ) -> Any:
        tail = ("errors", *errors) if errors else ()
        group = (1, receipt, 0, len(keys), *keys)
        return self.call("delay/nack", "", way, max_receives, "bad", *group, *tail)

    def reject(self, receipt: int, *keys: Value, errors: tuple[Value, ...] = ()) -> Any:
        return self.nack(receipt, *keys, way="reject", errors=errors)

    def stage(self, *rows: bytes) -> None:
        """Commit rows: each is ``1:<due, µs>:<length of the key>:<key><body>``."""
        name = self.key("staged:<writer>:<batch>:<task>:partitions=<count>:")
        self.client.lpush(name, *rows)
        self.client.zadd(self.key("held"), {name: 0})
        self.client.hset(self.key("heldrows"), name, len(rows))
        self.call("staging/delay", 1000)

    def watch(self, window: int = 60_000) -> Counters:
        now, (live, held, *pairs) = self.call("delay/watch", window)
        counted = dict(zip(pairs[::2], map(int, pairs[1::2]), strict=True))
        return Counters(**derived(now, live, held, counted))

    def shown(self) -> dict[str, Any]:
        """Return the counts that are not 0, but the number of pushes and takes always."""
        return counted(self.watch())

    def noted(self, key: str) -> list[bytes]:
        """Return the failures that are noted for a message, without their times."""
        note = self.client.hget(self.key("errors"), key)
        return [_without_time(line) for line in (note or b"").split(b"\n")[1:]]

    @property
    def dead_lettered(self) -> list[list[bytes]]:
        """The failures of each dead letter, without their times."""
        letters = [fields for _, fields in self.client.xrange(self.key("dead"))]
        return [
            [_without_time(line) for line in fields.get(b"errors", b"").split(b"\n") if line]
            for fields in letters
        ]


def _without_time(line: bytes) -> bytes:
    count, _, rest = line.partition(b":")
    return count + b":" + rest.partition(b":")[2]
