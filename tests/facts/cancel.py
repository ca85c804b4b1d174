"""The facts of cancel.lua: see `tests.facts.facts`."""

from __future__ import annotations

from ackq.queue import delayed_messages
from benchmarks.worst.scene import LARGE, MIB, Act, Scene
from tests.facts.example import SPEC
from tests.facts.facts import Facts, Mistake
from tests.facts.parts import NOTE_COSTS_NOTHING, NOTE_OF_ANOTHER_BODY
from tests.facts.refused import bad_pairs
from tests.queue.scripts.space import FUTURE

FACTS = Facts(
    "cancel",
    calls=(("", "due", FUTURE, "later"),),
    operation=lambda: delayed_messages.cancel(SPEC, ["99-k"], ["m"]),
    replies=[[2, 2]],
    passes={"chosen": ["99", b"k", "", "m"]},
    refused=bad_pairs(1000),
    named_arguments="none",
    mistakes={
        "test_delayed.test_a_message_is_canceled_with_its_body_its_count_and_its_errors": (
            Mistake("delayed and dead at once", "    redis.call('ZREM', delayed, key)\n", ""),
            Mistake("the body stays", "    redis.call('HDEL', context, key)\n", ""),
            Mistake("the count stays", "    redis.call('HDEL', receives, key)\n", ""),
            Mistake("the note stays", "    redis.call('HDEL', errors, key)\n", ""),
            Mistake("the errors are lost", "unpack(errors_field(found)))", "unpack({}))"),
            Mistake("the last error is lost", "note, body, count + 1", "note, body, count"),
        ),
        "test_delayed.test_a_note_of_an_earlier_message_with_the_same_id_is_not_kept": (
            NOTE_OF_ANOTHER_BODY,
        ),
        "test_delayed.test_what_is_leased_or_delayed_anew_or_has_no_body_is_not_canceled": (
            Mistake(
                "cancels a later message with the same id",
                "(due == '' or tonumber(score) == tonumber(due))",
                "true",
            ),
            Mistake(
                "cancels what is leased",
                "local body = score and (due == ''",
                "local body = (not score or due == ''",
                error=True,
            ),
        ),
        "test_delayed.test_one_call_cancels_a_hundred_or_a_mebibyte": (
            Mistake("any number in one call", " and looked < MOST", ""),
            Mistake("any number of bytes in one call", " and bytes < BODY_BUDGET do", " do"),
        ),
        "test_delayed.test_one_call_cancels_the_messages_of_a_quarter_of_a_mebibyte_of_notes": (
            Mistake("notes cost nothing", " + 4 * #note", ""),
            Mistake("a note costs as little as a body", "4 * #note", "#note"),
        ),
        "test_delayed.test_notes_of_other_messages_count_against_the_budget_too": (
            NOTE_COSTS_NOTHING,
        ),
        "test_counts.test_canceled_messages_were_never_taken_and_run_now_counts_nothing": (
            Mistake("does not count", "count_up('dead:canceled', canceled)", ""),
            Mistake(
                "counts what it looked at",
                "count_up('dead:canceled', canceled)",
                "count_up('dead:canceled', looked)",
            ),
        ),
    },
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


@FACTS.worst("1,000 x 0.9 MiB")
def cancel_large(scene: Scene) -> Act:
    scene.delayed(1000, scene.size(LARGE), scene.far)
    return _cancel(scene, 1000)


@FACTS.worst("16 x 64 MiB")
def cancel_larger(scene: Scene) -> Act:
    scene.delayed(16, scene.size(64 * MIB), scene.far)
    return _cancel(scene, 16)


def _cancel(scene: Scene, count: int) -> Act:
    queue, ids = scene.queue(), [f"m{n:07d}" for n in range(1, count + 1)]
    return lambda: queue.cancel(ids=ids)
