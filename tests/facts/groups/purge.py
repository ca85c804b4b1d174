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
    mistakes=r"""
test_groups_pop.test_purge_deletes_what_is_parked
  the slots stay
  - 'UNLINK', busy, parked,
  + 'UNLINK', parked,
test_groups_rates.test_nothing_is_left_of_rates
  given: script="groups/purge"
  keeps the rates
  - runs, woken, rates)
  + runs, woken)
""",
)


@FACTS.worst("1,000,000 parked of one group")
def purge_parked(scene: Scene) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED", "BUSY"), scene.many(1_000_000))
    queue = scene.queue(groups=Groups("customer"))
    return queue.purge
