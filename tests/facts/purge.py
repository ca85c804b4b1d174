"""The facts of purge.lua: see `tests.facts.facts`."""

from benchmarks.worst.ready import in_every_place
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "purge",
    calls=(
        (0,),
        (1,),
    ),
    fewest=1,
    named_arguments="some",
)


@FACTS.worst("1,000,000 in every place")
def purge_deep(scene: Scene) -> Act:
    in_every_place(scene, scene.many(1_000_000))
    queue = scene.queue()
    return lambda: queue.purge(dead=True)


@FACTS.worst("1,000 x 0.9 MiB in flight")
def purge_large(scene: Scene) -> Act:
    scene.held(1000, scene.size(LARGE))
    return scene.queue().purge
