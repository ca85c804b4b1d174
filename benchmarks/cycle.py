"""Push, pop and ack: ackq beside a bare list, LMOVE and LREM, the article's scripts and Streams.

All contestants of a case take turns in one process, on one server, with one connection each.
Ratios are taken within a round. For the article, see `benchmarks.contestants.article`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ackq.bench.contestants import Ackq, BareList, Contestant, Stream
from ackq.bench.figures import Ratio, Result
from ackq.bench.rounds import Rounds, contest, duel, measures_of
from benchmarks.contestants.article import Article
from benchmarks.contestants.lists import AsyncBareList, ProcessingList
from benchmarks.contestants.loop import AsyncAckq
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import Target, target

PURPOSE = "Push, pop and ack, one by one and in batches, with bodies of several sizes."
CONTESTANTS: dict[str, type[Contestant]] = {
    "bare list": BareList,
    "LMOVE and LREM": ProcessingList,
    "article": Article,
    "streams": Stream,
    "ackq": Ackq,
    "bare list, asyncio": AsyncBareList,
    "ackq, asyncio": AsyncAckq,
}
#: Bytes of a batch, beyond which there is no case: it would measure the copying of memory.
LARGEST = 16 * 1024 * 1024
#: Targets with bodies of 100 bytes over TCP: batch size, peer, least throughput and most server
#: time, both as multiples of the peer's.
TARGETS: dict[int, tuple[str, float, float | None]] = {
    1: ("bare list", 0.9, 1.3),
    100: ("streams", 1.6, 1.0),
    1000: ("bare list", 0.22, None),
}
#: The pairs of contestants to compare.
PAIRS = (
    ("ackq", "bare list"),
    ("ackq", "LMOVE and LREM"),
    ("ackq", "article"),
    ("ackq", "streams"),
    ("ackq, asyncio", "bare list, asyncio"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A batch size and a message size, over TCP or a unix socket."""

    batch: int
    size: int
    transport: str
    url: str

    def __str__(self) -> str:
        batch = "one by one" if self.batch == 1 else f"by {self.batch}"
        size = f"{self.size} B" if self.size < 1024 else f"{self.size // 1024} KB"
        return f"{batch}, {size}, {self.transport}"


def options(options: Options) -> None:
    """Add the options."""
    options.size("rounds", 10, quick=4, smoke=2, help="with one turn for each contestant")
    options.size("seconds", 0.4, quick=0.15, smoke=0.005, help="of each turn")
    options.size(
        "batches", (1, 10, 100, 1000), quick=(1, 100, 1000), smoke=(1, 20), help="messages"
    )
    options.size(
        "sizes",
        (100, 1024, 10240, 102400),
        quick=(100, 10240),
        smoke=(100,),
        help="bytes of a body",
    )
    options.size(
        "in-flight",
        1000,
        smoke=50,
        help="messages that other consumers hold meanwhile, in batches: Redis stores"
        " a sorted set of under 128 members differently",
    )
    options.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])


def run(settings: Settings) -> Result:
    """Measure every contestant in every case."""
    makers = {name: CONTESTANTS[name] for name in settings.contestants}
    with target(settings.url) as server:
        result = Result("cycle", facts(server, settings))
        for case in cases(server, settings):
            progress(str(case))
            rounds = contest(
                makers,
                case.url,
                case.batch,
                seed=settings.seed,
                rounds=settings.rounds,
                seconds=settings.seconds,
                size=case.size,
                held=settings.in_flight if case.batch > 1 else 0,
            )
            result.measures += measures_of(str(case), rounds)
            result.ratios += ratios_of(case, rounds)
    result.ratios.sort(key=lambda each: each.target is None)
    return result


def cases(server: Target, settings: Settings) -> Iterator[Case]:
    """Yield every case; a unix socket only with the smallest body, where it matters most."""
    for size in settings.sizes:
        for batch in settings.batches:
            if batch * size <= LARGEST:
                yield Case(batch, size, "TCP", server.url)
    if server.unix_url:
        for batch in settings.batches:
            yield Case(batch, min(settings.sizes), "unix socket", server.unix_url)


def ratios_of(case: Case, rounds: Rounds) -> list[Ratio]:
    """Compare the chosen pairs of contestants, if both took part."""
    found = []
    for above, below in PAIRS:
        if above not in rounds or below not in rounds:
            continue
        aim: tuple[float | None, float | None] = None, None
        if case.size == 100 and case.transport == "TCP" and case.batch in TARGETS:
            against, *aims = TARGETS[case.batch]
            if (above, below) == ("ackq", against):
                aim = aims[0], aims[1]
        found += duel(str(case), rounds, above, below, *aim)
    return found
