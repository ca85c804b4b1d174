"""The facts of audit_scan.lua: see `tests.facts.facts`."""

from ackq.queue import inspection
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "audit_scan",
    calls=(
        ("backup", 0, 1),
        ("delayed", 0, 1),
        ("context", 0, 1),
        ("receives", 0, 1),
        ("extended", 0, 1),
        ("heldrows", 0, 1),
        ("errors", 0, 1),
    ),
    operation=lambda: inspection.audit(SPEC, True),
    replies=[[b"0", 0]] * 7,
    passes={"walked": ["backup"], "cursor": [b"0"], "repair": [1]},
    fewest=2,
    refused={"cursor": ("context", "x", 0), "walk": ("ready", 0, 0)},
    mistakes=r"""
test_audit.test_notes_of_unique_pushes_are_checked
  a held list has no messages
  - redis.call('ZCARD', held) + redis
  + redis
  the flag is stale
  - key == TAKEN or redis
  + redis
  a note of a delayed message is stale
  - (other and redis.call('HEXISTS', context, other) == 1)
  + false
  any moment will do
  - tonumber(moment) > now + LONGEST_NOTE
  + false
  it is still believed
  - 'HSET', receives, key, start)
  + 'HLEN', receives)
test_cancel.test_an_audit_finds_no_fault_with_a_note_and_deletes_it_at_its_end
  given: repair=1
  deletes notes that are needed
  - or (ends and ends > now) then
  + then
  keeps notes for ever
  - if (ends and repair) or
  + if
  given: repair=0
  takes a note for a stale extension
  - (not ends and report('stale extension', key))
  + report('stale extension', key)
test_audit.test_a_count_of_a_message_on_a_list_stays_and_any_other_goes
  given: place="push"
  a message on a list hides every stale count
  - (listed and string.find(count, ':', 1, true))
  + listed
  given: place="hand_over"
  the counts of handed-over messages are stale
  -
  -   + redis.call('LLEN', handoff)
  +
test_audit.test_a_count_is_stale_once_the_lists_are_empty
  counts of messages that left the lists are kept
  - (listed and string.find(count, ':', 1, true))
  + string.find(count, ':', 1, true)
test_audit.test_an_orphan_body_becomes_ready
  mends without being asked
  - return repair
  + return true
  drops an orphan
  - and report('orphan body', key) then
  -     redis.call('ZADD', delayed, now_text, key)
  + and report('orphan body', key) then
  +     redis.call('HDEL', context, key)
test_audit.test_a_sound_queue_has_no_problems_and_a_repair_changes_nothing
  takes delayed messages for orphans
  - if not redis.call('ZSCORE', backup, key) and not redis.call('ZSCORE', delayed, key)
  + if not redis.call('ZSCORE', backup, key)
  takes every row count for stale
  - if not redis.call('ZSCORE', held, key) and report('stale row count', key) then
  + if report('stale row count', key) then
test_audit.test_a_walk_over_the_bodies_reads_few_of_them
  bodies are read by the hundred
  - 'COUNT', 100, 'NOVALUES'), 1
  - elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then
  -   page, stride = {'0', redis.call('HKEYS', context)}, 1
  - else
  -   page, stride = redis.call(walk[1], walk[2], cursor, 'COUNT', walk[3]), 2
  + 'COUNT', 100), 2
  + else
  +   page, stride = redis.call(walk[1], walk[2], cursor, 'COUNT', 100), 2
test_audit.test_a_walk_over_the_bodies_of_a_small_queue_reads_none_of_them
  the bodies of a small queue are read
  - 'COUNT', 100, 'NOVALUES'), 1
  - elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then
  + 'COUNT', 100), 2
  + elseif false then
test_audit.test_a_walk_over_a_large_queue_finds_what_a_small_one_does
  all keys of a large queue are read at once
  - 'COUNT', 100, 'NOVALUES'), 1
  - elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then
  + 'COUNT', 9999, 'NOVALUES'), 1
  + elseif walked == 'context' then
test_groups_stop.test_an_audit_leaves_a_message_whose_body_is_missing_to_the_next_pop
  given: zset="BACKUP"
  writes the dead letter itself
  - if parked then
  + if false then
  the count of a message in flight is stale
  - or redis.call('ZSCORE', backup, key) or
  + or
  given: zset="DELAYED"
  the count of a delayed message is stale
  -     or redis.call('ZSCORE', backup, key) or redis.call('ZSCORE', delayed, key)
  + or redis.call('ZSCORE', backup, key)
test_errors_kept.test_an_audit_deletes_stale_notes
  notes are not checked
  - redis.call('HEXISTS', receives, key) == 0 and report('stale failure', key)
  + false
test_counts.test_an_audit_counts_what_it_buries
  does not count
  - count_up('dead:body missing', 1)
  counts delayed messages as taken
  - count_up('ended', zset == backup and 1 or 0)
  + count_up('ended', 1)
""",
)


@FACTS.worst("64 x 32 MiB, one of them an orphan", count=64, size=32 * MIB)
@FACTS.worst("1,000 x 0.9 MiB, one of them an orphan", count=1000, size=LARGE)
@FACTS.worst("100,000 x 10 KiB, one of them an orphan", count=100_000, size=10_000)
def audit_bodies(scene: Scene, count: int, size: int) -> Act:
    scene.leased(scene.many(count), scene.size(size), scene.far)
    scene.client.zrem(scene.keys.backup, b"m0000001")
    return scene.queue().audit


@FACTS.worst("100,000 to repair in every place")
def audit_broken(scene: Scene) -> Act:
    keys, count = scene.keys, scene.many(100_000)
    line = """for at = 1, 2 do redis.call('ZADD', KEYS[at], score, at .. id) end
      for at = 3, 5 do redis.call('HSET', KEYS[at], at .. id, body) end"""
    broken = (keys.backup, keys.delayed, keys.receives, keys.extended, keys.context)
    scene.fill(line, broken, count, score=scene.far)
    queue = scene.queue()
    return lambda: queue.audit(repair=True)
