"""Spark beside loops in plain Python: write a queue, read it; and how long each blocks Redis.

In every round, a loop of `push_many` fills a queue for a loop of `pop_many`, and Spark's sink fills
one for Spark's source. All use one server. Ratios are taken within a round.
"""

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import orjson
import redis

from ackq import Message, Queue
from ackq.bench.contestants import LONG
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.messages import Messages
from ackq.bench.rounds import Round, Rounds, ServerCpu, duel, measures_of, percentile
from ackq.queue.keys import QueueKeys
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.spark_pipeline import PIPELINE, PLAIN, QUEUE, Spent, commands
from benchmarks.spark_queries import Queries, absent, queries
from benchmarks.stalls import SLOW_US, logging_slow_commands, longest_idle_loop, script_times

PURPOSE = "Write and read a queue with Spark, beside loops of push_many and pop_many."
#: Bytes of a message, and messages of one call of a loop.
SIZE, CHUNK = 300, 1000
LOOP_QUEUE, SPARK_QUEUE, WAITED = (f"ackq-benchmark:{each}" for each in ("loop", "spark", "waited"))
PUSHING, POPPING = f"ackq, push_many({CHUNK})", f"ackq, pop_many({CHUNK})"
SINK, DIRECT = "Spark sink", "Spark sink, direct"
AT_ONCE, TENTHS = "Spark source, at once", "Spark source, in tenths"
WHOLE, READING = ", with start", ", reading alone"
LATENCY = "Spark source, foreachBatch"
#: The figures of the scripts of a run, all in milliseconds.
BLOCKS = ("median script", "longest script", "longest idle loop as long", "longest other command")
#: Commands of this benchmark itself.
OURS = (b"SLOWLOG", b"INFO", b"CONFIG")


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 5, quick=3, smoke=1, help="of each contestant")
    options.size(
        "messages", 1_000_000, quick=200_000, smoke=3000, help="carried by each contestant"
    )
    options.size("commands", 3, quick=2, smoke=1, help="rounds of the pipeline as a command")
    options.size("latencies", 2, quick=1, smoke=1, help="rounds of the latency")
    options.size("arrivals", 150, quick=60, smoke=4, help="messages of such a round")
    options.size("gap", 0.25, smoke=0.02, help="seconds between two of them")


class Loop:
    """A process that pushes, or pops and acks, a thousand messages per call."""

    def __init__(self, url: str, seed: int) -> None:
        self.queue = Queue.from_url(url, LOOP_QUEUE, visibility_timeout=LONG)
        supply = Messages(seed, SIZE)
        self._chunks = [[orjson.dumps(each) for each in supply.many(CHUNK)] for _ in range(20)]

    def push(self, count: int) -> int:
        """Push ``count`` messages that are already encoded, as Spark's are."""
        pushed = 0
        while pushed < count:
            chunk = self._chunks[pushed // CHUNK % len(self._chunks)][: count - pushed]
            pushed += len(self.queue.push_many(chunk))
        return pushed

    def pop(self, count: int) -> int:
        """Pop and ack ``count`` messages."""
        came = 0
        taken: list[Message] = []
        while came < count:
            taken = self.queue.pop_many(CHUNK, ack=taken)
            came += len(taken)
        self.queue.ack(*taken)
        return came

    def close(self) -> None:
        """Disconnect."""
        self.queue.close()


class Found(NamedTuple):
    """The results of all rounds: messages carried, times that the server was blocked, latencies."""

    writing: Rounds
    reading: Rounds
    commands: dict[str, list[Spent]]
    blocks: dict[str, list[dict[str, float]]]
    latencies: list[list[float]]


def run(settings: Settings) -> Result:
    """Measure loops and Spark in turns; only the loops if Spark is missing."""
    with target(settings.url) as server:
        result = Result("spark", facts(server, settings))
        found = Found({}, {}, {}, {}, [])
        with redis.Redis.from_url(server.url) as client, closing(ServerCpu(server.url)) as cpu:
            clear(client)
            meter = _Meter(client, cpu, settings.messages)
            loop = Loop(server.url, settings.seed)
            try:
                with logging_slow_commands(client), closing(loop):
                    _measure(server.url, settings, meter, loop, found)
            finally:
                clear(client)
        _report(result, settings, found)
    return result


def clear(client: redis.Redis) -> None:
    """Delete the queues."""
    for name in (LOOP_QUEUE, SPARK_QUEUE, WAITED, QUEUE):
        client.unlink(*QueueKeys.of(name).all())
        for key in client.scan_iter(f"{name}*", count=1000):
            client.unlink(key)


class _Meter:
    """Measures one turn."""

    def __init__(self, client: redis.Redis, cpu: ServerCpu, messages: int) -> None:
        self.client, self._cpu, self._messages = client, cpu, messages

    def turn(self, work: Callable[[], int]) -> Round:
        """Measure ``work``, which returns how many messages it carried."""
        gc.collect()
        self.client.slowlog_reset()
        cpu, before = self._cpu.seconds(), time.perf_counter()
        came = work()
        seconds = time.perf_counter() - before
        if came != self._messages:
            raise AssertionError(f"{came} of {self._messages} messages came")
        return Round(came, seconds, self._cpu.seconds() - cpu)

    def blocks(self) -> dict[str, float]:
        """Return how long scripts blocked the server since the last turn began."""
        entries: Any = self.client.slowlog_get(100_000)
        others = [
            each["duration"] / 1000
            for each in entries
            if each["command"][:4] != b"EVAL" and not each["command"].startswith(OURS)
        ]
        scripts = script_times(self.client)
        typical = statistics.median(scripts)
        idle = longest_idle_loop(self.client, typical, len(scripts))
        values = (typical, max(scripts), idle, max(others, default=SLOW_US / 1000))
        return dict(zip(BLOCKS, values, strict=True))


def _measure(url: str, settings: Settings, meter: _Meter, loop: Loop, found: Found) -> None:
    if why := absent():
        progress(f"Spark is left out: {why}")
        for _ in range(settings.rounds):
            _loops(loop, meter, settings, found)
        return
    found.commands.update(commands(url, settings, SIZE))
    progress("starting Spark")
    with queries(url) as spark:
        _warm_up(spark, settings, loop)
        for number in range(settings.rounds):
            progress(f"round {number + 1} of {settings.rounds}")
            turns: list[Callable[[], None]] = [
                lambda: _loops(loop, meter, settings, found),
                lambda: _spark(spark, meter, settings, found),
            ]
            for turn in turns[:: -1 if number % 2 else 1]:
                turn()
        for number in range(settings.latencies):
            progress(f"latency: round {number + 1} of {settings.latencies}")
            found.latencies.append(
                spark.latencies(WAITED, settings.arrivals, settings.gap, settings.seed + number)
            )


def _warm_up(spark: Queries, settings: Settings, loop: Loop) -> None:
    """Let the JVM compile the code first, since real queries run for days."""
    count = max(CHUNK, settings.messages // 5)
    loop.pop(loop.push(count))
    for _ in range(2):
        spark.write(spark.rows(count, SIZE, settings.seed), SPARK_QUEUE, "transactional")
        spark.read(SPARK_QUEUE, count)


def _loops(loop: Loop, meter: _Meter, settings: Settings, found: Found) -> None:
    count = settings.messages
    found.writing.setdefault(PUSHING, []).append(meter.turn(lambda: loop.push(count)))
    found.reading.setdefault(POPPING, []).append(meter.turn(lambda: loop.pop(count)))


def _spark(spark: Queries, meter: _Meter, settings: Settings, found: Found) -> None:
    """Fill the queue by either way of the sink, and empty it by either size of a micro-batch."""
    rows = spark.rows(settings.messages, SIZE, settings.seed)

    def write(mode: str) -> int:
        spark.write(rows, SPARK_QUEUE, mode)
        return meter.client.llen(SPARK_QUEUE)

    found.writing.setdefault(SINK, []).append(meter.turn(lambda: write("transactional")))
    found.blocks.setdefault(SINK, []).append(meter.blocks())
    _read(spark, meter, settings.messages, AT_ONCE, found)
    found.writing.setdefault(DIRECT, []).append(meter.turn(lambda: write("direct")))
    _read(spark, meter, settings.messages // 10, TENTHS, found)


def _read(spark: Queries, meter: _Meter, batch: int, contestant: str, found: Found) -> None:
    reads = []

    def read() -> int:
        reads.append(spark.read(SPARK_QUEUE, batch))
        return reads[0].rows

    whole = meter.turn(read)
    found.blocks.setdefault(contestant, []).append(meter.blocks())
    parts = {"": reads[0].batches, READING: reads[0].reading, WHOLE: reads[0].whole}
    for part, seconds in parts.items():
        # The server's time is known only for the whole run.
        server = whole.server_seconds if part == WHOLE else math.nan
        found.reading.setdefault(contestant + part, []).append(
            Round(whole.messages, seconds, server)
        )


def _report(result: Result, settings: Settings, found: Found) -> None:
    carried = f"{settings.messages:,} of {SIZE} B"
    for what, rounds in (("write", found.writing), ("read", found.reading)):
        result.measures += measures_of(f"{what}, {carried}", rounds)
    if why := absent():
        result.notes.append(f"Spark is left out: {why}.")
        return
    for name in Spent._fields:
        seconds = {
            contestant: tuple(float(getattr(each, name)) for each in spent)
            for contestant, spent in found.commands.items()
        }
        result.measures += [
            Measure(f"command, {carried}", contestant, name, "s", values)
            for contestant, values in seconds.items()
        ]
        what = f"command: {PIPELINE} / {PLAIN}: messages per second, {name}"
        result.ratios.append(Ratio.of(what, seconds[PLAIN], seconds[PIPELINE], 0.9))
    result.ratios += [
        *duel("read", found.reading, AT_ONCE, POPPING, 4)[:1],
        *duel("read", found.reading, TENTHS, POPPING, 2)[:1],
        *duel("read", found.reading, AT_ONCE + WHOLE, POPPING),
        *duel("write", found.writing, SINK, PUSHING, 1, 2),
        *duel("write", found.writing, DIRECT, PUSHING),
    ]
    for contestant, turns in found.blocks.items():
        for figure in BLOCKS:
            values = tuple(each[figure] for each in turns)
            result.measures.append(Measure(f"blocked, {carried}", contestant, figure, "ms", values))
        longest = tuple(each["longest script"] for each in turns)
        result.ratios.append(Ratio(f"{contestant}: longest script, ms", longest, 10, True))
    case = f"one each {settings.gap:g} s"
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        values = tuple(percentile(share, each) for each in found.latencies)
        result.measures.append(Measure(case, LATENCY, f"arrival, {name}", "ms", values))
        if name == "p50":
            result.ratios.append(Ratio(f"{LATENCY}: arrival, {name}, ms", values, 150, True))
    result.notes += [
        "The source is measured with one micro-batch, which takes the queue as it is, and with ten,"
        " whose claims move messages. Each counts from its claim to the commit log, and not what"
        " a query takes to start and to end, once, however much it reads.",
        "The longest script is by SLOWLOG, as in depth. Claims, acks and commits are scripts; the"
        " longest other command is a read or a push of a task, while Spark uses all processors.",
    ]


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["spark", *sys.argv[1:]])
