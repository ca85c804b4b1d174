"""A queue with groups beside the same queue without, and beside groups written by hand.

All contestants of a case take turns in one process, on one server. Ratios are taken within a round.
"""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any

from ackq import Groups, Message, Queue
from ackq.bench.contestants import LONG, Ackq
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.messages import Body, Messages
from ackq.bench.rounds import ServerCpu, compete, duel, measures_of, percentile
from benchmarks.contestants.by_hand import FIELD, ByHand
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import Target, target

PURPOSE = "Groups: the order of each customer, beside a queue without groups and groups by hand."
GROUPED, PLAIN, BY_HAND = "ackq, groups", "ackq", "by hand"
#: Messages in one batch.
BATCH = 100
#: Cases, with the number of groups (0: one for each message) and the least share of the throughput
#: of the queue without groups.
CASES: dict[str, tuple[int, float]] = {
    "1,000 groups": (1000, 0.5),
    "a group for each message": (0, 0.55),
    "20 groups": (20, 0.4),
}
BUSY, QUIET = "beside a busy group", "without it"
#: A busy group may make the others slower by this factor, which is within the noise.
NO_EFFECT = 1.1
#: Consumers that wait at a limit: what ends their wait, with the settings of the queue.
LIMITS: dict[str, dict[str, Any]] = {
    "a place of its group": {"groups": Groups(field=FIELD, in_flight=1)},
    "a place of the queue": {"max_in_flight": 1},
}
#: Milliseconds within which half of those consumers have the next message.
WOKEN_WITHIN = 50.0
#: Seconds after which a consumer surely waits.
WAITS_AFTER = 0.02


class GroupedMessages(Messages):
    """Messages with a group each: one drawn at random, or with 0 groups one of their own."""

    def __init__(self, seed: int, groups: int, prefix: str = "m") -> None:
        super().__init__(seed, 80, prefix)
        self._prefix = prefix
        self._draw = random.Random(seed)
        self._groups = groups
        self._number = count()

    def many(self, number: int) -> list[Body]:
        return [{**body, FIELD: self._group()} for body in super().many(number)]

    def _group(self) -> str:
        if self._groups:
            return f"{self._prefix}-{self._draw.randrange(self._groups)}"
        return f"{self._prefix}-{next(self._number)}"


class Plain(Ackq):
    """`push_many`, and `pop_many` with the acks of the messages before, until all were received."""

    def cycle(self) -> int:
        self.queue.push_many(self.messages.many(self.batch))
        missing = self.batch
        while missing:
            self._taken = self.queue.pop_many(missing, ack=self._taken)
            missing -= len(self._taken)
        return self.batch


class Grouped(Plain):
    """The same with one message of a group at a time."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self.queue = Queue(
            self.client, key, visibility_timeout=LONG, groups=Groups(field=FIELD, in_flight=1)
        )


MAKERS: dict[str, Callable[[str, str, Messages, int], Plain | ByHand]] = {
    PLAIN: Plain,
    BY_HAND: ByHand,
    GROUPED: Grouped,
}


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 12, quick=4, smoke=2, help="with one turn for each contestant")
    options.size("seconds", 0.4, quick=0.15, smoke=0.02, help="of each turn")
    options.size("in-flight", 1000, smoke=50, help="messages that others hold meanwhile")
    options.size("flood", 100_000, quick=20_000, smoke=500, help="messages of the busy group")
    options.size("samples", 2000, quick=500, smoke=20, help="messages whose latency is measured")
    options.size("wakes", 30, quick=10, smoke=2, help="times in each round a consumer is woken")


def run(settings: Settings) -> Result:
    """Measure every contestant in every case, then the latency beside a busy group."""
    with target(settings.url) as server:
        result = Result("groups", facts(server, settings))
        for case, (groups, least) in CASES.items():
            progress(case)
            with ExitStack() as stack:
                cpu = ServerCpu(server.url)
                stack.callback(cpu.close)
                players = {}
                for number, (name, make) in enumerate(MAKERS.items()):
                    messages = GroupedMessages(settings.seed, groups)
                    key = f"ackq-benchmark:{{{number}}}"
                    players[name] = player = make(server.url, key, messages, BATCH)
                    stack.callback(player.close)
                    player.hold(GroupedMessages(settings.seed, 0, "h"), settings.in_flight)
                rounds = compete(players, cpu, settings.rounds, settings.seconds)
            result.measures += measures_of(case, rounds)
            result.ratios += duel(case, rounds, GROUPED, PLAIN, least)
            result.ratios += duel(case, rounds, GROUPED, BY_HAND)
        progress("a busy group")
        _beside_a_busy_group(server, settings, result)
        progress("waking")
        for number, limit in enumerate(LIMITS):
            _wake(server, settings, result, limit, f"ackq-benchmark:{{w{number}}}")
    result.ratios.sort(key=lambda each: each.target is None)
    return result


def _beside_a_busy_group(server: Target, settings: Settings, result: Result) -> None:
    """Measure from push to delivery of other groups, with and without a group that floods."""
    medians: dict[str, list[float]] = {BUSY: [], QUIET: []}
    with ExitStack() as stack:
        queues = {}
        for number, name in enumerate(medians):
            make = Grouped(server.url, f"ackq-benchmark:{{b{number}}}", Messages(0), 1)
            stack.callback(make.close)
            queues[name] = make.queue
        _flood(queues[BUSY], settings.flood)
        messages = GroupedMessages(settings.seed, 1000)
        for _ in range(settings.rounds):
            for name, queue in queues.items():
                times = sorted(_latency(queue, each) for each in messages.many(settings.samples))
                medians[name].append(percentile(0.5, times) * 1000)
    for name, values in medians.items():
        case = "latency of the others"
        result.measures.append(Measure(case, f"{GROUPED}, {name}", "p50", "ms", tuple(values)))
    what = f"latency of the others: {BUSY} / {QUIET}: p50"
    result.ratios.append(Ratio.of(what, medians[BUSY], medians[QUIET], NO_EFFECT, ceiling=True))


def _wake(server: Target, settings: Settings, result: Result, limit: str, key: str) -> None:
    """Measure from an ack to the delivery to a consumer that waits at a limit."""
    medians = []
    with (
        Queue.from_url(server.url, key, **LIMITS[limit]) as queue,
        Queue.from_url(server.url, key, **LIMITS[limit]) as waiter,
        ThreadPoolExecutor(1) as pool,
    ):
        queue.push({"id": "0", FIELD: "c"})
        held = queue.pop()
        for _ in range(settings.rounds):
            times = []
            for _ in range(settings.wakes):
                queue.push({FIELD: "c"})
                woken = pool.submit(_take, waiter)
                time.sleep(WAITS_AFTER)
                began = time.perf_counter()
                queue.ack(*filter(None, [held]))
                held, at = woken.result()
                times.append(at - began)
            medians.append(percentile(0.5, sorted(times)) * 1000)
        queue.purge()
    what = f"waking for {limit}"
    result.measures.append(Measure(what, "ackq", "p50", "ms", tuple(medians)))
    within = [WOKEN_WITHIN] * len(medians)
    ratio = Ratio.of(f"{what} / {WOKEN_WITHIN:g} ms: p50", medians, within, 1.0, ceiling=True)
    result.ratios.append(ratio)


def _take(queue: Queue) -> tuple[Message | None, float]:
    taken = queue.pop(timeout=10)
    return taken, time.perf_counter()


def _flood(queue: Queue, number: int) -> None:
    """Fill a queue with messages of one group, and hold one of them."""
    supply = Messages(0, 80, "f")
    for at in range(0, number, 1000):
        queue.push_many({**each, FIELD: "busy"} for each in supply.many(min(1000, number - at)))
    assert queue.pop() is not None
    while queue.pop() is not None:  # each call moves more of them aside
        pass


def _latency(queue: Queue, message: Body) -> float:
    """Return the seconds from a push to the delivery, and ack."""
    began = time.perf_counter()
    queue.push(message)
    taken = queue.pop()
    taken_after = time.perf_counter() - began
    assert taken is not None, "the busy group holds up another"
    queue.ack(taken)
    return taken_after
