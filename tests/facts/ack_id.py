"""The facts of ack_id.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "ack_id",
    calls=(("mine",),),
    refused={"none": (), "4001": ("mine",) * 4001},
    named_arguments="none",
)


@FACTS.worst("1,000 x 0.9 MiB")
def ack_id_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.ack_id(*(each.id for each in held))


@FACTS.worst("100,000 with counts")
def ack_id_counted(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(100_000)), scene.queue()
    scene.counted(len(held), 3)
    return lambda: queue.ack_id(*(each.id for each in held))
