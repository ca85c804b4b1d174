"""The facts of held/give_back.lua: see `tests.facts.facts`."""

from ackq.queue import held_lists
from benchmarks.worst.claims import claimed
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from benchmarks.worst.taking import hold_lists, popping
from tests.facts.example import CLAIM, SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "held/give_back",
    calls=(
        ("front",),
        ("back",),
        ("delayed",),
    ),
    operation=lambda: held_lists.return_to_queue(SPEC, CLAIM),
    replies=[[1, 0]],
    passes={"mode": ["front"]},
    fewest=1,
    mistakes=r"""
test_held.test_a_claim_goes_in_front_of_the_queue_in_its_order
  the oldest behind the newest
  - local newest = record and 'RIGHT' or 'LEFT'
  + local newest = 'RIGHT'
  nobody who waits is woken
  - local WOKEN = 100
  + local WOKEN = 0
test_held.test_the_order_of_a_claim_is_kept_for_consumers_that_wait
  all of it goes where waiting consumers move it
  - local woken = redis.call('LLEN', handoff) == 0 and WOKEN or 0
  + local woken = redis.call('LLEN', handoff) and 1e9
test_held.test_a_claim_goes_in_front_of_what_was_handed_over
  behind what was handed over
  - redis.call('LLEN', handoff) == 0 and WOKEN or 0
  + redis.call('LLEN', handoff) and WOKEN
test_held.test_a_committed_list_goes_behind_the_queue_in_its_order
  what was committed goes in front
  - redis.call('LMOVE', list, ready, 'RIGHT', record and 'RIGHT' or 'LEFT')
  + redis.call('LMOVE', list, ready, 'LEFT', 'RIGHT')
test_held.test_a_list_is_given_back_when_its_time_has_come
  given: until=1700000000000001, given=[0, 0]
  before the lease has ended
  - if score > now then
  + if score > now + 1 then
test_held.test_a_list_that_is_not_held_stays_as_it_is
  what is not held
  - or 'inf')
  + or 0)
test_held.test_a_long_list_is_given_back_step_by_step
  given: mode="front", step=1000
  a driver does not see that its claim is going
  - redis.call('ZADD', held, 'XX', '0', list)
  given: mode="back", step=1000
  the count of rows is left behind
  given: mode="delayed", step=500
  any number in one step
  - delayed = 500}
  + delayed = 50000}
test_held.test_one_step_moves_a_mebibyte_or_half_of_it
  given: mode="front"
  any number of bytes in one call
  given: mode="delayed"
  what is for later costs as little as the rest
  - #body * (mode == 'delayed' and 2 or 1)
  + #body
test_held.test_a_held_name_that_is_no_list_is_let_go_and_not_touched
  given: found="none"
  waits for a list that is none
  -   redis.call('ZREM', held, list)
  -   redis.call('HDEL', heldrows, list)
  -   return
  +   redis.call('HDEL', heldrows, list)
  +   return
test_held.test_an_expiry_of_a_held_list_cannot_lose_it
  the expiry of a list loses it
  - redis.call('PERSIST', list)
test_held.test_messages_for_later_are_scheduled_under_their_own_ids
  overwrites a message with the same id
  - redis.call('HEXISTS', context, key) == 1 then
  + false then
  drops what has no time
  - string.sub(text, first or 1)
  + string.sub(text, first or #text + 1)
  a time that no script reads exactly
  - math.min(latest[due], 9007199254740991)
  + latest[due]
test_held.test_a_full_server_takes_back_what_is_held
  given: mode="front"
  frees nothing first (error)
  - redis.call('ZREMRANGEBYRANK', held, 1, 0)
test_held.test_the_longest_id_is_found
  the longest id is cut off
  - local HEAD = 521
  + local HEAD = 520
  an id that is too long
  - id and #id <= 512 and id or nil
  + id
test_left_end.test_a_claim_returns_to_the_left_end_in_its_order
  given: handed=0
  the newest first
  - local newest = record and 'RIGHT' or 'LEFT'
  + local newest = 'LEFT'
  to the back
  - newest, record and 'LEFT' or 'RIGHT'
  + newest, 'RIGHT'
test_left_end.test_committed_rows_go_to_the_right_end_for_the_left
  committed rows go to the front
  - 'RIGHT', record and 'RIGHT' or 'LEFT'
  + 'RIGHT', 'LEFT'
test_held.test_messages_for_one_time_keep_the_order_of_a_commit
  one time for all rows of a step
  - latest[due] and latest[due] + 1
  -     or behind(delayed, due, score_of(due))
  + due
  each step begins at the same time
  - or behind(delayed, due, score_of(due))
  + or due
test_counts.test_claims
  deliveries go on for ever
  - count_up('ended', is_claim(list) and moved or 0)
""",
)


@FACTS.worst("1,000,000 in front of 1,000,000")
def give_back(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    claims = claimed(scene, count)
    scene.ready(count)
    return claims.release


@FACTS.worst("16 x 64 MiB in front", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB in front", count=1000, size=LARGE)
def give_back_large(scene: Scene, count: int, size: int) -> Act:
    return claimed(scene, count, scene.size(size)).release


@FACTS.worst("100,000 behind, one score for all lists")
def give_back_behind(scene: Scene) -> Act:
    hold_lists(scene, 1000, 1, rows=max(1, scene.many(100_000) // 1000))
    return popping(scene.queue(), 1)


@FACTS.worst("100 x 0.9 MiB for later, all ids taken")
def give_back_large_later(scene: Scene) -> Act:
    scene.leased(100, 100, scene.far)
    return later(scene, 100, LARGE)


@FACTS.worst("16 x 32 MiB for later", count=16, size=32 * MIB)
@FACTS.worst("300,000 for later, one due time for all", count=300_000)
def later(scene: Scene, count: int, size: int = 100) -> Act:
    name = scene.keys.ready + b"STAGED:writer:1:task:delayed"
    line = f"redis.call('LPUSH', KEYS[1], '{scene.far}:' .. body)"
    count = scene.many(count)
    scene.fill(line, (name,), count, scene.size(size))
    scene.client.zadd(scene.keys.held, {name: 0})
    scene.client.hset(scene.keys.heldrows, name, count)
    return popping(scene.queue(), 1)
