"""The facts of groups/purge.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.groups.pop import PARKED

FACTS = Facts(
    "groups/purge",
    calls=((0,), (1,)),
    fewest=1,
    named_arguments="none",
)


@FACTS.worst("1,000,000 parked of one group")
def purge_parked(scene: Scene) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED", "BUSY"), scene.many(1_000_000))
    queue = scene.queue(groups=Groups("customer"))
    return queue.purge
