"""The facts of held/audit.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import Act, Scene
from benchmarks.worst.taking import hold_lists
from tests.facts.facts import Facts

FACTS = Facts(
    "held/audit",
    calls=((1,),),
    fewest=1,
)


@FACTS.worst("1,000 held lists with wrong counts")
def audit(scene: Scene) -> Act:
    hold_lists(scene, 1000, scene.far)
    scene.fill(
        "redis.call('HSET', KEYS[1], KEYS[2] .. n, 9)",
        (scene.keys.heldrows, scene.keys.claim("other", 0)[:-1]),
        1000,
    )
    queue = scene.queue()
    return lambda: queue.audit(repair=True)
