"""Let contestants take turns, and measure every turn."""

from __future__ import annotations

import gc
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import redis
from redis.exceptions import NoPermissionError

from ackq.bench.figures import Measure, Ratio
from ackq.bench.messages import Messages

T = TypeVar("T")
#: Percentiles, by name, as shares of the cycles.
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


class Player(ABC):
    """A contestant that is measured: it runs cycles of ``batch`` messages each."""

    batch = 1

    @abstractmethod
    def cycle(self) -> int:
        """Run the measured operation once; return how many messages were received."""

    def burst(self, cycles: int) -> tuple[int, list[float]]:
        """Run cycles; return how many messages were received, and times around each cycle."""
        cycle, clock = self.cycle, time.perf_counter
        came, stamps = 0, [clock()]
        for _ in range(cycles):
            came += cycle()
            stamps.append(clock())
        return came, stamps

    def hold(self, messages: Messages, count: int) -> bool:
        """Take ``count`` messages of another supply and keep them; return False if unsupported."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Delete all keys, and disconnect."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of one contestant; ``cycles`` are the seconds of each cycle, sorted."""

    messages: int
    seconds: float
    server_seconds: float
    cycles: Sequence[float] = ()

    @property
    def rate(self) -> float:
        """Messages per second, as the client sees it."""
        return self.messages / self.seconds

    @property
    def client_us(self) -> float:
        """Microseconds of waiting and work per message in the client."""
        return self.seconds / self.messages * 1e6

    @property
    def server_us(self) -> float:
        """Microseconds of CPU per message in the server; NaN if unknown."""
        return self.server_seconds / self.messages * 1e6


Rounds = dict[str, list[Round]]


class ServerCpu:
    """The CPU time that the server reports for itself."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = redis.Redis.from_url(url)

    def seconds(self) -> float:
        """Return the CPU time in seconds; NaN if the user may not ask."""
        try:
            info: Any = self._client.info("cpu")
        except NoPermissionError:
            return math.nan
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def close(self) -> None:
        self._client.close()


def contest(
    makers: Mapping[str, Callable[[str, str, Messages, int], Player]],
    url: str,
    batch: int,
    *,
    seed: int,
    rounds: int,
    seconds: float,
    size: int = 100,
    held: int = 0,
    prefix: str = "ackq-benchmark:",
) -> Rounds:
    """Create contestants and measure them with messages of ``size`` bytes.

    Each maker gets the URL, a key, messages and the batch size. During the contest, each
    contestant also holds ``held`` messages. All are closed at the end.
    """
    with ExitStack() as stack:
        cpu = ServerCpu(url)
        stack.callback(cpu.close)
        players = {}
        for number, (name, make) in enumerate(makers.items()):
            player = make(url, f"{prefix}{number}", Messages(seed, size), batch)
            stack.callback(player.close)
            if held:
                player.hold(Messages(seed, prefix="h"), held)
            players[name] = player
        return compete(players, cpu, rounds, seconds)


def compete(players: Mapping[str, Player], cpu: ServerCpu, rounds: int, seconds: float) -> Rounds:
    """Warm up all contestants, then measure each for about ``seconds`` in every round."""
    cycles = {name: cycles_for(player, seconds) for name, player in players.items()}
    turns = {name: partial(measure, each, cycles[name], cpu) for name, each in players.items()}
    # What lives to the end is not collected again before each measurement.
    gc.collect()
    gc.freeze()
    try:
        return in_turns(turns, rounds)
    finally:
        gc.unfreeze()


def in_turns(turns: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Let each contestant take a turn in every round, and return what each turn returned."""
    found: dict[str, list[T]] = {name: [] for name in turns}
    for order in rotations(list(turns), rounds):
        for name in order:
            found[name].append(turns[name]())
    return found


def rotations(names: Sequence[str], rounds: int) -> Iterator[Sequence[str]]:
    """Yield an order for each round: each contestant is first in turn, and neighbours swap."""
    for index in range(rounds):
        shift = index // 2 % len(names)
        order = [*names[shift:], *names[:shift]]
        yield order[::-1] if index % 2 else order


def measure(player: Player, cycles: int, cpu: ServerCpu) -> Round:
    """Run cycles and check that all messages were received."""
    gc.collect()
    cpu_before = cpu.seconds()
    came, stamps = player.burst(cycles)
    server_seconds = cpu.seconds() - cpu_before
    if came != cycles * player.batch:
        raise AssertionError(f"{came} of {cycles * player.batch} messages came")
    each = sorted(after - before for before, after in pairwise(stamps))
    return Round(came, stamps[-1] - stamps[0], server_seconds, each)


def cycles_for(player: Player, seconds: float) -> int:
    """Warm up for at least ``seconds``; return how many cycles fit into that time."""
    cycles, spent = 0, 0.0
    while spent < seconds:
        more = max(1, cycles // 2)
        _, stamps = player.burst(more)
        cycles, spent = cycles + more, spent + stamps[-1] - stamps[0]
    return max(1, round(cycles * seconds / spent))


def measures_of(case: str, rounds: Rounds) -> list[Measure]:
    """Return throughput, percentiles of the cycle, and server time of each contestant."""
    measures = []
    for contestant, played in rounds.items():
        rates = tuple(round_.rate for round_ in played)
        measures.append(
            Measure(case, contestant, "throughput", "messages/s", rates, more_is_better=True)
        )
        for name, share in PERCENTILES.items():
            if values := percentiles(share, [round_.cycles for round_ in played]):
                milliseconds = tuple(value * 1000 for value in values)
                measures.append(Measure(case, contestant, f"cycle, {name}", "ms", milliseconds))
        server = tuple(round_.server_us for round_ in played)
        if not any(map(math.isnan, server)):
            measures.append(Measure(case, contestant, "server time", "µs/message", server))
    return measures


def percentiles(share: float, rounds: Sequence[Sequence[float]]) -> list[float]:
    """Return a percentile of each round; of all rounds together if a round has too few values.

    Return an empty list if even all rounds together have too few. Each round must be sorted.
    """
    enough = 1 / (1 - share)
    if min(map(len, rounds)) >= enough:
        return [percentile(share, times) for times in rounds]
    together = sorted(value for times in rounds for value in times)
    return [percentile(share, together)] if len(together) >= enough else []


def percentile(share: float, ordered: Sequence[float]) -> float:
    """Return the least value that at least ``share`` of the sorted values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratio(
    what: str,
    above: Sequence[Round],
    below: Sequence[Round],
    figure: Callable[[Round], float],
    target: float | None = None,
    ceiling: bool = False,
) -> Ratio:
    """Compare a figure of two contestants round by round."""
    return Ratio.of(what, [*map(figure, above)], [*map(figure, below)], target, ceiling)


def duel(
    case: str,
    rounds: Rounds,
    above: str,
    below: str,
    throughput: float | None = None,
    server_time: float | None = None,
) -> list[Ratio]:
    """Compare the throughput and server time of two contestants; each ratio may have a target."""
    what = f"{case}: {above} / {below}" if case else f"{above} / {below}"
    pair = rounds[above], rounds[below]
    ratios = [ratio(f"{what}: throughput", *pair, lambda round_: round_.rate, throughput)]
    server = ratio(
        f"{what}: server time", *pair, lambda round_: round_.server_us, server_time, True
    )
    return ratios if any(map(math.isnan, server.rounds)) else [*ratios, server]
