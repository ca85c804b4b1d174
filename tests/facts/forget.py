"""The facts of forget.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import record
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.groups.list import FILLED

FACTS = Facts(
    "forget",
    calls=((),),
    mistakes=r"""
test_groups_pop.test_the_record_is_forgotten_once_nothing_is_parked
  keeps the slots
  - 'UNLINK', busy, turns, flight,
  + 'UNLINK', turns,
test_groups_stop.test_the_record_and_its_dead_letters_are_forgotten_together
  groups stay stopped
  - flight, runs, woken, rates, room, stopped, letters)
  + flight, runs, woken, rates, room)
""",
)


@FACTS.worst("1,000,000 groups")
def forget_groups(scene: Scene) -> Act:
    scene.fill(FILLED, scene.of_groups("BUSY", "TURNS"), scene.many(1_000_000))
    queue = scene.queue(groups=Groups("customer"))
    return lambda: queue.execute(lambda spec: record.forget(spec.keys))
