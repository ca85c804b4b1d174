"""The facts of drain.lua: see `tests.facts.facts`."""

from ackq.queue import inspection
from benchmarks.worst.scene import LARGE, LISTED, MIB, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "drain",
    calls=((1000,),),
    operation=lambda: inspection.drain(SPEC),
    replies=[0],
    passes={"wanted": [1000]},
    fewest=1,
    mistakes=r"""
test_drain.test_a_step_in_the_middle_leaves_every_message_in_one_place
  on the list and leased at once
  - redis.call('ZREM', zset, key)
test_drain.test_everything_goes_back_to_the_list_in_the_order_of_delivery
  to the back of the list
  - record and 'LPUSH' or 'RPUSH'
  + 'LPUSH'
  the handed over change their order
  - 'LEFT', record and 'LEFT' or 'RIGHT')
  + 'RIGHT', record and 'LEFT' or 'RIGHT')
test_left_end.test_drain_puts_everything_back_at_the_left_end
  leased messages go to the back
  - record and 'LPUSH' or 'RPUSH'
  + 'RPUSH'
  handed over messages go to the back
  - record and 'LEFT' or 'RIGHT'
  + 'RIGHT'
test_errors_kept.test_a_note_goes_with_its_message
  given: settle="drain"
  the note stays
  - redis.call('HDEL', errors, key)
test_counts.test_a_drain_ends_deliveries_and_loses_no_message
  deliveries go on for ever
  - count_up('ended', ended)
""",
)


@FACTS.worst("1,000 x 0.9 MiB in flight")
def drain_large(scene: Scene) -> Act:
    scene.held(1000, scene.size(LARGE))
    return scene.queue().drain


@FACTS.worst("16 x 32 MiB handed over and in flight")
def drain_larger(scene: Scene) -> Act:
    scene.fill(LISTED, (scene.keys.handoff,), 16, scene.size(32 * MIB))
    scene.held(16, scene.size(32 * MIB))
    return scene.queue().drain


@FACTS.worst("300,000 in flight and delayed")
def drain_deep(scene: Scene) -> Act:
    scene.held(scene.many(150_000))
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    scene.fill(line, (scene.keys.delayed, scene.keys.context), scene.many(150_000), first=200_000)
    return scene.queue().drain


@FACTS.worst("1,000 without bodies in front of 100,000")
def drain_without_bodies(scene: Scene) -> Act:
    scene.leased(scene.many(100_000))
    line = "redis.call('ZADD', KEYS[1], 9, id)"
    scene.fill(line, (scene.keys.backup,), 999, first=1_000_000)
    return scene.queue().drain
