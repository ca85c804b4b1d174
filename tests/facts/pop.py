"""The facts of pop.lua: see `tests.facts.facts`."""

from typing import Any

from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, Act, Scene
from benchmarks.worst.taking import hold_lists, popping
from tests.facts.facts import Facts
from tests.facts.failures import RECEIVES, note_failures, with_failures
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE, Call
from tests.queue.scripts.space import SECOND

FACTS = Facts(
    "pop",
    calls=(
        (10, 30 * SECOND, 0, 3, MIB, "front", "right", -1, *MINE),
        (10, 30 * SECOND, 0, 3, 10, "back", "right", 0, *MINE),
        (1, 30 * SECOND, 0, 0, MIB, "front", "right", -1),
    ),
    fewest=7,
    refused=bad_groups((1, 1, 0, 0, 1, "front", "right", -1)),
    given={
        "NaN": {"calls": {"nan": Call("pop", (1, "nan", 0, 0, 1048576, "front", "right", -1))}},
        "the busy queue": {
            "call": Call(
                "pop", (10, 30 * SECOND, 0, 3, MIB, "front", "right", -1, 4 * 10**15, 1, "mine")
            )
        },
    },
    mistakes=r"""
test_push_unique.test_a_message_that_is_too_large_for_a_consumer_frees_its_id
  its unique note stays
  - field and names and names.change(key, mark(body)))
  + false)
test_push_unique.test_a_redelivered_message_keeps_its_id
  given: way="back"
  believes the note of a requeued message
  - names.change(id, name, mark(body), '0')
  + names.change(id, name, mark(body), '9000000000000000')
test_pop.test_a_body_without_a_usable_id_gets_a_derived_key
  given: raw=b""
  RPOP, then a decode that raises (error)
  -     local used = take(bodies)
  +     cjson.decode(bodies[1])
  +     local used = take(bodies)
  given: raw=b"{}"
  puts aside what has no id
  - if #body > max_body then
  + if #body > max_body or not natural_key(body) then
test_pop.test_it_was_not_the_last_message_if_another_can_be_taken
  given: left="due"
  due messages are no next event
  - for _, zset in ipairs({...}) do
  + for _, zset in ipairs({backup, held}) do
test_pop.test_consumers_that_wait_are_counted_by_the_time_between_their_looks
  each look counts as a consumer
  - waited / LOOKS_LAST
  + math.min(1, waited)
  the looks of long ago count as much
  - math.exp(math.min(0, tonumber(at) - now) / LOOKS_LAST)
  + 1
  a clock that was set back makes consumers
  - math.exp(math.min(0, tonumber(at) - now) / LOOKS_LAST)
  + math.exp((tonumber(at) - now) / LOOKS_LAST)
  the estimate is kept for ever
  - , 'PX', LOOKS_KEPT)
  + )
test_pop.test_a_lease_that_runs_is_not_taken
  takes leases that still run
  - redis.call('ZCOUNT', backup, '-inf', now_text) > 0
  -   and redis.call('ZRANGEBYSCORE', backup, '-inf', now_text,
  + redis.call('ZCOUNT', backup, '-inf', '+inf') > 0
  +   and redis.call('ZRANGEBYSCORE', backup, '-inf', '+inf',
test_pop.test_a_lease_is_over_at_its_deadline_and_not_a_microsecond_before
  a lease ends a microsecond after its deadline
  - redis.call('ZCOUNT', backup, '-inf', now_text) > 0
  -   and redis.call('ZRANGEBYSCORE', backup, '-inf', now_text,
  + redis.call('ZCOUNT', backup, '-inf', '(' .. now_text) > 0
  +   and redis.call('ZRANGEBYSCORE', backup, '-inf', '(' .. now_text,
  a lease ends a microsecond before its deadline
  - redis.call('ZCOUNT', backup, '-inf', now_text) > 0
  -   and redis.call('ZRANGEBYSCORE', backup, '-inf', now_text,
  + redis.call('ZCOUNT', backup, '-inf', string.format('%.0f', now + 1)) > 0
  +   and redis.call('ZRANGEBYSCORE', backup, '-inf', string.format('%.0f', now + 1),
test_pop.test_a_lease_ends_at_the_servers_time_plus_timeout_and_jitter
  the client's time
  - local clock = redis.call('TIME')
  + local clock = {ARGV[2], ARGV[3]}
test_pop.test_a_deadline_is_exact_to_the_microsecond
  a deadline of fourteen digits
  - local lease = string.format('%.0f', deadline)
  + local lease = tostring(deadline)
test_pop.test_the_id_of_a_delayed_message_is_not_free
  only a running lease protects a body
  - redis.call('HEXISTS', context, key) == 1
  + redis.call('ZSCORE', backup, key)
test_pop.test_a_derived_key_never_collides_with_one_that_exists
  a derived key overwrites one that exists
  - until redis.call('HSETNX', context, key, body) == 1
  + until redis.call('HSET', context, key, body)
test_pop.test_the_key_is_the_id
  given: raw=b'{"id":9007199254740991}', key=b"9007199254740991"
  large ids lose their last digits
  - string.format('%.0f', id + 0)
  + tostring(id)
test_pop.test_a_body_is_returned_byte_for_byte
  given: raw=b'{"id":"a","x":[],"y":{},"n":12345678901234567890,"f":1.10,"u":"\\u00e9\\/"}'
  a body is encoded again
  - reply[at + 5], reply[at + 6] = key, body
  + reply[at + 5], reply[at + 6] = key, cjson.encode(cjson.decode(body))
test_pop.test_a_message_leaves_the_list_and_gains_a_lease_and_nothing_else
  a side key that expires
  -     redis.call('ZADD', backup, lease, id)
  +     redis.call('ZADD', backup, lease, id)
  +     redis.call('EXPIRE', context, 86400)
test_headers.test_a_script_builds_no_name_of_a_key
  given: script="pop"
  a key that is not declared
  - redis.call('EXISTS', paused) == 1
  + redis.call('EXISTS', ready .. 'PAUSED') == 1
test_pop.test_messages_are_taken_in_the_order_of_their_push
  the first slice is read again and again
  - from_left and count or -count - some
  + from_left and count or -some
  a slice is taken from its wrong end
  - part[from_left and i or #part + 1 - i]
  + part[from_left and #part + 1 - i or i]
test_pop.test_the_handed_over_are_taken_before_the_listed
  a key that does not exist stands for one that does
  - unmet = redis.call('XLEN', dead) > 0 and unmet - 1 or unmet
  + unmet = redis.call('XLEN', dead) and unmet - 1
  the hand-off list comes last
  - if has_handoff then
  -   take_ready(handoff)
  - end
  - take_ready(ready, from_left)
  + take_ready(ready, from_left)
  + if has_handoff then
  +   take_ready(handoff)
  + end
test_pop.test_a_body_that_is_missing_does_not_wedge_the_queue
  a record without a body stops every pop (error)
  - if not body or max_receives
  + if body == '' or max_receives
test_pop.test_one_call_decodes_one_body_of_the_longest
  no limit to the decoding of one call
  - full = full or decoded > DECODE_BUDGET
  + decoded = 0
test_pop.test_no_body_is_read_to_learn_whether_an_id_is_free
  bodies are read to learn whether ids are free
  - redis.call('HEXISTS', context, key) == 1
  + redis.call('HGET', context, key)
test_pop.test_what_came_back_is_read_one_by_one
  redelivered messages are read together
  - redis.call('HGET', context, keys[i])
  + redis.call('HMGET', context, unpack(keys))[i]
test_pop.test_of_a_list_no_more_is_read_at_a_time_than_was_short_before
  sixteen of a list are read at once
  - local bodies, count, size, slice = {}, 0, 0, 1
  + local bodies, count, size, slice = {}, 0, 0, SLICE
test_pop.test_too_large_a_body_goes_to_the_dead_letters_undecoded
  too large a body is decoded for its dead letter
  - dead_letter('', body, 'too large', 0, {}, field
  + dead_letter(natural_key(body) or '', body, 'too large', 0, {}, field
test_pop.test_a_count_on_the_list_is_that_of_one_body
  given: padding=0
  bodies of one length are taken for the same
  - return mark(body) .. ':' .. id
  + return #body .. ':' .. id
test_arguments.test_an_argument_out_of_range_is_refused_before_anything_is_changed
  given: NaN
  NaN passes for a number
  - return not (number and number >= low and number <= high and number % 1 == 0)
  + return not number or number < low or number > high
test_wrong_types.test_a_key_of_another_type_is_an_error_before_anything_is_changed
  given: the busy queue
  a type is read after the first write
  - redis.call('HLEN', extended) > 0
  + redis.call('EXISTS', extended) > 0
test_pop.test_counters_that_cannot_count_stop_nothing
  given: field="taken"
  counts into what is somebody else's
  - watched = redis.call('HEXISTS', counters, 'since') == 1
  + watched = redis.call('HLEN', counters) > 0
test_left_end.test_pop_takes_from_the_left
  given: wanted=1
  another message leaves the list
  - from_left and '1' or '0', from_left and '-1' or '-2'
  + '0', '-2'
  given: wanted=2
  many are cut off at the right
  - from_left and used or '0', from_left and '-1' or -used - 1
  + '0', -used - 1
test_left_end.test_a_handed_over_message_comes_first_from_the_left
  the hand-off list is read at the left
  - take_ready(handoff)
  + take_ready(handoff, from_left)
test_errors_kept.test_an_empty_queue_sweeps_stale_notes_a_hundred_at_a_time
  sweeps any number
  - redis.call('HRANDFIELD', errors, SWEPT)
  + redis.call('HKEYS', errors)
test_counts.test_a_redelivery_and_a_death_after_a_lease_ended
  redeliveries are counted twice
  - count_up('returned', returned)
  + count_up('returned', 2 * returned)
""",
)


@FACTS.worst("equal ids, 1 x 16 MiB in flight", size=16 * MIB)
@FACTS.worst("equal ids, 1 x 0.9 MiB in flight", size=LARGE)
def equal_ids(scene: Scene, size: int) -> Act:
    scene.held(1, scene.size(size))
    scene.fill("for _ = 1, 1000 do redis.call('LPUSH', KEYS[1], body) end", (scene.keys.ready,), 1)
    return popping(scene.queue(), 1)


@FACTS.worst("1,000 equal ids", length=8)
@FACTS.worst("1,000 equal ids of 512 bytes", length=512)
def equal(scene: Scene, length: int) -> Act:
    line = f"redis.call('LPUSH', KEYS[1], '{{\"id\":\"' .. string.rep('i', {length}) .. '\"}}')"
    scene.fill(line, (scene.keys.ready,), 1000)
    return popping(scene.queue(), 1)


@FACTS.worst("1,000 x 0.9 MiB ready")
def large(scene: Scene) -> Act:
    scene.ready(1000, scene.size(LARGE))
    return popping(scene.queue())


@FACTS.worst("16 x 64 MiB ready, by a stranger", size=64 * MIB)
@FACTS.worst("16 x 8 MiB ready, by a stranger", size=8 * MIB)
def strange(scene: Scene, size: int) -> Act:
    scene.ready(16, scene.size(size))
    return popping(scene.queue(), 1)


@FACTS.worst("16 x 8 MiB behind 1,000 small")
def strange_behind_small(scene: Scene) -> Act:
    scene.ready(1000)
    scene.ready(16, scene.size(8 * MIB))
    return popping(scene.queue(), 20)


@FACTS.worst("1,000,000 expired at once")
def expired(scene: Scene) -> Act:
    scene.leased(scene.many(1_000_000))
    return popping(scene.queue())


@FACTS.worst("1,000,000 expired one by one, with counts")
def expired_with_counts(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    scene.leased(count, score=1, step=1)
    scene.counted(count, 3)
    return popping(scene.queue())


@FACTS.worst("1,000 x 0.9 MiB expired, requeue=back", requeue="back")
@FACTS.worst("1,000 x 0.9 MiB expired")
def large_expired(scene: Scene, **settings: Any) -> Act:
    scene.leased(1000, scene.size(LARGE))
    return popping(scene.queue(**settings))


@FACTS.worst("16 x 32 MiB expired")
def larger_expired(scene: Scene) -> Act:
    scene.leased(16, scene.size(32 * MIB))
    return popping(scene.queue(), 16)


@FACTS.worst("100,000 to the dead letters", count=100_000)
@FACTS.worst("1,000 x 0.9 MiB to the dead letters", count=1000, size=LARGE)
def large_dying(scene: Scene, count: int, size: int = 100) -> Act:
    scene.leased(scene.many(count), scene.size(size))
    scene.counted(scene.many(count), 5)
    return popping(scene.queue(max_receives=5), 1)


@with_failures(FACTS, "100 to the dead letters")
def dying_with_failures(scene: Scene, failure: bytes) -> Act:
    scene.leased(100)
    note_failures(scene, scene.keys.errors, scene.keys.receives, 100, failure)
    return popping(scene.queue(max_receives=RECEIVES), 1)


@FACTS.worst("100,000 expired, their bodies missing")
def without_bodies(scene: Scene) -> Act:
    line = "redis.call('ZADD', KEYS[1], 1, id)"
    scene.fill(line, (scene.keys.backup,), scene.many(100_000))
    return popping(scene.queue(), 1)


@FACTS.worst("1,000,000 due at once")
def due(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000))
    return popping(scene.queue())


@FACTS.worst("3,000,000 in flight")
def deep(scene: Scene) -> Act:
    scene.leased(scene.many(3_000_000), score=scene.far, step=1)
    line = LISTED.replace("body", "(string.gsub(body, '\"m', '\"r', 1))")
    scene.fill(line, (scene.keys.ready,), scene.many(300_000))
    return popping(scene.queue(), 300)


@FACTS.worst("with acks of 1,000 x 0.9 MiB")
def acking_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.pop_many(1000, ack=held)


@FACTS.worst("with acks of 1,000 that were extended")
def acking_extended(scene: Scene) -> Act:
    held, queue = scene.held(1000), scene.queue()
    scene.counted(1000, 3)
    queue.extend(*held, timeout=3600)
    scene.fill(LISTED, (scene.keys.ready,), 1000, first=2000)
    return lambda: queue.pop_many(1000, ack=held)


@FACTS.worst("1,000 x 60 KiB of brackets, their id behind")
def brackets(scene: Scene) -> Act:
    return _by_shape(scene, "string.rep('[],', 20 * 1000)", 60 * KIB, 1000)


@FACTS.worst("100,000 x 60 bytes, their id behind")
def id_behind(scene: Scene) -> Act:
    return _by_shape(scene, "'1,'", 60, scene.many(100_000))


@FACTS.worst("100,000 whose id is no id")
def no_id(scene: Scene) -> Act:
    line = "redis.call('LPUSH', KEYS[1], '{\"id\":{}}')"
    scene.fill(line, (scene.keys.ready,), scene.many(100_000))
    return popping(scene.queue())


def _by_shape(scene: Scene, inner: str, size: int, count: int) -> Act:
    line = f"""local inner = {inner}
      redis.call('LPUSH', KEYS[1], '{{"a":[' .. inner .. '0],"id":"' .. id .. '"}}')"""
    # ``size`` only bounds how many are made at a time: the line makes the bodies.
    scene.fill(line, (scene.keys.ready,), count, size)
    return popping(scene.queue())


@FACTS.worst("300,000 in the hand-off list")
def handed_over(scene: Scene) -> Act:
    scene.fill(LISTED, (scene.keys.handoff,), scene.many(300_000))
    return popping(scene.queue())


@FACTS.worst("10,000 lists held, none for the queue")
def many_held(scene: Scene) -> Act:
    hold_lists(scene, scene.many(10_000), scene.far)
    scene.ready(scene.many(100_000))
    return popping(scene.queue())
