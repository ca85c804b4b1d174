"""The facts of pick.lua: see `tests.facts.facts`."""

from ackq.queue import chosen_messages
from benchmarks.worst.scene import KIB, LARGE, LISTED, MIB, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts

FACTS = Facts(
    "pick",
    calls=(
        ("cancel", "ready", 100, 0, "listed"),
        ("cancel", "handoff", 100, 0, "handed"),
        ("run_now", "ready", 100, 0, "listed"),
    ),
    operation=lambda: chosen_messages.cancel(SPEC, [], ["m"], False),
    replies=[[b"0", 0, b"5", 0, 0]] * 2,
    passes={
        "verb": ["cancel"],
        "place": ["ready"],
        "from": [2**53 - 1],
        "ends": [0],
        "ids": ["m"],
    },
    fewest=5,
    refused={
        "no id": ("cancel", "ready", 0, 0),
        "1,001 ids": ("cancel", "ready", 0, 0, *["id"] * 1001),
    },
    named_arguments="some",
    mistakes=r"""
test_pick.test_messages_leave_the_list_and_are_dead_letters
  given: end="right", place="ready"
  is dead and ready at once
  - redis.call('LREM', list, is_from_head and #found or -#found, gone)
  removes one of several
  - is_from_head and #found or -#found
  + 1
  no dead letter
  -       dead_letter(message)
test_pick.test_messages_run_next_in_the_order_in_which_they_were_ready
  given: end="left"
  the hand-off list is taken from the end of the queue
  - local is_right = not record or place == 'handoff'
  + local is_right = not record
  given: end="right"
  another message of the hand-off list leaves it
  - -message.offset - pushed - 1
  + -message.offset - 1
  runs last
  - redis.call('RPUSH', handoff
  + redis.call('LPUSH', handoff
  given: end="left"
  counts from the other end
  - or message.offset
  + or -message.offset - 1
  a slice is walked in the other order
  - bodies[from_right and i or some + 1 - i]
  + bodies[i]
  looks at the other end
  - from_right and -left or left - some
  + -left
test_pick.test_the_count_and_the_errors_of_a_message_on_the_list_go_with_it
  the count of another body
  - local is_own = whose == of
  + local is_own = whose ~= nil
  the errors are lost
  - message.body, message.count + 1)
  + message.body, 1)
  the errors stay
  - redis.call('HDEL', errors, message.key)
  the count stays
  - redis.call('HDEL', receives, message.key)
  deletes any errors
  - if message.count > 0 then
  + if true then
  deletes any count
  - if message.is_own then
  + if true then
test_pick.test_an_id_is_that_which_pop_sees
  given: raw=b'{"x":"y","id":"a"}'
  sees ids in front only
  - if is_named then
  + if false then
  given: raw=b'{"x":{"id":"z"},"id" : "\\u0061"}'
  sees no escaped id
  - or string.find(id, '\\', 1, true) then
  + then
  sees the first id only
  - _, named = string.find(body, '"id"', named + 1, true)
  + named = nil
test_pick.test_an_integer_is_an_id
  integers are no ids (error)
  - if not id or wanted[id]
  + if wanted[id]
test_pick.test_near_either_end_a_message_leaves_the_list_and_deep_in_it_stays
  given: end="right", verb="cancel"
  near the end that is pushed nothing is removed
  - if math.min(from_taken, from_pushed) <= NEAR then
  + if from_taken <= NEAR then
  given: end="left", verb="cancel"
  near the end that is taken nothing is removed
  - if math.min(from_taken, from_pushed) <= NEAR then
  + if from_pushed <= NEAR then
  given: end="right", verb="run_now"
  deep in the list all are removed
  - if math.min(from_taken, from_pushed) <= NEAR then
  + if true then
  run_now cancels deep in the list
  - verb == 'cancel' and note_cancel(
  + note_cancel(
test_pick.test_a_noted_message_is_a_dead_letter_when_it_arrives
  given: end="right", wanted=1
  the notes are not written
  - cancels.write()
  - return reply
  + return reply
test_pick.test_equal_and_different_messages_of_an_id_are_noted_each
  equal messages are noted once
  - line[1] == ends_text and line[2] + 1 or 1
  + 1
  what is canceled twice is noted twice
  - line[1] == ends_text and line[2] + 1 or 1
  + line[2] + 1
test_pick.test_what_is_noted_and_then_picked_near_an_end_needs_its_note_no_more
  the note stays
  - cancels.use(message.key, message.body)
  + false
test_pick.test_what_only_a_later_call_finds_is_canceled_too
  notes what does not count
  - ends = math.max(ends, cancels.since + CANCELS_LAST)
test_pick.test_what_was_canceled_does_not_run_now
  given: place="handoff"
  runs what was canceled
  - if verb == 'cancel' or is_canceled then
  + if verb == 'cancel' then
  counts what did not run
  - and #found or moved
  + and #found or #found
test_pick.test_a_note_ends_after_a_week
  given: later=604799999999
  a note ends at once
  - ends = math.max(ends, cancels.since + CANCELS_LAST)
  + ends = now
test_pick.test_a_dead_letter_frees_the_id_of_a_unique_push
  given: near=9, unique="done"
  no letter is of a unique push
  -     is_unique = message.is_unique,
  -   })
  +   })
  given: near=9, unique="taken"
  the id stays taken
  - if message.is_taken then
  + if false then
test_pick.test_there_is_room_for_a_number_of_notes
  any number is noted
  - cancels.ids + added >= NOTED
  + false
  those of this call do not count
  - cancels.ids + added >= NOTED
  + cancels.ids >= NOTED
  notes that ended take room for ever
  -         cancels.change(id)
test_pick.test_sixteen_bodies_of_an_id_are_noted
  any number of bodies
  - or #lines >= BODIES then
  + then
test_pick.test_one_call_looks_at_two_thousand_messages_or_a_mebibyte_and_picks_a_hundred
  any number in one call
  - looked < MAX_IN_CALL and
  any number of bytes in one call
  - and bytes < BODY_BUDGET
  picks any number
  - if #found == PICKED or
  + if
test_pick.test_far_from_an_end_a_call_picks_fewer
  picks as many everywhere
  - #found * distance > REACHED
  + false
  picks few near an end too
  - #found * distance > REACHED
  + #found > 80
test_pick.test_notes_of_failures_count_against_the_budget
  notes cost nothing
  - cost = #body + 4 * #note,
  + cost = #body,
test_pick.test_one_call_decodes_72_kib
  decodes any number of bytes
  - decoded = decoded + #body / 8 + (named and #body or 0)
  skips what it may not decode
  - decoded > DECODE_BUDGET and before > 0
  + false
test_pick.test_one_call_looks_at_some_thousand_fields
  fields cost nothing
  - decoded = decoded + NAME * names
test_pick.test_what_is_taken_and_pushed_meanwhile_hides_no_message
  leaves out the next ones (error)
  - left, bytes, looked = left - 1,
  + left, bytes, looked = left - (i == some and 100 or 1),
test_pick.test_a_count_of_what_was_canceled
  does not count
  - count_up('dead:canceled', #found - moved)
test_pick.test_nothing_is_picked_from_the_left_without_a_record
  takes from the left without a record
test_own_servers.test_ready_messages_can_be_canceled_on_a_full_server
  the first write may allocate (error)
  - redis.call('HDEL', receives, '')
""",
)


@FACTS.worst("1,000 ids among 3,000,000 ready")
def pick_few(scene: Scene) -> Act:
    count = scene.many(3_000_000)
    scene.ready(count)
    return _pick(scene, range(1, count, max(1, count // 1000)))


@FACTS.worst("1,000 of 1,000,000 ready, 50,000 before the end")
def pick_near(scene: Scene) -> Act:
    scene.ready(scene.many(1_000_000))
    first = scene.many(49_000)
    return _pick(scene, range(first, first + 1000))


@FACTS.worst("1,000 in the middle of 1,000,000 ready")
def pick_deep(scene: Scene) -> Act:
    count = scene.many(1_000_000)
    scene.ready(count)
    return _pick(scene, range(count // 2, count // 2 + 1000))


@FACTS.worst("run now: 100 of 100,000 ready, 49,000 before the end")
def pick_front(scene: Scene) -> Act:
    scene.ready(scene.many(100_000))
    queue, first = scene.queue(), scene.many(49_000)
    return lambda: queue.run_now(ids=[f"m{first + n:07d}" for n in range(100)])


@FACTS.worst("1,000 x 0.9 MiB")
def pick_large(scene: Scene) -> Act:
    scene.ready(1000, scene.size(LARGE))
    return _pick(scene, range(1, 1001))


@FACTS.worst("16 x 8 MiB ready, by a stranger")
def pick_strange(scene: Scene) -> Act:
    scene.ready(16, scene.size(8 * MIB))
    return _pick(scene, range(1, 17))


@FACTS.worst("1,000 x 60 KiB of brackets, their id behind")
def pick_brackets(scene: Scene) -> Act:
    line = """local inner = string.rep('[],', 20 * 1000)
      redis.call('LPUSH', KEYS[1], '{"a":[' .. inner .. '0],"id":"' .. id .. '"}')"""
    scene.fill(line, (scene.keys.ready,), 1000, 60 * KIB)
    return _pick(scene, range(1, 1001))


@FACTS.worst("1,000 x 60 KiB of ids")
def pick_ids(scene: Scene) -> Act:
    line = """local inner = string.rep('{"id":"z"},', 5000)
      redis.call('LPUSH', KEYS[1], '{"a":[' .. inner .. '0],"id":"' .. id .. '"}')"""
    scene.fill(line, (scene.keys.ready,), 1000, 60 * KIB)
    return _pick(scene, range(2000, 2100))


@FACTS.worst("1,000 equal ids of 512 bytes")
def pick_equal(scene: Scene) -> Act:
    line = LISTED.replace("body", "'{\"id\":\"' .. string.rep('i', 512) .. '\",\"n\":' .. n .. '}'")
    scene.fill(line, (scene.keys.ready,), 1000)
    queue = scene.queue()
    return lambda: queue.cancel(ids=["i" * 512])


def _pick(scene: Scene, numbers: range) -> Act:
    queue, ids = scene.queue(), [f"m{n:07d}" for n in numbers]
    return lambda: queue.cancel(ids=ids)
