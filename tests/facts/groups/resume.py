"""The facts of groups/resume.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "groups/resume",
    calls=(("e",),),
    fewest=1,
    refused={"no group": ("",)},
)


@FACTS.worst("1,000 dead letters of one group")
def resume(scene: Scene) -> Act:
    queue = scene.queue(groups=Groups("of", 1000, on_dead="stop"))
    queue.push_many({"id": n, "of": "a"} for n in range(2000))
    queue.reject(*queue.pop_many(1000))
    queue.pop()
    return lambda: queue.resume_group("a")
