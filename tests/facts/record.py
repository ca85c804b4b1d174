"""The facts of record.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import record
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

LEFT = ("format", "2", "kind", "left")

FACTS = Facts(
    "record",
    calls=(LEFT,),
    changes_nothing=True,
    fewest=4,
    named_arguments="none",
    refused={
        "no value": (*LEFT, "since"),
        "no kind": (*LEFT[:2], "since", "1"),
        "no format": ("since", "1", *LEFT[2:]),
        "too much": (*LEFT, *range(18)),
    },
)


@FACTS.worst("1,000,000 leases that ended")
def record_settings(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000), score=1, step=1)
    queue = scene.queue(groups=Groups("customer"))
    return times(100, lambda: queue.execute(record.record))
