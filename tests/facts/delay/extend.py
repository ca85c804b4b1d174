"""The facts of delay/extend.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import of, taken
from benchmarks.worst.scene import Act, Scene
from tests.facts.facts import Facts
from tests.facts.refused import bad, cut

GOOD = ("", 1, 0, 1, 1, 1, "k")
FACTS = Facts(
    "delay/extend",
    calls=(GOOD,),
    fewest=3,
    refused=cut(GOOD, 4, 5, 6) | bad(GOOD, {3: (2,), 4: ("x",), 5: (2,)}),
    mistakes=r"""
delay.test_delay.test_extend_keeps_receipt_and_lease
  others see the message before the lease ends (error)
  - redis.call('ZADD', KEYS[first], 'XX', ready, key)
  the first receipt is forgotten (error)
  - redis.call('HSET', KEYS[first + 3], key, each[3] .. ':' .. ends)
  does not count
  - reply[2] = #done
  + reply[2] = 0
delay.test_late_holders.test_the_receipt_of_a_shortened_lease_is_not_given_to_another
  the lease stays as it was
  - redis.call('ZADD', KEYS[first + 2], 'XX', ends, key)
delay.test_delay.test_a_leased_message_is_nobody_elses_until_the_lease_ends
  anyone may extend
  - if scores[i] and holds(
  + if scores[i] or holds(
""",
)


@FACTS.worst("100,000 of 1,000,000, one time for all")
def extend(scene: Scene) -> Act:
    held, queue = taken(scene, scene.many(1_000_000))[: scene.many(100_000)], of(scene)
    return lambda: queue.extend(*held, timeout=3600)
