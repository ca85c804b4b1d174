"""The facts of groups/limit.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "groups/limit",
    calls=(("e", 0, 5, "10/1000000/1"), ("e", 0, 0, "0/0/0"), ("e", -1), ("e", 1)),
    fewest=2,
    refused={
        "no group": ("", -1),
        "no rate": ("e", 0, 5),
        "a rate in words": ("e", 0, 5, "fast"),
    },
)


@FACTS.worst("1,000 dead letters of one group")
def resume(scene: Scene) -> Act:
    queue = scene.queue(groups=Groups("of", 1000, on_dead="stop"))
    queue.push_many({"id": n, "of": "a"} for n in range(2000))
    queue.reject(*queue.pop_many(1000))
    queue.pop()
    return lambda: queue.resume_group("a")
