"""The facts of groups/purge.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import inspection
from benchmarks.worst.scene import Act, Scene
from tests.facts.example import GROUPED
from tests.facts.facts import Facts
from tests.facts.groups.pop import PARKED

FACTS = Facts(
    "groups/purge",
    calls=((0,), (1,)),
    operation=lambda: inspection.purge(GROUPED, False),
    replies=[2],
    passes={"dead": [0]},
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
test_groups_pop.test_purge_deletes_what_is_parked
  counts nothing
  - local deleted = redis.call('ZCARD', parked)
  + local deleted = 0
test_groups_stop.test_no_place_is_given_twice_while_a_dead_letter_has_one
  the last place is forgotten
  - elseif are_letters and last_place then
  + elseif false then
  groups stay stopped by dead letters that are deleted
  - if ARGV[1] == '1' then
  + if false then
""",
)


@FACTS.worst("1,000,000 parked of one group")
def purge_parked(scene: Scene) -> Act:
    scene.fill(PARKED, scene.of_groups("PARKED", "BUSY"), scene.many(1_000_000))
    queue = scene.queue(groups=Groups("customer"))
    return queue.purge
