"""Topics beside Redis Streams: publish, read on, commit; and the memory that a message takes.

All contestants run in one process, in turns, on one server; ratios are taken within a round.
"""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import orjson
import redis

from ackq.topic import Batch, Topic
from benchmarks import report
from benchmarks.contestants.base import Contestant, Messages
from benchmarks.contestants.streams import CONSUMER, GROUP, entries_of
from benchmarks.harness import Ratio, Round, ServerCpu, cycles_for, measure, paired, rotations
from benchmarks.servers import target

#: Messages of one batch.
BATCH = 100
#: Messages that stay: exactly with ackq, about so many with Streams, which is faster for them.
KEEP = 10_000
#: Seconds; longer than any run.
LONG = 12 * 3600.0

Rounds = dict[str, list[Round]]


class _Topic(Contestant):
    delivery: Any

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.topic = Topic(self.client, key, delivery=self.delivery, visibility_timeout=LONG,
                           max_messages=KEEP)  # fmt: skip
        self.topic.subscribe(CONSUMER)
        self._taken: Batch | tuple[()] = ()

    def side_keys(self) -> Iterable[str]:
        return [each.decode() for each in self.client.scan_iter(f"{self.key}:*", count=1000)]

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
    """publish, and consume with the commit of what was read before."""

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
    """XACK of what was read before, and XREADGROUP, in one round trip."""

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
SIZES = {"": 1, f", by {BATCH}": BATCH}


def run(url: str, settings: argparse.Namespace) -> Rounds:
    """Measure every contestant in every round."""
    with ExitStack() as stack:
        cpu = ServerCpu(url)
        stack.callback(cpu.close)
        players: dict[str, tuple[Contestant, int]] = {}
        for tail, batch in SIZES.items():
            for who, make in MAKERS.items():
                messages = Messages(settings.seed)
                player = make(url, f"ackq-benchmark:{len(players)}", messages, batch)
                stack.callback(player.close)
                players[who + tail] = player, cycles_for(player.cycle, settings.seconds)
        rounds: Rounds = {name: [] for name in players}
        for order in rotations(list(players), settings.rounds):
            for name in order:
                player, cycles = players[name]
                rounds[name].append(measure(player.cycle, player.batch, cycles, cpu))
        return rounds


def ratios_of(rounds: Rounds) -> list[Ratio]:
    """Compare each with its rival."""
    found = []
    for tail in SIZES:
        for one, other in RIVALS:
            pair = rounds[one + tail], rounds[other + tail]
            what = f"{one}{tail} / {other}"
            found.append(Ratio(f"{what}: throughput", paired(*pair, lambda each: each.rate)))
            found.append(Ratio(f"{what}: server time", paired(*pair, lambda each: each.server_us)))
    return found


def bytes_a_message(url: str, count: int, seed: int) -> dict[str, float]:
    """Return the memory of the server that one stored message takes, by contestant."""
    found = {}
    for who in ("ackq, at least once", "streams, XREAD"):
        player = MAKERS[who](url, "ackq-benchmark:memory", Messages(seed), BATCH)
        info: Any = player.client.info("memory")
        before = info["used_memory"]
        for _ in range(count // BATCH):
            player.cycle()
        info = player.client.info("memory")
        found[who] = (info["used_memory"] - before) / count
        player.close()
    return found


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


def rows_of(summary: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return the figures of each contestant, for the table."""
    return [
        [
            name,
            *(
                text
                for figure, places in (("messages_per_second", 0), ("server_us_per_message", 2))
                for text in (
                    f"{figures[figure]['median']:,.{places}f}",
                    f"{figures[figure]['min']:,.{places}f}-{figures[figure]['max']:,.{places}f}",
                )
            ),
        ]
        for name, figures in summary.items()
    ]


def main() -> None:
    """Measure, print, write."""
    options = report.parser("topic", "Publish and read messages of 100 bytes, beside Streams.")
    options.add_argument("--rounds", type=int, default=12, help="default: 12")
    options.add_argument(
        "--seconds", type=float, default=0.4, help="of each contestant in each round; default: 0.4"
    )
    settings = options.parse_args()
    if settings.smoke:
        settings.rounds, settings.seconds = 2, 0.02
    with target(settings.url) as server:
        facts = report.circumstances(server, settings)
        print(report.describe(facts), flush=True)
        rounds = run(server.url, settings)
        memory = bytes_a_message(server.url, BATCH if settings.smoke else KEEP, settings.seed)
    summary, ratios = summary_of(rounds), ratios_of(rounds)
    head = ["median of the rounds", "messages/s", "min-max", "server µs/message", "min-max"]
    print(report.table(head, rows_of(summary)), end="\n\n")
    print(report.ratio_table("ratio within a round", ratios), end="\n\n")
    for who, size in memory.items():
        print(f"memory of a stored message, {who}: {size:.0f} bytes")
    report.write(
        settings.json,
        {
            "benchmark": "topic",
            **facts,
            "contestants": summary,
            "ratios": [each.as_json() for each in ratios],
            "bytes_a_message": memory,
        },
    )


if __name__ == "__main__":
    main()
