"""The facts of drop.lua: see `tests.facts.facts`."""

from ackq.queue import inspection
from benchmarks.worst.scene import LARGE, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.queue.scripts.busy import Call

FACTS = Facts(
    "drop",
    calls=(("1-1",),),
    operation=lambda: inspection.drop_dead_letters(SPEC, ["1-1"]),
    replies=[1],
    passes={"entries": ["1-1"]},
    refused={"none": (), "51": ("1-1",) * 51, "entry": ("1-1", "x")},
    named_arguments="none",
    given={"51 entries": {"calls": {"51 entries": Call("drop", ("1-1",) * 51)}}},
    mistakes=r"""
test_counts.test_redriven_and_dropped_dead_letters
  counts what was not there
  - count_up('dropped:dead', deleted)
  + count_up('dropped:dead', deleted + 1)
test_arguments.test_an_argument_out_of_range_is_refused_before_anything_is_changed
  given: 51 entries
  any number of entries
  - #ARGV > 50
  + false
test_groups_stop.test_dropping_a_dead_letter_lets_its_group_go_on
  the group stays stopped
  -     go_on(string.sub(of, PLACE + 1), ARGV[i])
  +     turn(string.sub(of, PLACE + 1))
  the group goes on though another dead letter stops it
  - other ~= letter and other or nil
  + nil
test_groups_stop.test_a_redrive_and_a_drop_wake_a_consumer
  wakes nobody
  - wake()
  - return deleted
  + return deleted
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
