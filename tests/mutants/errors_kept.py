"""The planted mistakes in what keeps the errors of failed messages."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

T = "test_errors_kept"
OTHER = f"{T}.test_a_note_is_never_attached_to_another_message_with_the_same_id"
GOES = f"{T}.test_a_note_goes_with_its_message"
REFUSED = f"{T}.test_what_is_no_error_is_refused_before_anything_is_changed"
A = b'{"type":"A"}'
DEAD = f"{T}.test_a_dead_letter_never_gets_the_errors_of_another_message"
MARKED = (
    "if note and string.match(note, '^[^\\n]*') == mark(body) then",
    "if note then",
)

MUTANTS = (
    Mutant("nack", "a note of another body is kept", *MARKED, DEAD, {"end": "nack"}),
    Mutant("reject", "a note of another body is kept", *MARKED, DEAD, {"end": "reject"}),
    Mutant("pop", "a note of another body is kept", *MARKED, DEAD, {"end": "pop"}),
    Mutant(
        "pop",
        "what goes to the back without an id leaves its note",
        "      if string.byte(key) == 0 then\n        redis.call('HDEL', errors, key)\n",
        "      if string.byte(key) == 0 then\n",
        f"{T}.test_with_requeue_back_no_note_outlives_the_key_of_a_message_without_an_id",
    ),
    Mutant(
        "nack",
        "a note of an earlier life is kept",
        "if tonumber(attempt) >= before then",
        "if false then",
        OTHER,
        {"key": "a", "noted": b'{"id":"a"}'},
    ),
    Mutant(
        "nack",
        "all failures are kept",
        "while #found > FAILURES do",
        "while false do",
        f"{T}.test_only_the_last_five_are_kept",
    ),
    Mutant(
        "nack",
        "one error for all",
        "found[each] = failure ~= '' and failure or nil",
        "found[each] = ARGV[from + 2]",
        f"{T}.test_each_message_gets_its_own_error_or_none",
    ),
    Mutant(
        "nack",
        "an empty error is noted",
        "found[each] = failure ~= '' and failure or nil",
        "found[each] = failure",
        f"{T}.test_without_errors_no_key_is_made",
    ),
    Mutant(
        "nack",
        "errors of any length",
        "#failure > LONGEST_FAILURE",
        "false",
        REFUSED,
        {"script": "nack", "errors": (1, b"x" * 8193)},
    ),
    Mutant(
        "reject",
        "errors of several lines",
        "string.find(failure, '\\n', 1, true)",
        "false",
        REFUSED,
        {"script": "reject", "errors": (1, b"two\nlines")},
    ),
    Mutant(
        "nack",
        "errors of messages that are not there",
        "outside(to, position, last)",
        "outside(to, 0, 4000)",
        REFUSED,
        {"script": "nack", "errors": (2, A)},
    ),
    Mutant(
        "nack",
        "the dead letter has no errors",
        "'time', string.format('%.0f', now), unpack(errors_field(found)))",
        "'time', string.format('%.0f', now))",
        f"{T}.test_a_dead_letter_gets_the_errors",
        {"end": "nack"},
    ),
    Mutant(
        "reject",
        "the dead letter lacks the last error",
        "      add_failure(found, count, failure)",
        "",
        f"{T}.test_a_dead_letter_gets_the_errors",
        {"end": "reject"},
    ),
    Mutant(
        "nack",
        "does not say who died",
        "  reply[#reply + 1] = died\n",
        "",
        "test_nack.test_a_nack_at_the_maximum_is_death",
    ),
    Mutant(
        "pop",
        "does not say that the lease ended",
        "add_failure(found, count - 1, '')",
        "count = count + 0",
        f"{T}.test_a_message_whose_last_lease_ended_says_so",
    ),
    Mutant(
        "pop",
        "says of any death that a lease ended",
        "      if zset == backup then\n        add_failure",
        "      if true then\n        add_failure",
        f"{T}.test_a_limit_that_was_lowered_invents_no_end_of_a_lease",
    ),
    Mutant(
        "ack",
        "the note stays",
        "    redis.call('HDEL', errors, unpack(done))",
        "",
        GOES,
        {"settle": "ack"},
    ),
    Mutant(
        "ack_id",
        "the note stays",
        "    redis.call('HDEL', errors, key)",
        "",
        GOES,
        {"settle": "ack_id"},
    ),
    Mutant(
        "pop",
        "the note stays",
        "    redis.call('HDEL', errors, unpack(done))",
        "",
        GOES,
        {"settle": "pop"},
    ),
    Mutant(
        "claims/claim",
        "the note stays",
        "    redis.call('HDEL', errors, key)",
        "",
        GOES,
        {"settle": "claim"},
    ),
    Mutant(
        "drain",
        "the note stays",
        "      redis.call('HDEL', errors, key)",
        "",
        GOES,
        {"settle": "drain"},
    ),
    Mutant("purge", "the notes stay", "delayed,\n  errors)", "delayed)", GOES, {"settle": "purge"}),
    Mutant(
        "nack",
        "a note without a message",
        "        redis.call('HDEL', errors, key)\n      else",
        "      else",
        f"{T}.test_a_message_without_an_id_leaves_no_note_on_the_list",
    ),
    Mutant(
        "pop",
        "sweeps notes that are needed",
        "  if not known[i] then\n    redis.call('HDEL', errors",
        "  if true then\n    redis.call('HDEL', errors",
        f"{T}.test_an_empty_queue_sweeps_stale_notes_a_hundred_at_a_time",
    ),
    Mutant(
        "pop",
        "sweeps any number",
        "redis.call('HRANDFIELD', errors, SWEPT)",
        "redis.call('HKEYS', errors)",
        f"{T}.test_an_empty_queue_sweeps_stale_notes_a_hundred_at_a_time",
    ),
    Mutant(
        "audit_scan",
        "notes are not checked",
        "redis.call('HEXISTS', receives, key) == 0 and report('stale failure', key)",
        "false",
        f"{T}.test_an_audit_deletes_stale_notes",
    ),
    Mutant(
        "nack",
        "a body that is read does not count",
        "if body and (dies or delay < 0 or failure) then\n"
        "    body = redis.call('HGET', context, key)\n"
        "    bytes = bytes + #body",
        "if body and (dies or delay < 0 or failure) then\n"
        "    body = redis.call('HGET', context, key)\n"
        "    bytes = bytes + (failure and 0 or #body)",
        f"{T}.test_a_nack_with_errors_reads_a_mebibyte_and_says_where_it_stopped",
    ),
)
