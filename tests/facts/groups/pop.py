"""The facts of groups/pop.lua: see `tests.facts.facts`."""

from typing import Any

from ackq import Groups, Message, Queue, RateLimit
from benchmarks.worst.scene import KIB, LARGE, MIB, Act, Scene, times
from tests.facts.facts import Facts
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE
from tests.queue.scripts.grouped import STOPPING
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "groups/pop",
    calls=(
        (10, 30 * SECOND, 0, 3, MIB, STOPPING, -1, *MINE),
        (1, 30 * SECOND, 0, 0, MIB, STOPPING, 0),
    ),
    fewest=7,
    refused=bad_groups((1, 1, 0, 0, 1, STOPPING, -1)),
    mistakes=r"""
test_groups_pop.test_an_earlier_message_of_a_run_waits_while_a_later_one_is_leased
  looks again at the end of the lease
  - math.min(till, now + RECHECKED * (rank + 1))
  + till
test_groups_room.test_a_consumer_at_the_limit_looks_again_when_a_lease_ends
  waits for room only
  - local wait = next_event(backup)
  + local wait = -1
test_groups_stop.test_a_parked_message_that_is_too_large_stops_its_group
  the group of a large message goes on
  - stop(tag, at, dead_letter('', body, 'too large', 0, {},
  + stop('', at, dead_letter('', body, 'too large', 0, {},
test_groups_stop.test_a_message_whose_body_is_missing_stops_its_group
  the group of a missing body goes on
  - elseif not body then
  -       stop(tag, at, bury_due(zset, key, body, count - 1))
  + elseif not body then
  +       bury_due(zset, key, body, count - 1)
test_groups_stop.test_messages_of_a_stopped_group_that_come_back_wait_in_their_places
  given: in_flight=1
  they go behind the others
  - head_of(tag) .. at .. body)
  + head_of(tag) .. next_place() .. body)
""",
)

PARKED = (
    "redis.call('ZADD', KEYS[1], 0, '001a' .. string.format('%016.0f', n) .. body)"
    " redis.call('HSET', KEYS[2], '', n, 'a', 1)"
)
OF_A = """redis.call('LPUSH', KEYS[1],
    (string.gsub(body, '"p"', '"customer":"a","p"', 1)))"""
OF_ITS_OWN = """redis.call('LPUSH', KEYS[1],
    (string.gsub(body, '"p"', '"customer":"' .. id .. '","p"', 1)))"""
#: The first hundred messages are of one group, the next hundred of another, and so on.
OF_A_HUNDRED = OF_ITS_OWN.replace(".. id ..", ".. string.sub(id, 1, -3) ..")


def _queue(scene: Scene, in_flight: int = 1) -> Queue:
    return scene.queue(groups=Groups("customer", in_flight))


def held_of_groups(scene: Scene, long: int) -> tuple[Queue, list[Message]]:
    """Lease the first messages of 1,000 groups, and move the second ones aside.

    Args:
        scene: of the queue.
        long: bytes that the names of the groups are longer than eight.
    """
    queue = _queue(scene)
    held: list[Message] = []
    for _ in range(2):
        scene.fill(
            OF_ITS_OWN.replace("id", f"id .. string.rep('x', {long})"), (scene.keys.ready,), 1000
        )
    while len(held) < 1000:
        held += queue.pop_many(1000 - len(held))
    while queue.pop_many(1):
        pass
    return queue, held


@FACTS.worst("1,000 of as many groups, after the acks of as many", long=0)
@FACTS.worst("the same with names of 512 bytes", long=504)
def acked_groups(scene: Scene, long: int) -> Act:
    queue, held = held_of_groups(scene, long)
    return lambda: queue.pop_many(1000, ack=held)


def _popping(queue: Queue, calls: int = 20) -> Act:
    return times(calls, lambda: queue.pop_many(1000))


@FACTS.worst("1,000,000 ready of one busy group")
def flood(scene: Scene) -> Act:
    scene.fill(OF_A, (scene.keys.ready,), scene.many(1_000_000))
    return times(20, lambda: _queue(scene).pop())


@FACTS.worst("1,000,000 parked of one group, a run of each take")
def parked_flood(scene: Scene) -> Act:
    parked, busy, turns = scene.of_groups("PARKED", "BUSY", "TURNS")
    scene.fill(PARKED, (parked, busy), scene.many(1_000_000))
    scene.client.hdel(busy, "a")
    scene.client.zadd(turns, {"a": 1})
    return _popping(_queue(scene), 1)


@FACTS.worst("1,000,000 groups ready")
def many_groups(scene: Scene) -> Act:
    scene.fill(OF_ITS_OWN, (scene.keys.ready,), scene.many(1_000_000))
    return _popping(_queue(scene))


@FACTS.worst("1,000,000 groups ready, all busy")
def busy_groups(scene: Scene) -> Act:
    line = f"{OF_ITS_OWN} redis.call('HSET', KEYS[2], id, 1)"
    scene.fill(line, (scene.keys.ready, *scene.of_groups("BUSY")), scene.many(1_000_000))
    return _popping(_queue(scene))


def _turns(scene: Scene, count: int, size: int) -> None:
    """Move messages aside whose groups may go on."""
    line = """redis.call('ZADD', KEYS[1], 0, '008' .. id .. string.rep('0', 16) .. body)
      redis.call('ZADD', KEYS[2], n, id)"""
    scene.fill(line, scene.of_groups("PARKED", "TURNS"), count, size)


@FACTS.worst("1,000,000 groups whose turn it is")
def turns(scene: Scene) -> Act:
    _turns(scene, scene.many(1_000_000), 100)
    return _popping(_queue(scene))


@FACTS.worst("200 groups whose turn it is, 0.9 MiB each")
def large_turns(scene: Scene) -> Act:
    _turns(scene, 200, scene.size(LARGE))
    return _popping(_queue(scene), 50)


@FACTS.worst("200 x 0.9 MiB parked of one group, behind 31 short ones")
def large_run(scene: Scene) -> Act:
    parked, busy, turns = scene.of_groups("PARKED", "BUSY", "TURNS")
    scene.fill(PARKED, (parked, busy), 31)
    scene.fill(PARKED, (parked, busy), 200, scene.size(LARGE), first=100)
    scene.client.hdel(busy, "a")
    scene.client.zadd(turns, {"a": 1})
    return _popping(_queue(scene), 1)


@FACTS.worst("200 x 0.9 MiB of one group to move aside")
def large(scene: Scene) -> Act:
    scene.fill(OF_A, (scene.keys.ready,), 200, scene.size(LARGE))
    return times(50, lambda: _queue(scene).pop())


@FACTS.worst("1,000 runs of 100, the leases of each ended backwards")
def ended(scene: Scene) -> Act:
    queue = _queue(scene)
    count = scene.many(100_000)
    scene.fill(OF_A_HUNDRED, (scene.keys.ready,), count)
    for _ in range(0, count, 100):
        queue.pop_many(100)
    keys: Any = scene.client.zrange(scene.keys.backup, 0, -1)
    scene.client.zadd(scene.keys.backup, {key: n for n, key in enumerate(reversed(keys), 1)})
    return times(100, queue.pop)


@FACTS.worst("1,000 x 60 KiB of brackets, their group behind")
def brackets(scene: Scene) -> Act:
    line = """local inner = string.rep('[],', 20 * 1000)
      redis.call('LPUSH', KEYS[1], '{"a":[' .. inner .. '0],"customer":"' .. id .. '"}')"""
    scene.fill(line, (scene.keys.ready,), scene.many(1000), 60 * KIB)
    return _popping(_queue(scene))


def _rated(scene: Scene) -> Queue:
    rate = RateLimit(1_000_000, burst=1)
    return scene.queue(groups=Groups("customer", in_flight=1000, rate=rate))


@FACTS.worst("1,000,000 groups whose turn it is, each with a rate")
def rated_turns(scene: Scene) -> Act:
    _turns(scene, scene.many(1_000_000), 100)
    scene.fill(
        "redis.call('ZADD', KEYS[1], n, id)", scene.of_groups("RATES"), scene.many(1_000_000)
    )
    return _popping(_rated(scene))


@FACTS.worst("1,000,000 groups that waited for their rates when the clock was set back")
def rated_far(scene: Scene) -> Act:
    far = "string.format('%.0f', 4e15 + n)"
    line = f"""redis.call('ZADD', KEYS[1], {far}, id) redis.call('ZADD', KEYS[2], {far}, id)"""
    scene.fill(line, scene.of_groups("TURNS", "RATES"), scene.many(1_000_000))
    scene.fill(PARKED, scene.of_groups("PARKED", "BUSY"), 1)
    return _popping(_rated(scene))


@FACTS.worst("100,000 ended leases of one group, which wait for its rate")
def rated_back(scene: Scene) -> Act:
    scene.leased(scene.many(100_000))
    line = "redis.call('HSET', KEYS[1], id, '=' .. string.rep('0', 16) .. 'a')"
    scene.fill(line, scene.of_groups("FLIGHT"), scene.many(100_000))
    return _popping(_rated(scene))


@FACTS.worst("1,000,000 ready, and no room for another lease")
def no_room(scene: Scene) -> Act:
    scene.ready(scene.many(1_000_000))
    queue = scene.queue(max_in_flight=1000)
    queue.pop_many(1000)
    return times(100, queue.pop)
