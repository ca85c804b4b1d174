"""The delay queue beside an article's scripts: push, take, delete; and how late messages come.

The article is "Go+Redis implements delay queue operation" (SoFunction, 2025-03-01). All contestants
take turns in one process, on one server, with delayed messages in the same delay queue. Ratios are
taken within a round. The article's consumer sends two commands per message; another contestant
pipelines them.
"""

import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import orjson
import redis

from ackq.bench.contestants import Contestant
from ackq.bench.figures import Measure, Result
from ackq.bench.messages import Messages
from ackq.delay import DelayEntry, DelayQueue
from benchmarks.frame import Options, Settings, compare, facts
from benchmarks.servers import target

PURPOSE = "Push, take and delete messages of 100 bytes; and how late they come."
#: Messages in one batch.
BATCH = 100
#: Delay of the stored messages in seconds; longer than any run.
LATER = 1_000_000
#: Seconds that the article's consumer sleeps when it found nothing.
ARTICLE_SLEEP = 1.0

PUSH = """
local topicZSet = KEYS[1]
local topicHash = KEYS[2]
local key = ARGV[1]
local body = ARGV[2]
local readyTime = tonumber(ARGV[3])
local count = redis.call("zadd", topicZSet, readyTime, key)
if count == 0 then
   return 0
end
redis.call("hsetnx", topicHash, key, body)
return 1
"""

DELETE = """
local topicZSet = KEYS[1]
local topicHash = KEYS[2]
local key = ARGV[1]
redis.call("zrem", topicZSet, key)
redis.call("hdel", topicHash, key)
return 1
"""


class _Delayed(Contestant):
    """A delay queue with ``stored`` messages that are not due during the run."""

    stored = 0

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        later = time.time() + LATER
        for first in range(0, self.stored, 1000):
            names = [f"later-{first + n}" for n in range(1000)]
            self.client.zadd(f"{key}:z", dict.fromkeys(names, later))
            self.client.hset(f"{key}:h", mapping=dict.fromkeys(names, "x" * 100))

    def side_keys(self) -> Iterable[str]:
        return [key.decode() for key in self.client.scan_iter(f"{self.key}:*", count=1000)]


class Ackq(_Delayed):
    """push, take with leases, delete."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.queue = DelayQueue(self.client, key)

    def cycle(self) -> int:
        if self.batch == 1:
            body = self.messages.one()
            self.queue.push(body["id"], orjson.dumps(body))
        else:
            self.queue.push_many(
                DelayEntry(body["id"], orjson.dumps(body))
                for body in self.messages.many(self.batch)
            )
        taken = self.queue.take(self.batch)
        self.queue.delete(*taken)
        return len(taken)

    def close(self) -> None:
        self.queue.close()
        super().close()


class Article(_Delayed):
    """The article's push and consumer: list due ids, then read and delete each message."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self._push = self.client.register_script(PUSH)
        self._delete = self.client.register_script(DELETE)
        self.z, self.h = f"{key}:z", f"{key}:h"

    def cycle(self) -> int:
        for body in self.messages.many(self.batch):
            now = int(time.time())
            self._push([self.z, self.h], [body["id"], orjson.dumps(body), now])
        taken = 0
        for key in self.due():
            taken += self.client.hget(self.h, key) is not None
            self._delete([self.z, self.h], [key])
        return taken

    def due(self) -> list[bytes]:
        found: Any = self.client.zrangebyscore(self.z, "-inf", int(time.time()), 0, self.batch)
        return list(found)


class PipelinedArticle(Article):
    """The same commands, pipelined into as few round trips as possible."""

    def cycle(self) -> int:
        keys = [self.z, self.h]
        with self.client.pipeline(transaction=False) as pipeline:
            for body in self.messages.many(self.batch):
                self._push(keys, [body["id"], orjson.dumps(body), int(time.time())], pipeline)
            pipeline.execute()
            due = self.due()
            for key in due:
                pipeline.hget(self.h, key)
            bodies = pipeline.execute()
            for key in due:
                self._delete(keys, [key], pipeline)
            pipeline.execute()
        return sum(body is not None for body in bodies)


#: The contestants, and the one that ackq is compared with.
CASES: dict[str, tuple[int, dict[str, type[_Delayed]]]] = {
    "one by one": (1, {"ackq": Ackq, "article": Article}),
    f"by {BATCH}": (
        BATCH,
        {"ackq": Ackq, "article": Article, "article, pipelined": PipelinedArticle},
    ),
}


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 12, quick=4, smoke=2, help="with one turn for each contestant")
    options.size("seconds", 0.5, quick=0.15, smoke=0.02, help="of each turn")
    options.size("stored", 10_000, smoke=1000, help="delayed messages that stay stored")
    options.size("samples", 12, quick=4, smoke=1, help="of lateness")


def run(settings: Settings) -> Result:
    """Measure every contestant one by one and in batches, and how late messages arrive."""
    _Delayed.stored = settings.stored
    with target(settings.url) as server:
        result = Result("delay", facts(server, settings))
        for case, (batch, makers) in CASES.items():
            pairs = [("ackq", rival) for rival in list(makers)[1:]]
            compare(result, case, makers, server.url, batch, pairs, settings)
        result.measures += lateness(server.url, settings.samples)
        return result


def lateness(url: str, samples: int) -> list[Measure]:
    """Measure how many ms after its due time a waiting consumer receives a message.

    Both clocks are this machine's.
    """
    key = "ackq-benchmark:late"
    ackq, article = [], []
    with redis.Redis.from_url(url) as client, closing(DelayQueue(client, key)) as queue:
        delete = client.register_script(DELETE)
        for number in range(samples):
            queue.push(f"a{number}", b"x", delay=0.3 + 0.013 * number)
            (message,) = queue.take(timeout=10)
            ackq.append((time.time() - message.ready_time) * 1000)
            queue.delete(message)
            queue.push(f"b{number}", b"x", at=int(time.time()) + 1)  # a whole second, as it has
            while not (due := client.zrangebyscore(f"{key}:z", "-inf", int(time.time()))):
                time.sleep(ARTICLE_SLEEP)
            ready: Any = client.zscore(f"{key}:z", due[0])
            article.append((time.time() - ready) * 1000)
            delete([f"{key}:z", f"{key}:h"], due)
        client.delete(*client.scan_iter(f"{key}:*"))
    return [
        Measure("waiting", "ackq", "late", "ms", tuple(ackq)),
        Measure("waiting", "article", "late", "ms", tuple(article)),
    ]
