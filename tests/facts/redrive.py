"""The facts of redrive.lua: see `tests.facts.facts`."""

from ackq.queue import inspection
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts
from tests.facts.failures import dead_with_failures, with_failures

FACTS = Facts(
    "redrive",
    calls=((10, "", 0),),
    operation=lambda: inspection.redrive(SPEC, 1, ()),
    replies=[[1, 1, b"1-1"]],
    passes={"wanted": [1], "after": [""], "force": [0]},
    fewest=3,
    refused={"1001": (1, "", 0, *["1-1"] * 1001), "force": (1, "", 2)},
    named_arguments="some",
    mistakes=r"""
test_push_unique.test_a_dead_letter_stays_while_another_of_its_id_is_queued
  given: unique="done"
  redrives it
  - if is_taken and force == '0' then
  + if false then
  takes the key of the other one
  - if key == '' or is_taken or redis.call
  + if key == '' or redis.call
  given: unique="taken"
  does not look for one to be taken
  - return taken or (note
  + return (note
test_push_unique.test_what_was_redriven_keeps_its_id
  forgets that it is unique
  - (unique or is_unique(note))
  + is_unique(note)
test_redrive.test_one_call_looks_at_a_hundred
  any number of dead letters in one call
  - looked < math.min(wanted, MAX_IN_CALL) and
  + looked < wanted and
  any number of named dead letters in one call
  - if looked >= MAX_IN_CALL or bytes
  + if bytes
test_redrive.test_a_redriven_message_is_due_now_with_its_key_its_body_and_no_count
  dead and ready at once
  - redis.call('XDEL', dead, entry[1])
  the count of the dead stays
  - redis.call('HDEL', receives, key)
test_redrive.test_no_failure_of_a_message_on_the_list_stays_without_its_count
  the failures stay
  - redis.call('HDEL', errors, key)
test_redrive.test_a_key_that_is_taken_is_replaced_and_every_body_survives
  overwrites a message with the same key
  - if key == '' or is_taken or redis.call('HEXISTS', context, key) == 1 then
  + if key == '' or is_taken then
  one time for all
  - now - MAX_IN_CALL + redriven
  + now
test_redrive.test_one_call_redrives_a_mebibyte_of_errors
  given: named=True
  errors cost nothing
test_counts.test_redriven_and_dropped_dead_letters
  does not count
  - count_up('redriven', redriven)
test_groups_stop.test_a_dead_letter_stops_its_group
  given: death="reject"
  goes behind the others
  - head_of(tag) .. at .. fields.body
  + head_of(tag) .. '9' .. string.sub(at, 2) .. fields.body
  the group stays stopped
  -   go_on(tag, entry)
  -   redriven = redriven + 1
  +   redriven = redriven + 1
test_groups_stop.test_a_redriven_message_waits_for_the_other_dead_letters
  the group goes on though another dead letter stops it
  - other ~= letter and other or nil
  + nil
test_groups_stop.test_a_redrive_and_a_drop_wake_a_consumer
  wakes nobody
  - if record and redriven > 0 then
  + if false then
""",
)


@FACTS.worst("16 x 64 MiB", count=16, size=64 * MIB)
@FACTS.worst("1,000 x 0.9 MiB", count=1000, size=LARGE)
@FACTS.worst("600,000 dead letters", count=600_000)
def redrive_deep(scene: Scene, count: int, size: int = 100) -> Act:
    scene.dead(scene.many(count), scene.size(size))
    return scene.queue().redrive


@with_failures(FACTS, "100")
def redrive_with_failures(scene: Scene, failure: bytes) -> Act:
    dead_with_failures(scene, scene.keys.dead, 100, failure)
    return scene.queue().redrive


@FACTS.worst("100,000 by name, all ids taken")
def redrive_named(scene: Scene) -> Act:
    count = scene.many(100_000)
    scene.dead(count)
    scene.delayed(count, score=scene.far)
    queue, letters = scene.queue(), scene.queue().dead_letters(count)
    return lambda: queue.redrive(entries=[letter.entry for letter in letters])
