"""The delay queue beside the article's scripts: push, take, delete; and how late messages come.

All contestants run in one process, in turns, on one server, with messages that wait for later in
the same topic; ratios are taken within a round. The article's consumer sends two commands for each
message; since nothing hinders it from pipelining them, a contestant does that too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import Any

import orjson
import redis

from ackq.delay import DelayEntry, DelayQueue
from benchmarks import report
from benchmarks.contestants.base import Contestant, Messages
from benchmarks.harness import Ratio, Round, ServerCpu, cycles_for, measure, paired, rotations
from benchmarks.servers import target

#: Messages of one batch.
BATCH = 100
#: Seconds until the messages that only lie there are ready; longer than any run.
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

Rounds = dict[str, list[Round]]


class _Delayed(Contestant):
    """A topic in which ``stored`` messages wait for later."""

    stored = 0

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        later = time.time() + LATER
        for first in range(0, self.stored, 1000):
            names = [f"later-{first + n}" for n in range(1000)]
            self.client.zadd(f"{key}:z", dict.fromkeys(names, later))
            self.client.hset(f"{key}:h", mapping=dict.fromkeys(names, "x" * 100))

    def side_keys(self) -> Iterable[str]:
        return [each.decode() for each in self.client.scan_iter(f"{self.key}:*", count=1000)]


class Ackq(_Delayed):
    """push, take under leases, delete."""

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
    """The article's push; its consumer: list, then for each message read the body and delete."""

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
    """The same commands, as many of them in one round trip as can be."""

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


ENTRIES: dict[str, tuple[type[_Delayed], int]] = {
    "ackq": (Ackq, 1),
    "article": (Article, 1),
    f"ackq, by {BATCH}": (Ackq, BATCH),
    f"article, by {BATCH}": (Article, BATCH),
    f"article, by {BATCH}, pipelined": (PipelinedArticle, BATCH),
}
RIVALS = [
    ("ackq", "article"),
    (f"ackq, by {BATCH}", f"article, by {BATCH}"),
    (f"ackq, by {BATCH}", f"article, by {BATCH}, pipelined"),
]


def run(url: str, settings: argparse.Namespace) -> Rounds:
    """Measure every contestant in every round."""
    with ExitStack() as stack:
        cpu = ServerCpu(url)
        stack.callback(cpu.close)
        players: dict[str, tuple[_Delayed, int]] = {}
        for number, (name, (make, batch)) in enumerate(ENTRIES.items()):
            player = make(url, f"ackq-benchmark:{number}", Messages(settings.seed), batch)
            stack.callback(player.close)
            players[name] = player, cycles_for(player.cycle, settings.seconds)
        rounds: Rounds = {name: [] for name in players}
        for order in rotations(list(players), settings.rounds):
            for name in order:
                player, cycles = players[name]
                rounds[name].append(measure(player.cycle, player.batch, cycles, cpu))
        return rounds


def ratios_of(rounds: Rounds) -> list[Ratio]:
    """Compare each with its rivals."""
    found = []
    for one, other in RIVALS:
        pair = rounds[one], rounds[other]
        what = f"{one} / {other}"
        found.append(Ratio(f"{what}: throughput", paired(*pair, lambda each: each.rate)))
        found.append(Ratio(f"{what}: server time", paired(*pair, lambda each: each.server_us)))
    return found


def lateness(url: str, samples: int) -> dict[str, dict[str, float]]:
    """Return by how many ms after its ready time a waiting consumer has a message.

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
    return {"ackq": report.as_figure(ackq), "article": report.as_figure(article)}


def summary_of(rounds: Rounds) -> dict[str, dict[str, Any]]:
    """Return the figures of each contestant, for JSON."""
    return {
        name: {
            "messages_per_second": report.as_figure([each.rate for each in found]),
            "server_us_per_message": report.as_figure([each.server_us for each in found]),
            "rounds": [asdict(each) for each in found],
        }
        for name, found in rounds.items()
    }


def main() -> None:
    """Measure, print, write."""
    options = report.parser("delay", "Push, take and delete messages of 100 bytes.")
    options.add_argument("--rounds", type=int, default=12, help="default: 12")
    options.add_argument(
        "--seconds", type=float, default=0.5, help="of each contestant in each round; default: 0.5"
    )
    options.add_argument(
        "--stored", type=int, default=10_000, help="messages that wait for later; default: 10000"
    )
    options.add_argument("--samples", type=int, default=12, help="of lateness; default: 12")
    settings = options.parse_args()
    if settings.smoke:
        settings.rounds, settings.seconds, settings.stored, settings.samples = 2, 0.02, 1000, 1
    _Delayed.stored = settings.stored
    with target(settings.url) as server:
        facts = report.circumstances(server, settings)
        print(report.describe(facts), flush=True)
        rounds = run(server.url, settings)
        late = lateness(server.url, settings.samples)
    summary, ratios = summary_of(rounds), ratios_of(rounds)
    shown = {
        name: {
            "messages/s": found["messages_per_second"],
            "server µs/message": found["server_us_per_message"],
        }
        for name, found in summary.items()
    }
    print(report.figures_table(shown))
    print()
    print(report.ratio_table("ratio within a round", ratios))
    print()
    print(report.figures_table({name: {"ms late": each} for name, each in late.items()}))
    report.write(
        settings.json,
        {
            "benchmark": "delay",
            **facts,
            "contestants": summary,
            "ratios": [each.as_json() for each in ratios],
            "milliseconds_late": late,
        },
    )


if __name__ == "__main__":
    main()
