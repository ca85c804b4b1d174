"""The planted mistakes in what a delay queue counts, and in what it keeps of failures."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

C = "tests.delay.test_counts"
N = "tests.delay.test_failure_notes"
DELETED = f"{C}.test_a_take_and_a_delete"
NACKS = f"{C}.test_a_nack_and_a_release"
DEATHS = f"{C}.test_a_nack_that_kills_and_a_reject"
LEASE_ENDED = f"{C}.test_a_death_after_a_lease_ended_ends_the_delivery"
LEFT_BEHIND = f"{C}.test_a_lease_that_another_client_left_behind_ends"
PURGED = f"{C}.test_a_purge_resets_nothing"
CANCELLED = f"{C}.test_canceled_messages_are_dropped"
WINDOW = f"{C}.test_counting_ends_by_itself_and_a_shorter_window_does_not_shorten"
OTHER = f"{N}.test_a_note_is_never_attached_to_another_message_with_the_same_key"
DEAD = f"{N}.test_a_dead_letter_gets_the_errors_of_its_message"
GOES = f"{N}.test_a_note_goes_with_its_message"
INHERITS = f"{N}.test_a_new_message_inherits_no_note"
LEASES_GO = "count_up(first, 'ended', redis.call('ZREM', KEYS[first + 2], key))"
NOTE_GOES = "    redis.call('HDEL', KEYS[first + 7], key)\n"
COUNT_GOES = "        redis.call('HDEL', KEYS[first + 4], key)\n"
UNMARKED = (
    "if note and string.match(note, '^[^\\n]*') == mark(body) then",
    "if note then",
)


def leases_go(script: str, means: str) -> Mutant:
    """Return the mistake that a lease which is removed goes on for ever."""
    return Mutant(
        script,
        "a delivery goes on for ever",
        LEASES_GO,
        LEASES_GO.replace("count_up(first, 'ended', ", "count_up(first, 'ended', 0 * "),
        LEFT_BEHIND,
        {"means": means},
    )


COUNTS = (
    Mutant("delay/delete", "does not count", "count_up(first, 'acked', deleted)", "", DELETED),
    Mutant(
        "delay/delete",
        "counts what was deleted before",
        "  count_up(first, 'acked', deleted)\nend\n",
        "  count_up(first, 'acked', deleted)\nend\ncount_up(3, 'acked', position - reply[1])\n",
        DELETED,
    ),
    Mutant(
        "delay/take",
        "redeliveries are not counted",
        "count_up(first, 'returned', returned)",
        "",
        DELETED,
    ),
    Mutant(
        "delay/take",
        "every delivery is a redelivery",
        "(until_ and 1 or 0)\n        leases",
        "1\n        leases",
        DELETED,
    ),
    Mutant(
        "delay/take",
        "a lease that ended with a death is not counted",
        "  redis.call('HDEL', KEYS[first + 1], key)\n  " + LEASES_GO,
        "  redis.call('HDEL', KEYS[first + 1], key)\n  redis.call('ZREM', KEYS[first + 2], key)",
        LEASE_ENDED,
    ),
    Mutant(
        "delay/take",
        "its dead letters are not counted",
        "count_up(first, 'dead:' .. reason, 1)",
        "",
        LEASE_ENDED,
    ),
    Mutant(
        "delay/take",
        "a swept lease goes on for ever",
        "    if not scores[i] then\n      " + LEASES_GO,
        "    if not scores[i] then\n      redis.call('ZREM', KEYS[first + 2], key)",
        LEFT_BEHIND,
        {"means": "take"},
    ),
    leases_go("delay/push", "push"),
    leases_go("staging/delay", "staging"),
    Mutant(
        "staging/delay",
        "its dead letters are not counted",
        "count_up(row.first, 'dead:duplicate key', 1)",
        "",
        f"{C}.test_a_row_whose_key_is_stored_is_dead_at_once",
    ),
    Mutant(
        "delay/nack",
        "releases are nacks",
        "charge == 1 and 'nacked' or 'released'",
        "'nacked'",
        NACKS,
    ),
    Mutant(
        "delay/nack",
        "counts what died twice",
        "count_up(first, 'dead:max receives', counts[first].died)",
        "count_up(first, 'dead:max receives', #died)",
        DEATHS,
    ),
    Mutant(
        "delay/nack",
        "missing bodies are not counted",
        "count_up(first, 'dead:body missing', counts[first].missing)",
        "",
        DEATHS,
    ),
    Mutant(
        "delay/reject", "does not count", "count_up(first, 'dead:rejected', number)", "", DEATHS
    ),
    Mutant(
        "delay/purge",
        "resets the counts",
        "KEYS[first + 6], KEYS[first + 7])",
        "KEYS[first + 6], KEYS[first + 7], KEYS[first + 8])",
        PURGED,
    ),
    Mutant(
        "delay/purge",
        "deliveries go on for ever",
        "    ended = redis.call('ZCARD', KEYS[first + 2]),",
        "    ended = 0,",
        PURGED,
    ),
    Mutant(
        "delay/purge",
        "dead letters are messages",
        "['dropped:dead'] = ARGV[1] == '1' and dead",
        "['dropped:dead'] = ARGV[1] == '2' and dead",
        PURGED,
    ),
    Mutant(
        "delay/cancel",
        "counts what was not there",
        "(dropped[first] or 0) + stored",
        "(dropped[first] or 0) + 1",
        CANCELLED,
    ),
    Mutant(
        "delay/cancel",
        "deliveries go on for ever",
        "count_up(first, 'ended', ended[first])",
        "",
        CANCELLED,
    ),
    Mutant(
        "delay/redrive",
        "does not count",
        "count_up(1, 'redriven', redriven)",
        "",
        f"{C}.test_a_redrive_pushes_nothing",
    ),
    Mutant(
        "delay/redrive",
        "a delivery goes on for ever",
        "count_up(1, 'ended', redis.call('ZREM', leases, key))",
        "redis.call('ZREM', leases, key)",
        f"{C}.test_a_redrive_pushes_nothing",
    ),
    Mutant(
        "delay/drop",
        "counts what was not there",
        "'dropped:dead', deleted)",
        "'dropped:dead', #ARGV)",
        f"{C}.test_dropped_dead_letters",
    ),
    Mutant(
        "delay/watch",
        "a shorter window shortens",
        "redis.call('PTTL', counters) < window",
        "true",
        WINDOW,
    ),
    Mutant(
        "delay/delete",
        "counts for nobody",
        "redis.pcall('HEXISTS', KEYS[first + 8], 'since') == 1",
        "true",
        WINDOW,
    ),
    Mutant(
        "delay/reject",
        "counts of another type stop it half way",
        "number > 0 and redis.pcall('HEXISTS'",
        "number > 0 and redis.call('HEXISTS'",
        f"{C}.test_counts_of_another_type_stop_no_script_half_way",
        error=True,
    ),
)

NOTES = (
    Mutant(
        "delay/nack",
        "a note of another body is kept",
        *UNMARKED,
        DEAD,
        {"end": "nack", "noted": b"other"},
    ),
    Mutant(
        "delay/reject",
        "a note of another body is kept",
        *UNMARKED,
        DEAD,
        {"end": "reject", "noted": b"other"},
    ),
    Mutant(
        "delay/take",
        "a note of another body is kept",
        *UNMARKED,
        DEAD,
        {"end": "take", "noted": b"other"},
    ),
    Mutant(
        "delay/nack",
        "a note of an earlier life is kept",
        "if tonumber(attempt) >= before then",
        "if false then",
        OTHER,
        {"noted": b"body"},
    ),
    Mutant(
        "delay/nack",
        "all failures are kept",
        "while #found > FAILURES do",
        "while false do",
        f"{N}.test_only_the_last_five_are_kept",
    ),
    Mutant(
        "delay/nack",
        "one error for all",
        "found[each] = failure ~= '' and failure or nil",
        "found[each] = found[1] or failure",
        f"{N}.test_each_message_gets_its_own_error_or_none",
    ),
    Mutant(
        "delay/take",
        "the end of the last lease is not noted",
        "        if until_ then\n          add_failure",
        "        if false then\n          add_failure",
        DEAD,
        {"end": "take", "noted": b"body"},
    ),
    Mutant(
        "delay/take",
        "notes of living messages are swept",
        "if not known[i] then",
        "if true then",
        f"{N}.test_an_empty_queue_sweeps_stale_notes",
    ),
    Mutant(
        "delay/take",
        "any number of notes is swept",
        "KEYS[first + 7], NOTES)",
        "KEYS[first + 7], 1000)",
        f"{N}.test_an_empty_queue_sweeps_stale_notes",
    ),
    Mutant(
        "delay/delete",
        "the note stays",
        "    redis.call('HDEL', KEYS[first + 7], unpack(keys))\n",
        "",
        GOES,
        {"means": "delete"},
    ),
    Mutant(
        "delay/nack",
        "a release keeps the note of a message that has no count",
        COUNT_GOES + "    " + NOTE_GOES,
        COUNT_GOES,
        GOES,
        {"means": "release"},
    ),
    Mutant("delay/cancel", "the note stays", NOTE_GOES, "", GOES, {"means": "cancel"}),
    Mutant(
        "delay/purge",
        "the notes stay",
        "KEYS[first + 6], KEYS[first + 7])",
        "KEYS[first + 6])",
        GOES,
        {"means": "purge"},
    ),
    Mutant(
        "delay/push",
        "a new message inherits a note",
        "  " + NOTE_GOES,
        "",
        INHERITS,
        {"means": "push"},
    ),
    Mutant(
        "delay/redrive",
        "a new message inherits a note",
        "  redis.call('HDEL', errors, key)\n",
        "",
        INHERITS,
        {"means": "redrive"},
    ),
    Mutant(
        "staging/delay",
        "a new message inherits a note",
        NOTE_GOES,
        "",
        INHERITS,
        {"means": "staging"},
    ),
)

MUTANTS = COUNTS + NOTES
