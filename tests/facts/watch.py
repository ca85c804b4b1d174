"""The facts of watch.lua: see `tests.facts.facts`."""

from ackq.queue import inspection
from benchmarks.worst.scene import Act, Scene, times
from benchmarks.worst.taking import hold_lists
from tests.facts.example import SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "watch",
    calls=((10_000,),),
    operation=lambda: inspection.counters(SPEC, 5.0),
    replies=[[1, 0, 0, b"since", b"1"]],
    passes={"window": [5000]},
    fewest=1,
    named_arguments="some",
    mistakes=r"""
test_held.test_watching_begins_goes_on_and_ends_by_itself
  counters that never end
  - redis.call('PEXPIRE', counters, string.format('%.0f',
  + redis.call('PTTL', counters) --  string.format('%.0f',
  a shorter window shortens
test_held.test_what_was_counted_goes_on_while_calls_follow_each_other
  starts over each time
  - redis.call('HSETNX', counters,
  + redis.call('HSET', counters,
test_counts.test_claims
  claimed messages are not in flight
  - live + rows_held, in_flight + rows_held
  + live + rows_held, in_flight
test_held.test_staged_messages_are_not_in_flight
  staged messages are in flight
  - (is_claim(due[i]) and 0 or rows)
  + 0
  claims that are being returned are not in flight
  - (is_claim(due[i]) and 0 or rows)
  + rows
""",
)


@FACTS.worst("100 lengths of leases")
def watch(scene: Scene) -> Act:
    queue = scene.queue()
    queue.counters()
    scene.client.hset(scene.keys.counters, mapping={f"timeout:{n}": n for n in range(97)})
    return times(100, queue.counters)


@FACTS.worst("10,000 lists held")
def watch_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    return times(20, scene.queue().counters)
