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
        "the busy queue": {
            "call": Call(
                "pop", (10, 30 * SECOND, 0, 3, MIB, "front", "right", -1, 4 * 10**15, 1, "mine")
            )
        },
    },
    mistakes=r"""
test_pop_bodies.test_a_body_without_a_usable_id_gets_a_derived_key
  given: raw=b""
  RPOP, then a decode that raises (error)
  -     local used = take(bodies)
  +     cjson.decode(bodies[1])
  +     local used = take(bodies)
test_pop.test_it_was_not_the_last_message_if_another_can_be_taken
  given: left="due"
  due messages are no next event
  - for _, zset in ipairs({...}) do
  + for _, zset in ipairs({backup, held}) do
test_pop.test_a_lease_that_runs_is_not_taken
  takes leases that still run
  - redis.call('ZCOUNT', backup, '-inf', now_text) > 0
  -   and redis.call('ZRANGEBYSCORE', backup, '-inf', now_text,
  + redis.call('ZCOUNT', backup, '-inf', '+inf') > 0
  +   and redis.call('ZRANGEBYSCORE', backup, '-inf', '+inf',
test_pop.test_a_deadline_is_exact_to_the_microsecond
  the client's time
  - local clock = redis.call('TIME')
  + local clock = {ARGV[2], ARGV[3]}
test_headers.test_a_script_builds_no_name_of_a_key
  given: script="pop"
  a key that is not declared
  - redis.call('EXISTS', paused) == 1
  + redis.call('EXISTS', ready .. 'PAUSED') == 1
test_pop.test_a_body_that_is_missing_does_not_wedge_the_queue
  a record without a body stops every pop (error)
  - if not body or max_receives
  + if body == '' or max_receives
test_pop_bodies.test_one_call_decodes_one_body_of_the_longest
  no limit to the decoding of one call
  - full = full or decoded > DECODE_BUDGET
  + decoded = 0
test_wrong_types.test_a_key_of_another_type_is_an_error_before_anything_is_changed
  given: the busy queue
  a type is read after the first write
  - redis.call('HLEN', extended) > 0
  + redis.call('EXISTS', extended) > 0
""",
)


@FACTS.worst("equal ids, 1 x 16 MiB in flight", size=16 * MIB)
@FACTS.worst("equal ids, 1 x 0.9 MiB in flight", size=LARGE)
def equal_ids(scene: Scene, size: int) -> Act:
    scene.held(1, scene.size(size))
    scene.fill("for _ = 1, 1000 do redis.call('LPUSH', KEYS[1], body) end", (scene.keys.ready,), 1)
    return popping(scene.queue(), 1)


@FACTS.worst("1,000 equal ids beside notes of 10,000 canceled messages", length=8, noted=10_000)
@FACTS.worst("1,000 equal ids", length=8)
@FACTS.worst("1,000 equal ids of 512 bytes", length=512)
def equal(scene: Scene, length: int, noted: int = 0) -> Act:
    line = f"redis.call('HSET', KEYS[1], '9:' .. redis.sha1hex(id) .. ':' .. id, '{scene.far} 0 1')"
    scene.fill(line, (scene.keys.notes,), noted)
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
