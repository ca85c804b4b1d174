"""The facts of delay/push.lua: see `tests.facts.facts`."""

from ackq.delay import DelayEntry
from benchmarks.worst.delay import of, partitioned, stored
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import NO_NUMBERS, bad

GOOD = (1, "delay", 0, "k", "b")
FACTS = Facts(
    "delay/push",
    calls=(GOOD,),
    fewest=5,
    refused=bad(
        GOOD, {0: (0, 2, "x"), 1: ("now",), 2: (*NO_NUMBERS, -1, 8589934591000001), 3: ("",)}
    ),
)


@FACTS.worst("1,000 x 0.9 MiB")
def push_large(scene: Scene) -> Act:
    queue, text = of(scene), b"x" * scene.size(LARGE)
    return lambda: queue.push_many(DelayEntry(f"m{n}", text, delay=60) for n in range(1000))


@FACTS.worst("100,000 into 1,024 partitions")
def push_spread(scene: Scene) -> Act:
    queue, count = partitioned(scene), scene.many(100_000)
    return lambda: queue.push_many(DelayEntry(f"m{n}", b"x", delay=60) for n in range(count))


@FACTS.worst("100,000 beside 1,000,000, one time for all")
def push_deep(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000), score=8e9)
    queue, count = of(scene), scene.many(100_000)
    return lambda: queue.push_many(DelayEntry(f"n{n}", b"x", at=8e9) for n in range(count))
