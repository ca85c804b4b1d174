"""The facts of drop.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.busy import Call

FACTS = Facts(
    "drop",
    calls=(("1-1",),),
    refused={"none": (), "51": ("1-1",) * 51, "entry": ("1-1", "x")},
    named_arguments="none",
    given={"51 entries": {"calls": {"51 entries": Call("drop", ("1-1",) * 51)}}},
    mistakes=r"""
test_groups_stop.test_dropping_a_dead_letter_lets_its_group_go_on
  the group stays stopped
  -     end_stop(string.sub(of, PLACE + 1), ARGV[i])
  +     turn(string.sub(of, PLACE + 1))
""",
)


@FACTS.worst("600,000 dead letters")
def drop_deep(scene: Scene) -> Act:
    scene.dead(scene.many(600_000))
    return _drop_all(scene, 1000)


@FACTS.worst("1,000 x 0.9 MiB")
def drop_large(scene: Scene) -> Act:
    scene.dead(1000, scene.size(LARGE))
    return _drop_all(scene, 1000)


def _drop_all(scene: Scene, count: int) -> Act:
    queue = scene.queue()
    entries = [letter.entry for letter in queue.dead_letters(count)]
    return lambda: queue.drop_dead_letters(*entries)
