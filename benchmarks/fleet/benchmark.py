"""How do thousands of consumers of one sharded queue agree on who owns which shard?

A simulation in virtual time. Its consumers run ackq's own heartbeat operation, against a model of
the group's server that takes as long for each request as a real one was measured to take. Up to
some size, the same consumers also run against a real server, and both results are compared.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from ackq.bench.figures import Measure, Ratio, Result
from ackq.membership.operations import GroupKeys, GroupSpec
from benchmarks.fleet.real import Real, load_scripts, measure_costs
from benchmarks.fleet.virtual import Virtual
from benchmarks.fleet.world import GROUP, Course
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.idle import make_room
from benchmarks.picture import Picture
from benchmarks.servers import target

PURPOSE = "Groups of thousands of consumers: when they agree, and what it costs. Simulated."
FIGURES = (
    ("agreement after the last start", "s"),
    ("server's CPU, starting", "%"),
    ("server's CPU, steady", "%"),
    ("agreement after deaths", "s"),
)
SIMULATED, MEASURED = "ackq, simulated", "ackq, measured"
PICTURES = (
    Picture(
        "settled",
        "Until all consumers agree, after the last start",
        FIGURES[0][0],
        "lines",
        x="consumers",
        scale="log",
    ),
    Picture(
        "starting",
        "Server's CPU while they start",
        FIGURES[1][0],
        "lines",
        x="consumers",
        scale="log",
    ),
    Picture(
        "steady",
        "Server's CPU while nothing changes",
        FIGURES[2][0],
        "lines",
        x="consumers",
        scale="log",
    ),
)


def options(options: Options) -> None:
    """Add the options."""
    options.size(
        "consumers", (10, 100, 1000, 3000, 10_000), quick=(100, 1000), smoke=(5,), help="of a group"
    )
    options.size("measured", 1000, smoke=5, help="the largest group on a real server")
    options.size("shards", (12, 120), quick=(120,), smoke=(4,), help="of the queue")
    options.size("rounds", 5, quick=2, smoke=1, help="of each group")
    options.size("start", 10.0, smoke=0.2, help="all consumers within", metavar="S")
    options.size("session", 10.0, smoke=0.5, help="that a session lasts", metavar="S")


def run(settings: Settings) -> Result:
    """Simulate groups of all sizes; measure the small ones."""
    with target(settings.url) as server:
        result = Result("fleet", facts(server, settings))
        with redis.Redis.from_url(server.url) as client:
            load_scripts(client)
            make_room(client, settings.measured)
            for shards in settings.shards:
                for consumers in settings.consumers:
                    _measure(result, client, server.url, consumers, shards, settings)
    result.notes.append(
        f"All consumers start within {settings.start:g} s. Later, a tenth of them dies; their"
        f" sessions last {settings.session:g} s."
    )
    return result


def _measure(
    result: Result, client: redis.Redis, url: str, consumers: int, shards: int, settings: Settings
) -> None:
    spec = GroupSpec.of(GROUP, shards, settings.session)
    rounds: dict[str, list[Course]] = {each: [] for each in (SIMULATED, MEASURED)}
    for number in range(settings.rounds):
        progress(f"{consumers} consumers, {shards} shards")
        seed = settings.seed + number
        costs = measure_costs(client, url, consumers, shards)
        rounds[SIMULATED].append(Virtual(spec, consumers, seed, costs).course(settings.start))
        if consumers <= settings.measured:
            with _real(client, spec, consumers, seed, url) as world:
                rounds[MEASURED].append(world.course(settings.start))
    case = f"{shards} shards"
    for name, courses in rounds.items():
        for (figure, unit), values in zip(FIGURES, zip(*courses, strict=True), strict=False):
            result.measures.append(Measure(case, name, figure, unit, values, consumers))
    if rounds[MEASURED]:
        for place, (figure, _) in enumerate(FIGURES):
            above, below = (
                [each[place] for each in rounds[name]] for name in (SIMULATED, MEASURED)
            )
            what = f"{case}, {consumers} consumers: simulated / measured: {figure}"
            result.ratios.append(Ratio.of(what, above, below))


@contextmanager
def _real(
    client: redis.Redis, spec: GroupSpec, consumers: int, seed: int, url: str
) -> Iterator[Real]:
    world = Real(spec, consumers, seed, url)
    try:
        yield world
    finally:
        world.close()
        client.unlink(*GroupKeys.of(GROUP).all())
