"""The facts of delay/stats.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import partitioned, spread
from benchmarks.worst.scene import Act, Scene, times
from tests.facts.facts import Facts

FACTS = Facts(
    "delay/stats",
    calls=((),),
    mistakes=r"""
delay.test_inspection.test_a_purge_deletes_all_and_keeps_the_dead_unless_asked
  forgets the dead
  - dead = dead + redis.call('XLEN', KEYS[first + 5])
delay.test_inspection.test_the_figures_of_all_partitions_are_added_up
  only the last partition
  - stored = stored + redis.call(
  + stored = redis.call(
  all are ready
  - string.format('%.6f', now / 1000000))
  + '+inf')
  ended leases count
  - '(' .. string.format('%.0f', now), '+inf'
  + 0, '+inf'
  the wait for another than the next
  - wait < 0 and left or math.min(wait, left)
  + math.max(wait, left)
  waits for what is ready
  - , 0), 1e15)
  + , 1), 1e15)
""",
)


@FACTS.worst("1,024 partitions")
def stats(scene: Scene) -> Act:
    spread(scene, scene.many(300_000))
    return times(20, partitioned(scene).stats)
