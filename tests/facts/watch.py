"""The facts of watch.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "watch",
    calls=((10_000, "right"),),
    fewest=1,
    named_arguments="some",
)


@FACTS.worst("100 lengths of leases")
def watch(scene: Scene) -> Act:
    queue = scene.queue()
    queue.counters()
    scene.client.hset(scene.keys.counters, mapping={f"timeout:{n}": n for n in range(97)})
    return times(100, queue.counters)


@FACTS.worst("10,000 lists held")
def watch_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, scene.queue().counters)
