"""The planted mistakes in what is counted for those who watch."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant
from tests.queue.scripts.calls import Call

T = "test_counts"
NACKS = f"{T}.test_a_nack_and_a_release"
DEATHS = f"{T}.test_a_nack_that_kills_and_a_reject"
LEASE_ENDED = f"{T}.test_a_redelivery_and_a_death_after_a_lease_ended"
PURGED = f"{T}.test_a_purge_resets_nothing"
AUDITED = f"{T}.test_an_audit_counts_what_it_buries"
DRAINED = f"{T}.test_a_drain_ends_deliveries_and_loses_no_message"
REDRIVEN = f"{T}.test_redriven_and_dropped_dead_letters"
ROWS = f"{T}.test_rows_that_a_pipeline_rejected_are_dead_but_were_claimed_and_acked"
TAKEN = f"{T}.test_a_take_and_an_ack"

MUTANTS = (
    Mutant(
        "nack",
        "released messages are not counted",
        "count_up(charge == 1 and 'nacked' or 'released', reply[1])",
        "count_up('nacked', charge * reply[1])",
        NACKS,
    ),
    Mutant(
        "nack",
        "counts what died twice",
        "count_up('dead:max receives', #died - missing)",
        "count_up('dead:max receives', 2 * #died)",
        DEATHS,
    ),
    Mutant(
        "reject",
        "rejected messages are not counted",
        "count_up('dead:rejected', reply[1])",
        "",
        DEATHS,
    ),
    Mutant(
        "ack_id",
        "counts what it looked at twice",
        "count_up('acked', settled)",
        "count_up('acked', settled + looked)",
        f"{T}.test_an_ack_by_bare_id",
    ),
    Mutant(
        "ack",
        "counts what was acked before",
        "'acked', reply[1])",
        "'acked', reply[1] + 1)",
        TAKEN,
        {"wanted": 1},
    ),
    Mutant(
        "pop",
        "acks with a take are not counted",
        "counters, 'acked', acked)",
        "counters, 'acked', 0 * acked)",
        f"{T}.test_a_queue_with_nothing_else_counts_too",
    ),
    Mutant(
        "pop",
        "redeliveries are counted twice",
        "count_up('returned', returned)",
        "count_up('returned', 2 * returned)",
        LEASE_ENDED,
    ),
    Mutant(
        "pop",
        "a lease that ended with a death is not counted",
        "        count_up('ended', 1)\n",
        "",
        LEASE_ENDED,
    ),
    Mutant(
        "pop",
        "its dead letters are not counted",
        "count_up('dead:' .. reason, 1)",
        "",
        f"{T}.test_a_message_that_is_too_large_was_never_taken",
    ),
    Mutant("redrive", "does not count", "count_up('redriven', redriven)", "", REDRIVEN),
    Mutant(
        "cancel",
        "does not count",
        "count_up('dead:canceled', canceled)",
        "",
        f"{T}.test_canceled_messages_were_never_taken_and_run_now_counts_nothing",
    ),
    Mutant(
        "cancel",
        "counts what it looked at",
        "count_up('dead:canceled', canceled)",
        "count_up('dead:canceled', looked)",
        f"{T}.test_canceled_messages_were_never_taken_and_run_now_counts_nothing",
    ),
    Mutant(
        "drop",
        "counts what was not there",
        "count_up('dropped:dead', deleted)",
        "count_up('dropped:dead', deleted + 1)",
        REDRIVEN,
    ),
    Mutant(
        "drop",
        "any number of entries",
        "#ARGV > 50",
        "false",
        "test_arguments.test_an_argument_out_of_range_is_refused_before_anything_is_changed",
        {"calls": {"51 entries": Call("drop", ("1-1",) * 51)}},
    ),
    Mutant("purge", "does not count", "count_up('dropped', deleted)", "", PURGED),
    Mutant("purge", "deliveries go on for ever", "count_up('ended', leased)", "", PURGED),
    Mutant(
        "purge",
        "resets the counts",
        "redis.call('UNLINK', ready, backup,",
        "redis.call('UNLINK', counters, ready, backup,",
        PURGED,
    ),
    Mutant("drain", "deliveries go on for ever", "count_up('ended', ended)", "", DRAINED),
    Mutant("audit_scan", "does not count", "  count_up('dead:body missing', 1)\n", "", AUDITED),
    Mutant(
        "audit_scan",
        "counts delayed messages as taken",
        "count_up('ended', zset == backup and 1 or 0)",
        "count_up('ended', 1)",
        AUDITED,
    ),
    Mutant(
        "held/drop",
        "does not count",
        "count_up('dropped', deleted)",
        "",
        f"{T}.test_a_dropped_claim_ends_its_deliveries",
    ),
    Mutant(
        "held/drop",
        "deliveries go on for ever",
        "count_up('ended', is_claim(list) and deleted or 0)",
        "",
        f"{T}.test_a_dropped_claim_ends_its_deliveries",
    ),
    Mutant(
        "held/give_back",
        "deliveries go on for ever",
        "count_up('ended', is_claim(list) and moved or 0)",
        "",
        f"{T}.test_claims",
    ),
    Mutant(
        "pipeline/reject",
        "counts rows that were dead before",
        "  if redis.call('HSETNX', rejected, 'row:' .. ARGV[at], '') == 1 then\n",
        "  counts['check: age'] = (counts['check: age'] or 0) + 1\n"
        "  if redis.call('HSETNX', rejected, 'row:' .. ARGV[at], '') == 1 then\n",
        ROWS,
    ),
    Mutant(
        "pipeline/reject",
        "rows are counted as messages that died",
        "'rows:' .. reason",
        "'dead:' .. reason",
        ROWS,
    ),
    Mutant(
        "pipeline/reject",
        "any number of reasons",
        "redis.call('HLEN', counters) >= COUNTED",
        "false",
        f"{T}.test_reasons_of_rows_beyond_a_hundred_fields_are_counted_together",
    ),
    Mutant(
        "watch",
        "claimed messages are not in flight",
        "live + rows_held, in_flight + rows_held",
        "live + rows_held, in_flight",
        f"{T}.test_claims",
    ),
    Mutant(
        "watch",
        "staged messages are in flight",
        "(is_claim(due[i]) and 0 or rows)",
        "0",
        "test_held.test_staged_messages_are_not_in_flight",
    ),
    Mutant(
        "watch",
        "claims that are being returned are not in flight",
        "(is_claim(due[i]) and 0 or rows)",
        "rows",
        "test_held.test_staged_messages_are_not_in_flight",
    ),
    Mutant(
        "watch",
        "a shorter window shortens",
        "redis.call('PTTL', counters) < window",
        "true",
        "test_held.test_watching_begins_goes_on_and_ends_by_itself",
    ),
)
