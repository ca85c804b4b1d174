"""The facts of delay/extend.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import of, taken
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad, cut

GOOD = ("", 1, 0, 1, 1, 1, "k")
FACTS = Facts(
    "delay/extend",
    calls=(GOOD,),
    fewest=3,
    refused={"a word behind": (*GOOD, "errors")}
    | cut(GOOD, 4, 5, 6)
    | bad(GOOD, {3: (2,), 4: ("x",), 5: (2,)}),
)


@FACTS.worst("100,000 of 1,000,000, one time for all")
def extend(scene: Scene) -> Act:
    held, queue = taken(scene, scene.many(1_000_000))[: scene.many(100_000)], of(scene)
    return lambda: queue.extend(*held, timeout=3600)
