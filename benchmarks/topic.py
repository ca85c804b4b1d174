"""Topics beside Redis Streams: publish, read on, commit; and the memory that a message takes.

All contestants take turns in one process, on one server. Ratios are taken within a round.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import orjson
import redis

from ackq.bench.contestants import CONSUMER, GROUP, LONG, Contestant, entries_of
from ackq.bench.figures import Measure, Result
from ackq.bench.messages import Messages
from ackq.topic import Batch, Topic
from benchmarks.frame import Options, Settings, compare, facts
from benchmarks.servers import target

PURPOSE = "Publish and read messages of 100 bytes, beside Streams."
#: Messages in one batch.
BATCH = 100
#: Messages to keep: exactly with ackq, about as many with Streams, which trim faster that way.
KEEP = 10_000


class _Topic(Contestant):
    delivery: Any

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.topic = Topic(
            self.client, key, delivery=self.delivery, visibility_timeout=LONG, max_messages=KEEP
        )
        self.topic.subscribe(CONSUMER)
        self._taken: Batch | tuple[()] = ()

    def side_keys(self) -> Iterable[str]:
        return [key.decode() for key in self.client.scan_iter(f"{self.key}:*", count=1000)]

    def cycle(self) -> int:
        if self.batch == 1:
            self.topic.publish(self.messages.one())
        else:
            self.topic.publish_many(self.messages.many(self.batch))
        self._taken = self.topic.consume(CONSUMER, self.batch, commit=self._taken)
        return len(self._taken)

    def close(self) -> None:
        self.topic.close()
        super().close()


class AtLeastOnce(_Topic):
    """publish, and consume with the commit of the messages read before."""

    delivery = "at_least_once"


class AtMostOnce(_Topic):
    """publish and consume."""

    delivery = "at_most_once"


class _Stream(Contestant):
    """XADD, and a read, in pipelines without a transaction."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.client.xgroup_create(key, GROUP, id="0", mkstream=True)
        self._taken: list[Any] = []

    def cycle(self) -> int:
        if self.batch == 1:
            self._add(self.client, self.messages.one())
        else:
            pipeline = self.client.pipeline(transaction=False)
            for body in self.messages.many(self.batch):
                self._add(pipeline, body)
            pipeline.execute()
        self._taken = [entry for entry, _ in entries_of(self._read())] or self._taken
        return min(self.batch, len(self._taken))

    def _add(self, to: redis.Redis, body: dict[str, str]) -> None:
        to.xadd(self.key, {"body": orjson.dumps(body)}, maxlen=KEEP, approximate=True)

    @abstractmethod
    def _read(self) -> Any:
        """Read ``batch`` entries."""


class StreamGroup(_Stream):
    """XACK of the messages read before, and XREADGROUP, in one round trip."""

    def _read(self) -> Any:
        pipeline = self.client.pipeline(transaction=False)
        if self._taken:
            pipeline.xack(self.key, GROUP, *self._taken)
        pipeline.xreadgroup(GROUP, CONSUMER, {self.key: ">"}, count=self.batch)
        return pipeline.execute()[-1]


class StreamAlone(_Stream):
    """XREAD after the last id, which the reader remembers and Redis does not."""

    def _read(self) -> Any:
        last = self._taken[-1] if self._taken else "0"
        return self.client.xread({self.key: last}, count=self.batch)


MAKERS: dict[str, type[Contestant]] = {
    "ackq, at least once": AtLeastOnce,
    "streams, group": StreamGroup,
    "ackq, at most once": AtMostOnce,
    "streams, XREAD": StreamAlone,
}
RIVALS = [("ackq, at least once", "streams, group"), ("ackq, at most once", "streams, XREAD")]
CASES = {"one by one": 1, f"by {BATCH}": BATCH}


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 12, quick=4, smoke=2, help="with one turn for each contestant")
    options.size("seconds", 0.4, quick=0.15, smoke=0.02, help="of each turn")
    options.size("stored", KEEP, smoke=BATCH, help="messages, to see their memory")


def run(settings: Settings) -> Result:
    """Measure every contestant one by one and in batches."""
    with target(settings.url) as server:
        result = Result("topic", facts(server, settings))
        for case, batch in CASES.items():
            compare(result, case, MAKERS, server.url, batch, RIVALS, settings)
        result.measures += [
            Measure("stored", contestant, "memory", "bytes/message", (size,))
            for contestant, size in memory(server.url, settings.stored, settings.seed).items()
        ]
        return result


def memory(url: str, count: int, seed: int) -> dict[str, float]:
    """Return the bytes of the server that one stored message takes, by contestant."""
    found = {}
    for contestant in ("ackq, at least once", "streams, XREAD"):
        measured = MAKERS[contestant](url, "ackq-benchmark:memory", Messages(seed), BATCH)
        info: Any = measured.client.info("memory")
        before = info["used_memory"]
        measured.burst(count // BATCH)
        info = measured.client.info("memory")
        found[contestant] = (info["used_memory"] - before) / count
        measured.close()
    return found
