"""The facts of groups/ack.lua: see `tests.facts.facts`."""

from ackq import Groups
from ackq.queue import settle
from benchmarks.worst.scene import Act, Scene
from tests.facts.example import GROUPED, leased
from tests.facts.facts import Facts
from tests.facts.groups.pop import OF_ITS_OWN
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE

FACTS = Facts(
    "groups/ack",
    calls=(MINE,),
    operation=lambda: settle.ack(GROUPED, leased()),
    replies=[[1]],
    passes={"settled": [99, 1, b"k"]},
    refused=bad_groups(()),
    mistakes=r"""
test_groups_pop.test_the_next_message_follows_an_ack_in_order
  frees nothing
  -   leave(done)
test_groups_pop.test_one_call_takes_several_of_a_group_in_order
  a run is not forgotten
  - redis.call('ZREMRANGEBYLEX', runs, range_of(tag))
  + redis.call('ZCARD', runs)
  the last message of one is a run
  - if before > 1 and left <= 1 then
  + if before > 1 and left < 1 then
test_groups_pop.test_a_freed_slot_wakes_a_consumer_that_waits
  wakes nobody whose group it frees
test_groups_rates.test_an_ack_wakes_no_group_before_its_rate_permits_it
  wakes it at once
  -   if pause_of(tag) > 0 then
  +   if false then
  is its turn at once
  - return math.max(0, math.ceil(ahead_of(tag) - free))
  + return 0
test_groups_rates.test_an_ack_wakes_a_group_whose_rate_permits_it
  waits for its whole burst
  -   local free = (rules.burst - 1) * rules.each + 0.000001
  +   local free = -0.5
test_groups_room.test_whoever_makes_room_wakes_one_consumer_that_waits
  given: script="groups/ack"
  nobody looks again
  the element stays for ever
  - redis.call('PEXPIRE', room, '10000')
  + redis.call('LLEN', room)
test_groups_room.test_nobody_is_woken_while_nobody_waits
  one looks again without need
  - and redis.call('EXISTS', looks) == 1 and
  + and
test_groups_pop.test_no_message_moves_to_the_list_while_nobody_waits
  wakes without need
  - or redis.call('EXISTS', looks) == 0 then
  + then
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
