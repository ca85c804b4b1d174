"""The facts of groups/drain.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import inspection
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import GROUPED
from tests.facts.facts import Facts
from tests.facts.groups.pop import PARKED

FACTS = Facts(
    "groups/drain",
    calls=((1000,),),
    operation=lambda: inspection.drain(GROUPED),
    replies=[0],
    passes={"wanted": [1000]},
    fewest=1,
    mistakes=r"""
test_groups_pop.test_the_record_is_forgotten_once_nothing_is_parked
  reverses the order
  - redis.call('ZREVRANGE', parked,
  + redis.call('ZRANGE', parked,
  the turns stay
  -     redis.call('DEL', turns, woken)
  -
test_groups_pop.test_drained_messages_keep_the_order_of_their_groups
  given: waits=False
  what was moved to the list stays there
  - if woken_note and moved < wanted
  + if false and moved < wanted
  given: waits=True
  what was handed off stays there
  - while moved < wanted and bytes < BODY_BUDGET and redis.call('EXISTS', handoff) == 1 do
  + while false do
""",
)


def _drain(scene: Scene, count: int, size: int = 100) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED", "BUSY"), count, size)
    queue = scene.queue(groups=Groups("customer"))
    return queue.drain


@FACTS.worst("300,000 parked of one group")
def drain_parked(scene: Scene) -> Act:
    return _drain(scene, scene.many(300_000))


@FACTS.worst("200 x 0.9 MiB parked")
def drain_large(scene: Scene) -> Act:
    return _drain(scene, 200, scene.size(LARGE))
