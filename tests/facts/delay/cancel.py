"""The facts of delay/cancel.lua: see `tests.facts.facts`."""

from ackq.delay import DelayEntry
from benchmarks.worst.delay import of, partitioned, stored
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad

GOOD = (0, 1, "k")
FACTS = Facts(
    "delay/cancel",
    calls=(GOOD,),
    fewest=3,
    refused=bad(GOOD, {1: (0, 2, "x")}),
)


@FACTS.worst("1,000 x 0.9 MiB")
def cancel_large(scene: Scene) -> Act:
    stored(scene, 1000, scene.size(LARGE))
    queue = of(scene)
    return lambda: queue.cancel(*(f"m{n:07d}" for n in range(1, 1001)))


@FACTS.worst("100,000 in 1,024 partitions")
def cancel_spread(scene: Scene) -> Act:
    queue, count = partitioned(scene), scene.many(100_000)
    queue.push_many(DelayEntry(f"m{n}", b"x", delay=60) for n in range(count))
    return lambda: queue.cancel(*(f"m{n}" for n in range(count)))
