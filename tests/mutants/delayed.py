"""The planted mistakes in what operators do to delayed messages."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "test_delayed"
RUNS = f"{T}.test_messages_run_now_in_the_given_order_with_what_is_known_of_them"
STAYS = f"{T}.test_what_is_due_or_leased_or_delayed_anew_does_not_run_now"
CANCELED = f"{T}.test_a_message_is_canceled_with_its_body_its_count_and_its_errors"
SPARED = f"{T}.test_what_is_leased_or_delayed_anew_or_has_no_body_is_not_canceled"
EARLIER = f"{T}.test_a_note_of_an_earlier_message_with_the_same_id_is_not_kept"
FOREIGN = f"{T}.test_notes_of_other_messages_count_against_the_budget_too"
REJECTED = "test_reject.test_one_call_rejects_the_messages_of_a_quarter_of_a_mebibyte_of_notes"
NOTES = f"{T}.test_one_call_cancels_the_messages_of_a_quarter_of_a_mebibyte_of_notes"
BUDGET = f"{T}.test_one_call_cancels_a_hundred_or_a_mebibyte"

MUTANTS = (
    Mutant(
        "run_now", "all at one time, so in the order of their keys", " + (at + 1) / 2)", ")", RUNS
    ),
    Mutant("run_now", "later than the present", "now - 500 +", "now +", RUNS),
    Mutant(
        "run_now",
        "what is due goes behind the others",
        "score and score > now and",
        "score and",
        STAYS,
    ),
    Mutant(
        "run_now",
        "a later message with the same id runs",
        " and (due == '' or score == tonumber(due))",
        "",
        STAYS,
    ),
    Mutant(
        "run_now",
        "delays what is leased",
        "  if score and score > now and (due",
        "  if not score or score > now and (due",
        STAYS,
    ),
    Mutant(
        "cancel", "delayed and dead at once", "    redis.call('ZREM', delayed, key)\n", "", CANCELED
    ),
    Mutant("cancel", "the body stays", "    redis.call('HDEL', context, key)\n", "", CANCELED),
    Mutant("cancel", "the count stays", "    redis.call('HDEL', receives, key)\n", "", CANCELED),
    Mutant("cancel", "the note stays", "    redis.call('HDEL', errors, key)\n", "", CANCELED),
    Mutant(
        "cancel", "the errors are lost", "unpack(errors_field(found)))", "unpack({}))", CANCELED
    ),
    Mutant(
        "cancel", "the last error is lost", "note, body, count + 1", "note, body, count", CANCELED
    ),
    Mutant(
        "cancel",
        "inherits a note of another body",
        "if note and string.match(note, '^[^\\n]*') == mark(body) then",
        "if note then",
        EARLIER,
    ),
    Mutant(
        "cancel",
        "cancels a later message with the same id",
        "(due == '' or tonumber(score) == tonumber(due))",
        "true",
        SPARED,
    ),
    Mutant(
        "cancel",
        "cancels what is leased",
        "local body = score and (due == ''",
        "local body = (not score or due == ''",
        SPARED,
        error=True,
    ),
    Mutant("cancel", "any number in one call", " and looked < MOST", "", BUDGET),
    Mutant("cancel", "notes cost nothing", " + 4 * #note", "", NOTES),
    Mutant(
        "cancel",
        "a note of another message costs nothing",
        " + 4 * #note",
        " + 4 * #found * 1000000",
        FOREIGN,
    ),
    Mutant(
        "reject",
        "a note of another message costs nothing",
        " + 4 * #note",
        " + 4 * #found * 1000000",
        REJECTED,
    ),
    Mutant("cancel", "a note costs as little as a body", "4 * #note", "#note", NOTES),
    Mutant(
        "cancel", "any number of bytes in one call", " and bytes < BODY_BUDGET do", " do", BUDGET
    ),
)
