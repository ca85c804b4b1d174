"""The facts of reject.lua: see `tests.facts.facts`."""

from ackq.queue import settle
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from benchmarks.worst.settling import failed
from tests.facts.example import SPEC, leased
from tests.facts.facts import Facts
from tests.facts.failures import with_failures
from tests.facts.refused import bad_groups
from tests.queue.scripts.busy import MINE

FACTS = Facts(
    "reject",
    calls=(
        ("bad", *MINE),
        ("bad", *MINE, "errors", 1, b"{}"),
    ),
    operation=lambda: settle.reject(SPEC, leased(), "why"),
    replies=[[1]],
    passes={"reason": ["why"], "rejected": [99, 1, b"k"]},
    refused=bad_groups(("bad",)),
    mistakes=r"""
test_groups_room.test_whoever_makes_room_wakes_one_consumer_that_waits
  given: script="reject"
  nobody looks again
  - admit()
  - return
  + return
test_pop.test_a_count_on_the_list_is_none_of_a_message_that_is_leased_or_delayed
  the count of another message goes into the dead letter
  - local count = tonumber(noted) or 1
  + local count = tonumber(string.match(noted or '1', '%d+'))
test_reject.test_one_call_rejects_a_mebibyte_and_says_where_it_stopped
  bodies cost nothing
  messages left for the next call are reported as refused
  - while #reply > 1 and math.abs(reply[#reply]) >= entry[2] do
  + while false do
test_reject.test_one_call_rejects_a_hundred
  any number of messages in one call
test_reject.test_a_stale_receipt_cannot_reject_a_message_that_another_consumer_holds
  no fence
test_reject.test_positions_count_through_all_groups
  what is gone is not reported
test_reject.test_a_rejected_message_is_dead_with_key_body_reason_count_and_time
  the body is deleted before the dead letter is written
  -   local body = redis.call('HGET', context, key) or ''
  +   redis.call('HDEL', context, key)
  +   local body = redis.call('HGET', context, key) or ''
test_own_servers.test_a_message_can_be_rejected_on_a_full_server
  the first write may allocate (error)
  -   if redis.call('ZREM', backup, key) == 1 then
  +   redis.call('HSETNX', receives, key, 1)
  +   if redis.call('ZREM', backup, key) == 1 then
test_reject.test_one_call_rejects_the_messages_of_a_quarter_of_a_mebibyte_of_notes
  a note of another message costs nothing
test_errors_kept.test_a_dead_letter_never_gets_the_errors_of_another_message
  given: end="reject"
  a note of another body is kept
test_errors_kept.test_what_is_no_error_is_refused_before_anything_is_changed
  given: script="reject", errors=(1, b"two\nlines")
  errors of several lines
  - string.find(failure, '\n', 1, true)
  + false
test_errors_kept.test_a_dead_letter_gets_the_errors
  given: end="reject"
  the dead letter lacks the last error
  -       add_failure(found, count, failure)
test_counts.test_a_nack_that_kills_and_a_reject
  rejected messages are not counted
  - count_up('dead:rejected', reply[1])
faults.test_failover.test_no_message_is_left_without_a_lease_while_its_slot_moves
  given: settle="reject"
  takes the lease of a reject before it reads the count
  -   local noted = redis.call('HGET', receives, key)
  +   local was_leased = redis.call('ZREM', backup, key)
  +   local noted = redis.call('HGET', receives, key)
  +   redis.call('ZADD', backup, was_leased, key)
test_groups_pop.test_what_ends_a_message_frees_its_group
  given: end="reject"
  its group stays busy
  - free(gone)
  - write_slots()
  + write_slots()
  wakes nobody whose group it frees
  - write_slots()
  - wake()
  + write_slots()
test_groups_stop.test_a_dead_letter_stops_its_group
  given: death="reject"
  stops no group
  - stop_all(gone, ids)
  - free(gone)
  + free(gone)
test_groups_stop.test_what_stops_a_group_is_checked_before_anything_is_changed
  learns the type of a key too late
  -   redis.call('HLEN', letters)
  +   redis.call('HLEN', stopped)
""",
)


@with_failures(FACTS, "100")
def reject_with_failures(scene: Scene, failure: bytes) -> Act:
    held, queue = failed(scene, failure), scene.queue()
    return lambda: queue.reject(*held)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def reject_large(scene: Scene, count: int, size: int) -> Act:
    held, queue = scene.held(count, scene.size(size)), scene.queue()
    return lambda: queue.reject(*held, reason="no use")


@FACTS.worst("100,000 with counts")
def reject_many(scene: Scene) -> Act:
    held, queue = scene.held(scene.many(100_000)), scene.queue()
    scene.counted(len(held), 3)
    return lambda: queue.reject(*held, reason="no use")
