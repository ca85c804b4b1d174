"""The facts of cancel.lua: see `tests.facts.facts`."""

from ackq.queue import chosen_messages
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.facts.refused import bad_pairs
from tests.queue.scripts.space import FUTURE

FACTS = Facts(
    "cancel",
    calls=((0, "", "due", FUTURE, "later"), (1, "", "mine", "", "dying")),
    operation=lambda: chosen_messages.cancel(SPEC, ["99-k"], ["m"], True),
    replies=[[2, 2], [1, 1]],
    passes={"running": [1], "chosen": ["99", b"k", "", "m"]},
    fewest=3,
    refused={name: (0, *args) for name, args in bad_pairs(1000).items()},
    named_arguments="some",
    mistakes=r"""
test_groups_room.test_whoever_makes_room_wakes_one_consumer_that_waits
  given: script="cancel"
  nobody looks again
test_delayed.test_a_message_is_canceled_with_its_body_its_count_and_its_errors
  delayed and dead at once
  - redis.call('ZREM', zset, key)
  the body stays
  - redis.call('HDEL', context, key)
  the count stays
  - redis.call('HDEL', receives, key)
  the note stays
  - redis.call('HDEL', errors, key)
  the errors are lost
  - count = count, errors = found,
  + count = count,
  the last error is lost
  - count + 1 or count)
  + count)
test_delayed.test_a_note_of_an_earlier_message_with_the_same_id_is_not_kept
  a note of another body is kept
test_delayed.test_what_is_leased_or_delayed_anew_or_has_no_body_is_not_canceled
  cancels a later message with the same id
  - return (due == '' or score == tonumber(due)) and score, delayed
  + return score, delayed
  cancels what is leased
  - (running == '1' or score <= now) and score
  + score
test_delayed.test_one_call_cancels_a_hundred_or_a_mebibyte
  any number in one call
  -  and canceled < MAX_IN_CALL
  any number of bytes in one call
  - and bytes < BODY_BUDGET do
  + do
test_delayed.test_one_call_cancels_the_messages_of_a_quarter_of_a_mebibyte_of_notes
  notes cost nothing
  - + 4 * #note
  a note costs as little as a body
  - 4 * #note
  + #note
test_delayed.test_notes_of_other_messages_count_against_the_budget_too
  a note of another message costs nothing
test_cancel.test_a_running_message_becomes_a_dead_letter_with_its_count_and_its_errors
  a lease had no delivery
  - (is_delayed and 0 or 1)
  + 0
  the holder's errors are lost
  - and count + 1 or count)
  + and count + 1 or 1)
  the receipt of an extended lease is not known
  - string.match(note, '^(%d+):' .. ends .. '$') or ends
  + ends
test_cancel.test_what_runs_is_left_alone_unless_that_is_asked_for_and_what_has_ended_is_not
  cancels what runs
  - (running == '1' or score <= now)
  + true
  leaves what has ended
  - (running == '1' or score <= now)
  + running == '1'
  any due time names a lease
  - score = due == '' and
  + score =
test_cancel.test_the_next_extend_reports_that_its_delivery_was_canceled
  leaves no note
  - note_for_holder(key, score)
test_cancel.test_notes_of_leases_that_have_ended_are_swept_and_no_others
  sweeps nothing
  - if ends and tonumber(ends) <= now
  + if false
  sweeps notes whose leases run
  - if ends and tonumber(ends) <= now
  + if ends
test_cancel.test_a_cancel_looks_at_a_few_notes
  looks at all notes
  - local SWEPT = 100
  + local SWEPT = 1000
test_counts.test_canceled_messages_were_never_taken_and_run_now_counts_nothing
  does not count
  - count_up('dead:canceled', canceled)
  counts what it looked at
  - count_up('dead:canceled', canceled)
  + count_up('dead:canceled', looked)
test_counts.test_a_delivery_that_is_canceled_has_ended
  no delivery ends
  - count_up('ended', ended)
test_groups_pop.test_what_ends_a_message_frees_its_group
  given: end="cancel"
  its group stays busy
  - leave(gone)
  wakes nobody whose group it frees
test_groups_stop.test_a_dead_letter_stops_its_group
  given: death="cancel"
  stops no group
  - stop_all(gone, ids)
  - leave
  + leave
""",
)


@FACTS.worst("100,000 of 1,000,000, with notes of failures")
def cancel_deep(scene: Scene) -> Act:
    scene.delayed(scene.many(1_000_000), score=scene.far)
    count = scene.many(100_000)
    line = """local lines = string.rep('\\n1:7:{"text":"' .. string.rep('x', 8000) .. '"}', 5)
      local ends = redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
      redis.call('HSET', KEYS[1], id, #body .. ':' .. ends .. lines)
      redis.call('HSET', KEYS[2], id, 3)"""
    scene.fill(line, (scene.keys.errors, scene.keys.receives), min(count, 1000))
    return _cancel(scene, count)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
def cancel_large(scene: Scene, count: int, size: int) -> Act:
    scene.delayed(count, scene.size(size), scene.far)
    return _cancel(scene, count)


@FACTS.worst("100,000 of 3,000,000 that run, 1,000,000 extended")
def cancel_running(scene: Scene) -> Act:
    scene.leased(scene.many(3_000_000), score=scene.far, step=1)
    line = "redis.call('HSET', KEYS[1], id, '7:8')"
    scene.fill(line, (scene.keys.extended,), scene.many(1_000_000))
    return _cancel(scene, scene.many(100_000), running=True)


def _cancel(scene: Scene, count: int, running: bool = False) -> Act:
    queue, ids = scene.queue(), [f"m{n:07d}" for n in range(1, count + 1)]
    return lambda: queue.cancel(ids=ids, running=running)
