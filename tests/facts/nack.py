"""The facts of nack.lua: see `tests.facts.facts`."""

from typing import Any

from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from benchmarks.worst.settling import failed
from tests.facts.facts import Facts
from tests.facts.failures import RECEIVES, with_failures
from tests.facts.refused import bad_groups
from tests.queue.scripts.space import FUTURE, SECOND

FACTS = Facts(
    "nack",
    calls=(
        ("nack", 3, "", FUTURE, SECOND, 1, "mine", FUTURE, -1, 1, "mine_too", 7, 0, 1, "dying"),
        ("release", 3, "", FUTURE, SECOND, 1, "mine", FUTURE, -1, 1, "mine_too"),
        ("nack", 3, "", FUTURE, SECOND, 1, "mine", 7, 0, 1, "dying", "errors", 2, b"{}"),
        ("reject", 0, "bad", FUTURE, 0, 1, "mine", "errors", 1, b"{}"),
    ),
    fewest=3,
    named_arguments="some",
    refused=bad_groups(("nack", 0, ""), delay=0),
    given={"a long error": {"way": "nack", "errors": (1, b"x" * 8193)}},
    mistakes=r"""
test_push_unique.test_a_redelivered_message_keeps_its_id
  given: way="release"
  a release to the list forgets that it is unique
  - if names then
  -     names.change(id, name, mark(body), '0')
  -   end
  + if names and count > 0 then
  +     names.change(id, name, mark(body), '0')
  +   end
test_nack.test_one_call_gives_a_hundred_back_and_the_next_keeps_their_order
  of two calls the second overtakes the first
  - math.min(#held, MAX_IN_CALL)
  + #held
test_settling.test_a_message_that_is_named_twice_is_settled_once
  given: way="to the back"
  given back twice
  -   if redis.call('ZREM', backup, key) == 1 then
  +   redis.call('ZREM', backup, key)
  +   if true then
test_settling.test_the_due_time_of_a_delayed_message_is_no_receipt
  given: way="nack"
  what waits is said to be another's
  - waits and each.position or -each.position
  + each.position
test_nack.test_a_release_does_not_count
  a release counts
  - way == 'nack' and count or count - 1
  + count
test_nack.test_what_was_given_back_together_is_ready_at_once_and_in_the_order_given
  what is given back together is sorted by its keys
  - now + delay - 1) + i
  + now + delay - 1) + 1
test_nack.test_what_was_given_back_together_is_due_in_the_order_given_and_never_early
  a delay ends early, since others are given back with it
  - (delay == 0 and now - most or now + delay - 1)
  + (now + delay - #held)
test_own_servers.test_work_can_be_given_back_to_a_full_server
  given: delay=1000000, max_receives=0
  the first write may allocate (error)
  -   local key, delay, failure =
  +   redis.call('HINCRBY', receives, each.key, 0)
  +   local key, delay, failure =
test_nack.test_one_call_returns_the_messages_of_a_quarter_of_a_mebibyte_of_notes
  given: dies=False
  the notes of messages that return cost nothing
  - #(note or '') --
  + #(dies and note or '') --
test_errors_kept.test_each_message_gets_its_own_error_or_none
  one error for all
  - found[each] = failure ~= '' and failure or nil
  + found[each] = ARGV[from + 2]
test_errors_kept.test_without_errors_no_key_is_made
  an empty error is noted
  - found[each] = failure ~= '' and failure or nil
  + found[each] = failure
test_errors_kept.test_what_is_no_error_is_refused_before_anything_is_changed
  given: way="nack", errors=(2, b'{"type":"A"}')
  errors of messages that are not there
  - outside(to, position, last)
  + outside(to, 0, 4000)
test_errors_kept.test_a_nack_with_errors_reads_a_mebibyte_and_says_where_it_stopped
  a body that is read does not count
  - bytes = bytes + #(body or '')
  + bytes = bytes + (failure and 0 or #body)
test_counts.test_a_nack_that_kills_and_a_reject
  counts what died twice
  - count_up('dead:max receives', #died - missing)
  + count_up('dead:max receives', 2 * #died)
faults.test_failover.test_no_message_is_left_without_a_lease_while_its_slot_moves
  given: settle="release"
  takes the lease of a release before it reads the count
  -   local count = tonumber(redis.call('HGET', receives, key)) or 1
  +   local was_leased = redis.call('ZREM', backup, key)
  +   local count = tonumber(redis.call('HGET', receives, key)) or 1
  +   redis.call('ZADD', backup, was_leased, key)
test_groups_pop.test_a_nack_that_returns_a_message_frees_nothing
  frees the group of a message that comes back
  -     reply[1] = reply[1] + 1
  +     reply[1], gone[1] = reply[1] + 1, key
test_reject.test_a_rejected_message_is_dead_with_key_body_reason_count_and_time
  the body is deleted before the dead letter is written
  -     body = redis.call('HGET', context, key)
  +     redis.call('HDEL', context, key)
  +     body = redis.call('HGET', context, key) or ''
test_reject.test_one_call_rejects_the_messages_of_a_quarter_of_a_mebibyte_of_notes
  a note of another message costs nothing
  - bytes = bytes + 4 * #(note or '') --
  + bytes = bytes + 4 * #(found[1] or '') --
faults.test_failover.test_no_message_is_left_without_a_lease_while_its_slot_moves
  given: settle="reject"
  takes the lease of a reject before it reads the count
  -   local count = tonumber(redis.call('HGET', receives, key)) or 1
  +   local was_leased = redis.call('ZREM', backup, key)
  +   local count = tonumber(redis.call('HGET', receives, key)) or 1
  +   redis.call('ZADD', backup, was_leased, key)
""",
)


@FACTS.worst("16 x 64 MiB to the dead letters", count=16, size=64 * MIB, max_receives=1)
@FACTS.worst("1,000 x 0.9 MiB to the dead letters", count=1000, size=LARGE, max_receives=1)
@FACTS.worst("1,000 x 0.9 MiB, requeue=back", count=1000, size=LARGE, delay=0, requeue="back")
@FACTS.worst("1,000 x 0.9 MiB, delay=0", count=1000, size=LARGE, delay=0)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def nack_large(
    scene: Scene, count: int, size: int, delay: float | None = None, **settings: Any
) -> Act:
    held, queue = scene.held(count, scene.size(size)), scene.queue(**settings)
    return lambda: queue.nack(*held, delay=delay)


@FACTS.worst("100,000 of 3,000,000 in flight")
def nack_deep(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(3_000_000))[: scene.many(100_000)], scene.queue()
    return lambda: queue.nack(*held)


@with_failures(FACTS, "100 that die")
def nack_dying_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), scene.queue(max_receives=RECEIVES)
    return lambda: queue.nack(*held)


@with_failures(FACTS, "100 that return")
def nack_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), scene.queue()
    return lambda: queue.nack(*held)


@FACTS.worst("1,000 x 0.9 MiB released")
def release_large(scene: Scene) -> Act:
    held, queue = scene.held(1000, scene.size(LARGE)), scene.queue()
    return lambda: queue.release(*held)


@with_failures(FACTS, "100 rejected")
def reject_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), scene.queue()
    return lambda: queue.reject(*held)


@FACTS.worst("16 x 64 MiB rejected", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB rejected", count=1000, size=LARGE)
def reject_large(scene: Scene, count: int, size: int) -> Act:
    held, queue = scene.held(count, scene.size(size)), scene.queue()
    return lambda: queue.reject(*held, reason="no use")


@FACTS.worst("100,000 with counts rejected")
def reject_many(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(100_000)), scene.queue()
    scene.counted(len(held), 3)
    return lambda: queue.reject(*held, reason="no use")
