"""The facts of groups/ack.lua: see `tests.facts.facts`."""

from ackq import Groups
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.groups.pop import OF_ITS_OWN
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE

FACTS = Facts(
    "groups/ack",
    calls=(MINE,),
    refused=bad_groups(()),
    mistakes=r"""
test_groups_rates.test_an_ack_wakes_no_group_before_its_rate_permits_it
  is its turn at once
  - return math.max(0, math.ceil(ahead_of(tag) - free))
  + return 0
test_groups_rates.test_an_ack_wakes_a_group_whose_rate_permits_it
  waits for its whole burst
  -   local free = (rules.burst - 1) * rules.each + 0.000001
  +   local free = -0.5
""",
)


@FACTS.worst("1,000 of as many groups, all with parked messages")
def ack_groups(scene: Scene) -> Act:
    queue = scene.queue(groups=Groups("customer"))
    scene.fill(OF_ITS_OWN, (scene.keys.ready,), 1000)
    scene.fill(OF_ITS_OWN, (scene.keys.ready,), 1000)
    held = queue.pop_many(1000)
    while queue.pop_many(1):
        pass
    return lambda: queue.ack(*held)
