"""The facts of delay/claim.lua: see `tests.facts.facts`."""

from benchmarks.worst.delay import EXTENDED, LEASES, RECEIVES, H, Z, claiming, stored, taken
from benchmarks.worst.scene import MIB, Act, Scene
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "delay/claim",
    calls=((1, 2, 10, 0, 3600 * SECOND, 0),),
    fewest=6,
    mistakes=r"""
delay.test_claim_scripts.test_a_replaced_driver_changes_nothing
  given: script="claim"
  a replaced driver goes on
delay.test_claim_scripts.test_ready_messages_are_leased_where_they_are_in_their_order
  early
  - z, '-inf', score_of(now), 'WITHSCORES'
  + z, '-inf', score_of(now + 1), 'WITHSCORES'
  other consumers see the messages
  - score_of(deadline), key
  + listed[2 * i], key
  all leases end at once
  - (index < renewed and base or before) + index
  + index < renewed and base or before
  the list lives as long as the leases
  - math.ceil((base - now) / 1000) + KEPT
  + math.ceil((base - now) / 1000)
  a list of another batch grows (error)
  - if batch <= last or batch <= acked or rows > 0 then
  + if batch <= last or batch <= acked then
delay.test_claim_scripts.test_a_batch_is_used_once
  an acked batch is used again
  - if batch <= last or batch <= acked or rows > 0 then
  + if batch <= last or rows > 0 then
  a batch is used twice
  - if batch <= last or batch <= acked or rows > 0 then
  + if batch <= acked or rows > 0 then
delay.test_claim_scripts.test_a_claim_has_no_more_messages_than_are_wanted
  more messages than are wanted
  - math.min(CHUNK, messages - rows)
  + CHUNK
delay.test_claim_scripts.test_a_claim_ends_with_the_message_that_fills_its_size
  forgets the bytes of the call before
  - rows > 0 and tonumber(facts[5] or 0) or 0
  + 0
delay.test_claim_scripts.test_a_claim_is_made_in_steps_that_may_be_resent
  a resent call adds to a complete claim
  - if batch == last and rows > 0 and score > 0 then
  + if false then
  the next step starts over
  - if rows == 0 then
  + if true then
delay.test_claim_scripts.test_a_claim_that_took_too_long_is_closed
  adds leases that end soon
  - elseif before - now < timeout / 2 then
  + elseif false then
delay.test_claim_scripts.test_running_leases_are_respected
  takes what is leased
  - elseif until_ and until_ > now then
  + elseif false then
  takes a lease's message when it ends
  - score_of(until_ + 1)
  + score_of(until_)
delay.test_claim_scripts.test_counts_go_on
  ended leases do not count
  - (until_ and 1 or 0))
  + 0)
  counts stay as they were
  - if count > 1 then
  + if false then
  an extension stays
  - if has_extended then
  + if false then
  redeliveries are not counted
  - count_up(1, 'returned', returned)
delay.test_claim_scripts.test_a_message_without_a_body_becomes_a_dead_letter
  a message without a body is claimed
  - redis.call('HEXISTS', h, key) == 0
  + false
  an empty body is none
  - redis.call('HEXISTS', h, key) == 0
  + redis.call('HSTRLEN', h, key) == 0
  any number of dead letters
  - dead_lettered >= DEAD_LETTER_BUDGET
  + false
delay.test_claim_scripts.test_no_lease_equals_a_receipt_that_is_recorded
  given: place=1
  two leases with one receipt
  - has_extended and is_receipt(key, lease)
  + false
  given: place=0
  gives up at a receipt
  - room, cut = 0, rows + taken == 0
  + room, cut = 0, false
""",
)


@FACTS.worst("100,000 of 1,000,000, ready since one time")
def claim(scene: Scene) -> Act:
    stored(scene, scene.many(1_000_000))
    claims, count = claiming(scene), scene.many(100_000)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 whose leases ended, with counts")
def claim_back(scene: Scene) -> Act:
    count = scene.many(100_000)
    line = """redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)
      redis.call('ZADD', KEYS[3], 1000000, id) redis.call('HSET', KEYS[4], id, 3)
      redis.call('HSET', KEYS[5], id, '999000:1000000')"""
    scene.fill(line, (Z, H, LEASES, RECEIVES, EXTENDED), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 that others made ready under a lease")
def claim_leased(scene: Scene) -> Act:
    count = scene.many(100_000)
    taken(scene, count)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 without bodies")
def claim_without_bodies(scene: Scene) -> Act:
    count = scene.many(100_000)
    scene.fill("redis.call('ZADD', KEYS[1], 1, id)", (Z,), count)
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("16 x 32 MiB, by a stranger")
def claim_larger(scene: Scene) -> Act:
    stored(scene, 16, scene.size(32 * MIB))
    claims = claiming(scene)
    return lambda: claims.claim(0, messages=16)
