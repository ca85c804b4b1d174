"""The facts of delay/stats.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import partitioned, spread
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/stats",
    calls=((),),
    mistakes=r"""
delay.test_inspection.test_the_figures_of_all_partitions_are_added_up
  ended leases count
  - '(' .. string.format('%.0f', now), '+inf'
  + 0, '+inf'
  the wait for another than the next
  - wait < 0 and left or math.min(wait, left)
  + math.max(wait, left)
""",
)


@FACTS.worst("1,024 partitions")
def stats(scene: Scene) -> Act:
    spread(scene, scene.many(300_000))
    return times(20, partitioned(scene).stats)
