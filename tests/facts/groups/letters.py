"""The facts of groups/letters.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import stopped_groups
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts

FACTS = Facts(
    "groups/letters",
    calls=((0, "e", "5-1", "e", "5-2"), (1, "e", "5-1")),
    fewest=3,
    refused={"half a pair": (0, "e"), "no id": (0, "e", "x"), "too many": (0, *("e", "5-1") * 101)},
    named_arguments="some",
)


@FACTS.worst("100 x 0.9 MiB")
def audit_large(scene: Scene) -> Act:
    queue = scene.queue(groups=Groups("of", on_dead="stop"))
    text = scene.size(LARGE) * "x"
    queue.push_many({"id": n, "of": str(n), "text": text} for n in range(100))
    while held := queue.pop_many(100):
        queue.reject(*held)
    return lambda: queue.execute(stopped_groups.audit, False)
