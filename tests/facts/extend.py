"""The facts of extend.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "extend",
    calls=((30 * SECOND, 0, *MINE),),
    fewest=2,
    named_arguments="some",
    refused=bad_groups((1, 0)),
)


@FACTS.worst("100,000 of 3,000,000 in flight, one score for all")
def extend_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.extend(*held, timeout=3600)


@FACTS.worst("1,000 x 0.9 MiB")
def extend_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.extend(*held, timeout=3600)
