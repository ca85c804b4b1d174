"""The facts of claims/claim.lua: see `tests.facts.facts`."""

from ackq.queue import claims
from benchmarks.worst.claims import begun
from benchmarks.worst.scene import KIB, LARGE, MIB, Act, Scene
from tests.facts.example import group
from tests.facts.facts import Facts
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "claims/claim",
    calls=(
        (3, 2, 1000, 0, 60 * SECOND),
        (3, 2, 1000, 50, 60 * SECOND),
    ),
    operation=lambda: claims.claim(group(), 0, 20, 30, 1),
    replies=[[b"ok", 1, 0]],
    passes={
        "epoch": [3],
        "batch": [1],
        "messages": [20],
        "size": [30],
        "timeout": [8_000_000],
    },
    fewest=5,
    mistakes=r"""
test_claims.test_nothing_is_changed_for_a_driver_that_does_not_have_the_group
  given: script="claims/claim", args=(1, 1000, 0, 3600000000), epoch=2
  a replaced driver goes on
test_claims.test_what_came_back_fills_the_room_that_a_dead_letter_leaves
  a dead letter lets what waits pass redelivered messages
  - cut = #keys == asked --
  + cut = #keys == RECOVERED --
test_claims.test_a_resent_step_adds_nothing_to_a_claim_that_is_complete
  a resent call adds to a complete claim
  - if batch == last and rows > 0 and score > 0 then
  + if false then
test_claims.test_a_batch_is_used_once
  a batch is used twice
  - if batch <= last or batch <= acked or rows > 0 then
  + if rows > 0 then
  a batch that was acked is used again
  - if batch <= last or batch <= acked or rows > 0 then
  + if batch <= last or rows > 0 then
test_claims.test_a_list_that_has_the_name_of_a_new_claim_stays_as_it_is
  adds to a list that is kept
  - if batch <= last or batch <= acked or rows > 0 then
  + if batch <= last or batch <= acked then
test_claims.test_messages_leave_every_place_for_the_claim_in_the_order_of_a_pop
  renames over what was claimed before
  - local whole = rows + taken + handed + dead_lettered == 0 and not cut
  + local whole = true
  the newest first
  - take_ready(ready, record and 'LEFT' or 'RIGHT')
  + take_ready(ready, record and 'RIGHT' or 'LEFT')
  leaves the body of what it took
  - redis.call('HDEL', context, key)
  leaves the lease of what it took
  - redis.call('ZREM', zset, key)
  no lease
  - redis.call('ZADD', held, string.format('%.0f', now + timeout), claim)
  no row count
  - redis.call('HSET', heldrows, claim, rows)
  leaves the count of what it took
  - redis.call('HDEL', receives, key)
  ready messages before those handed over
  -   take_ready(handoff, 'RIGHT')
  -   take_ready(ready, record and 'LEFT' or 'RIGHT')
  +   take_ready(ready, record and 'LEFT' or 'RIGHT')
  +   take_ready(handoff, 'RIGHT')
test_claims.test_a_claim_has_no_more_messages_than_are_wanted
  a whole list, though fewer messages are wanted
  - listed > 0 and listed <= messages then
  + listed > 0 then
test_claims.test_a_whole_list_becomes_the_claim
  given: messages=3
  a claim that expires
  - redis.call('PERSIST', claim)
test_claims.test_what_runs_or_is_not_due_is_left_alone
  takes leases that still run
  - redis.call('ZRANGEBYSCORE', zset, '-inf', now_text,
  + redis.call('ZRANGEBYSCORE', zset, '-inf', '+inf',
test_claims.test_bytes_are_counted_over_all_steps
  bytes of the last step only
  - local bytes = rows > 0 and tonumber(facts[5] or 0) or 0
  + local bytes = 0
test_claims.test_a_claim_that_was_given_back_is_begun_anew
  bytes of a claim that is gone
  - local bytes = rows > 0 and tonumber(facts[5] or 0) or 0
  + local bytes = tonumber(facts[5] or 0)
test_claims.test_a_long_claim_is_built_step_by_step
  any number of messages in one step
  - local CHUNK = 1000
  + local CHUNK = 100000
  turns what it reads together
  - or #slice - #bodies]
  + or #bodies + 1]
  leaves what it took
  - redis.call('LTRIM', list, 0, -#bodies - 1)
  + redis.call('LTRIM', list, 0, -#bodies)
  more messages than are wanted, in the last step
  - math.min(CHUNK, messages - rows)
  + math.min(CHUNK, messages)
test_claims.test_one_step_moves_a_mebibyte
  any number of bytes in one call
test_claims.test_one_step_takes_five_hundred_that_came_back
  ready messages before the rest of the redelivered
  - cut = #keys == asked
  + cut = false and #keys == asked
test_claims.test_a_record_without_a_body_is_dead_lettered_and_does_not_stop_a_claim
  drops what has no body
  - write_letter(dead, {key = key, body = '', reason = 'body missing', count = count})
  forgets the receives of what it buries
  - tonumber(redis.call('HGET', receives, key)) or 0
  + 0
test_claims.test_a_paused_queue_is_not_claimed_from
  takes from a paused queue
  - if redis.call('EXISTS', paused) == 1 then
  + if redis.call('EXISTS', paused) == 2 then
test_claims.test_what_is_held_no_longer_comes_before_what_is_claimed
  what a dead driver left waits for ever
  - if due[1] then
  + if false then
test_claims.test_a_full_server_can_be_claimed_from
  the first write may allocate
test_claims.test_what_is_claimed_and_acked_is_counted_while_it_is_watched
  does not count redelivered messages
  - count_up('returned', recovered)
  + count_up('returned', 0)
test_claims.test_a_pause_ends_a_claim_that_is_being_built
  a pause does not end a claim
  - redis.call('HDEL', group, 'claiming')
  -   return rows > 0
  + return rows > 0
test_claims.test_a_claim_that_was_acked_while_it_was_built_grows_no_more
  goes on with a claim that was acked
  - or batch <= acked then
  + then
test_claims.test_a_list_as_long_as_the_claim_is_taken_at_once
  a list as long as the claim is moved in steps
  - listed <= messages then
  + listed < messages then
test_claims.test_a_claim_stops_where_its_bytes_are_reached
  all that it reads together
  - while #bodies < #slice and not full() do
  + while #bodies < #slice do
  a whole list, though its bytes are limited
  - whole and size == 0 and
  + whole and
test_claims.test_counters_that_cannot_count_stop_nothing
  given: field="taken"
  counts into what is somebody else's
test_left_end.test_a_claim_takes_from_the_left_in_order
  takes from the right
  - take_ready(ready, record and 'LEFT' or 'RIGHT')
  + take_ready(ready, 'RIGHT')
  the ready messages before the first
  - record and 'RPUSH' or 'LPUSH', claim, unpack(bodies)
  + 'LPUSH', claim, unpack(bodies)
  turns what it reads together from the left
  - from == 'LEFT' and #bodies + 1 or
  + from == 'LEFT' and #slice - #bodies or
  leaves what it took from the left
  - redis.call('LTRIM', list, #bodies, -1)
  + redis.call('LTRIM', list, #bodies - 1, -1)
  the expired messages last
  - record and 'RPUSH' or 'LPUSH', claim, body
  + 'LPUSH', claim, body
test_left_end.test_nothing_is_taken_from_the_left_without_a_record
  given: call=("claims/claim", 1, 1, 5, 0, 60000000)
  takes from the left without a record
test_errors_kept.test_a_note_goes_with_its_message
  given: settle="claim"
  the note stays
  - redis.call('HDEL', errors, key)
""",
)


@FACTS.worst("3,000,000 ready at once")
def claim_whole(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.ready(count)
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("300,000 of 3,000,000 ready")
def claim_part(scene: Scene) -> Act:
    scene.ready(scene.many(3_000_000))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(300_000))


@FACTS.worst("300,000 x 4 KiB ready, and one more")
def claim_pages(scene: Scene) -> Act:
    count = scene.many(300_000)
    scene.ready(count + 1, scene.size(4 * KIB))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("300,000 expired and due")
def claim_back(scene: Scene) -> Act:
    scene.leased(scene.many(150_000))
    line = "redis.call('ZADD', KEYS[1], 1, id) redis.call('HSET', KEYS[2], id, body)"
    keys = (scene.keys.delayed, scene.keys.context)
    scene.fill(line, keys, scene.many(150_000), first=200_000)
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(300_000))


@FACTS.worst("16 x 32 MiB expired", count=16, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB expired", count=1000, size=LARGE)
def claim_large_expired(scene: Scene, count: int, size: int) -> Act:
    scene.leased(count, scene.size(size))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("16 x 32 MiB ready, and one more", count=16, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB ready, and one more", count=1000, size=LARGE)
def claim_ready(scene: Scene, count: int, size: int) -> Act:
    scene.ready(count + 1, scene.size(size))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=count)


@FACTS.worst("100,000 expired, their bodies missing")
def claim_without_bodies(scene: Scene) -> Act:
    line = "redis.call('ZADD', KEYS[1], 1, id)"
    scene.fill(line, (scene.keys.backup,), scene.many(100_000))
    claims = begun(scene)
    return lambda: claims.claim(0, messages=scene.many(100_000))
