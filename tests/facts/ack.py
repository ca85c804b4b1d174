"""The facts of ack.lua: see `tests.facts.facts`."""

from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.facts import Facts
from tests.facts.groups.pop import held_of_groups
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE

FACTS = Facts(
    "ack",
    calls=(MINE,),
    refused=bad_groups(()),
    mistakes=r"""
test_ack.test_a_note_of_extension_does_not_outlive_its_score
  an extension is believed whatever the deadline
  - and redis.call('HGET', extended, key) == receipt .. ':' .. string.format('%.0f', score))
  + and string.match(redis.call('HGET', extended, key) or '', '^%d+') == receipt)
""",
)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def ack_large(scene: Scene, count: int, size: int) -> Act:
    held, queue = scene.held(count, scene.size(size)), scene.queue()
    return lambda: queue.ack(*held)


@FACTS.worst("100,000 extended, with counts")
def ack_extended(scene: Scene) -> Act:
    count = scene.many(100_000)
    held, queue = scene.held(count), scene.queue()
    scene.counted(count, 3)
    queue.extend(*held, timeout=3600)
    return lambda: queue.ack(*held)


@FACTS.worst("100,000 of 3,000,000 in flight, one score for all")
def ack_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.ack(*held)


@FACTS.worst("1,000 of as many groups, all with parked messages", long=0)
@FACTS.worst("the same with names of 512 bytes", long=504)
def ack_groups(scene: Scene, long: int) -> Act:
    queue, held = held_of_groups(scene, long)
    return lambda: queue.ack(*held)
