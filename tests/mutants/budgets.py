"""The planted mistakes in the budgets of scripts beside the list queue's."""

from __future__ import annotations

from tests.mutants.catalogue import Mutant

READ_AT_ONCE = "reads many bodies before it weighs one"
NO_BYTES = "any number of bytes in one call"
NO_COUNT = "any number of messages in one call"
#: Where audit_scan reads all keys of CONTEXT at once.
SMALL = (
    "elseif walked == 'context' and cursor == '0' and redis.call('HLEN', context) <= WHOLE then\n"
)
DELETES_ANY = "any number of bytes is deleted in one call"
REFUSED_EARLY = "messages left for the next call are reported as refused"

NOTED = "test_budgets.test_the_notes_of_rsmq_keep_to_their_messages_and_to_five"
CHOSEN = "test_budgets.test_chosen_dead_letters_of_other_queues_are_redriven_a_mebibyte_a_call"
NACKED_NOTES = "test_nack.test_one_call_returns_the_messages_of_a_quarter_of_a_mebibyte_of_notes"
BURIED_NOTES = "test_pop.test_one_call_buries_the_messages_of_a_quarter_of_a_mebibyte_of_notes"
SETTLED_NOTES = (
    "test_budgets.test_a_delay_queue_settles_the_messages_of_a_quarter_of_a_mebibyte_of_notes"
)

MUTANTS = (
    Mutant(
        "delay/nack",
        "reads the body of what stays",
        "    if body and (dies or failure) then",
        "    if body then",
        "test_budgets.test_a_nack_of_a_delay_queue_reads_no_body",
    ),
    Mutant(
        "delay/nack",
        NO_BYTES,
        "      bytes = bytes + #body\n",
        "",
        "test_budgets.test_a_nack_of_a_delay_queue_buries_a_mebibyte",
    ),
    Mutant(
        "delay/nack",
        NO_COUNT,
        "local MOST = 100",
        "local MOST = 1000",
        "test_budgets.test_one_call_gives_a_hundred_back_to_a_delay_queue",
    ),
    Mutant(
        "delay/reject",
        NO_BYTES,
        "bytes + #body + 4 * #note",
        "bytes + 4 * #note",
        "test_budgets.test_a_reject_of_a_delay_queue_moves_a_mebibyte",
    ),
    Mutant(
        "delay/reject",
        NO_COUNT,
        "local MOST = 100",
        "local MOST = 1000",
        "test_budgets.test_one_call_rejects_a_hundred_of_a_delay_queue",
    ),
    Mutant(
        "delay/reject",
        REFUSED_EARLY,
        "    while #reply > 1 and math.abs(reply[#reply]) >= each[3] do",
        "    while false do",
        "test_budgets.test_a_reject_of_a_delay_queue_moves_a_mebibyte",
    ),
    Mutant(
        "delay/take",
        NO_COUNT,
        "    if swept < SWEPT then",
        "    if true then",
        "test_budgets.test_a_take_forgets_so_many_leases_whatever_the_partitions",
    ),
    Mutant(
        "delay/take",
        "some partitions never have their turn",
        "sweep(3 + (clock[2] + i) % partitions * STRIDE)",
        "sweep(3)",
        "test_budgets.test_a_take_forgets_so_many_leases_whatever_the_partitions",
    ),
    Mutant(
        "delay/take",
        READ_AT_ONCE,
        "redis.call('HGET', KEYS[first + 1], key)\n",
        "redis.call('HMGET', KEYS[first + 1], unpack(keys))[i]\n",
        "test_budgets.test_a_take_from_a_delay_queue_reads_one_by_one",
    ),
    Mutant(
        "delay/peek",
        NO_BYTES,
        " or bytes >= BODY_BUDGET\n",
        "\n",
        "test_budgets.test_a_look_at_a_delay_queue_reads_one_by_one",
    ),
    Mutant(
        "delay/redrive",
        READ_AT_ONCE,
        "'+', 'COUNT', 1)[1]",
        "'+', 'COUNT', 5)[1]",
        "test_budgets.test_a_delay_queue_redrives_a_mebibyte",
    ),
    Mutant(
        "delay/redrive",
        "any number of bytes of chosen dead letters",
        "    if looked >= MOST or bytes >= BODY_BUDGET then",
        "    if looked >= MOST then",
        CHOSEN,
    ),
    Mutant(
        "delay/redrive",
        "any number of chosen dead letters",
        "    if looked >= MOST or bytes >= BODY_BUDGET then",
        "    if bytes >= BODY_BUDGET then",
        "test_budgets.test_one_call_looks_at_a_hundred_chosen_dead_letters_of_a_delay_queue",
    ),
    Mutant(
        "delay/redrive",
        "the oldest instead of the chosen",
        "redis.call('XRANGE', dead, ARGV[i], ARGV[i])[1]",
        "redis.call('XRANGE', dead, '-', '+', 'COUNT', 1)[1]",
        CHOSEN,
    ),
    Mutant(
        "rsmq/redrive",
        "the oldest instead of the chosen",
        "    first, last = ARGV[looked + 2], ARGV[looked + 2]\n",
        "",
        CHOSEN,
    ),
    Mutant(
        "topic/consume",
        NO_BYTES,
        "bytes < BODY_BUDGET and redis.call('GET',",
        "redis.call('GET',",
        "test_budgets.test_a_topic_is_read_one_by_one",
    ),
    Mutant(
        "rsmq/receive",
        "reads the body of what it sets aside",
        "  local values = #id == 32",
        "  local values = redis.call('HGET', hash, id) and #id == 32",
        "test_budgets.test_rsmq_sets_strange_ids_aside_unread",
    ),
    Mutant(
        "rsmq/receive",
        NO_COUNT,
        "    full = dead_lettered >= DEAD_LETTER_BUDGET\n",
        "",
        "test_budgets.test_rsmq_buries_a_hundred",
    ),
    Mutant(
        "rsmq/receive",
        NO_BYTES,
        "  full = full or bytes >= BODY_BUDGET\n",
        "",
        "test_budgets.test_rsmq_receives_one_by_one",
    ),
    Mutant("rsmq/visibility", "any number of failures", "#found > FAILURES", "false", NOTED),
    Mutant(
        "rsmq/visibility",
        "notes a receive twice",
        "if before ~= attempt then",
        "if true then",
        NOTED,
    ),
    Mutant(
        "rsmq/receive",
        "removes notes of messages that are there",
        "    if not redis.call('ZSCORE', zset, id) then\n",
        "    if true then\n",
        NOTED,
    ),
    Mutant("rsmq/receive", "notes of deleted messages stay", "    forget_notes()\n", "", NOTED),
    Mutant(
        "rsmq/receive",
        "a timeout after each error",
        "  if last ~= received then",
        "  if true then",
        NOTED,
    ),
    Mutant(
        "rsmq/receive",
        "the note of a dead letter stays",
        "    redis.call('HDEL', errors, unpack(gone))\n",
        "",
        NOTED,
    ),
    Mutant(
        "rsmq/receive",
        "any number of bytes of notes",
        "  bytes = bytes + 4 * #note --",
        "  --",
        "test_budgets.test_rsmq_buries_the_messages_of_a_quarter_of_a_mebibyte_of_notes",
    ),
    Mutant(
        "rsmq/redrive",
        READ_AT_ONCE,
        "first, last, 'COUNT', 1)[1]",
        "first, last, 'COUNT', wanted)[1]",
        "test_budgets.test_rsmq_redrives_a_mebibyte",
    ),
    Mutant(
        "rsmq/redrive",
        NO_BYTES,
        "#ARGV - 1 or wanted) and bytes < BODY_BUDGET",
        "#ARGV - 1 or wanted)",
        "test_budgets.test_rsmq_redrives_a_mebibyte",
    ),
    Mutant(
        "staging/delay",
        "a stored body of any length is read for comparison",
        "  return redis.call('HSTRLEN', KEYS[row.first + 1], row.key) ~= #row.body\n    or ",
        "  return ",
        "test_budgets.test_a_stored_body_of_another_length_is_not_read_for_comparison",
    ),
    Mutant(
        "audit_scan",
        "bodies are read by the hundred",
        f"'COUNT', 100, 'NOVALUES'), 1\n{SMALL}"
        "  page, stride = {'0', redis.call('HKEYS', context)}, 1\nelse\n"
        "  page, stride = redis.call(walk[1], walk[2], cursor, 'COUNT', walk[3]), 2",
        "'COUNT', 100), 2\nelse\n"
        "  page, stride = redis.call(walk[1], walk[2], cursor, 'COUNT', 100), 2",
        "test_audit.test_a_walk_over_the_bodies_reads_few_of_them",
    ),
    Mutant(
        "audit_scan",
        "the bodies of a small queue are read",
        f"'COUNT', 100, 'NOVALUES'), 1\n{SMALL}",
        "'COUNT', 100), 2\nelseif false then\n",
        "test_audit.test_a_walk_over_the_bodies_of_a_small_queue_reads_none_of_them",
    ),
    Mutant(
        "audit_scan",
        "all keys of a large queue are read at once",
        f"'COUNT', 100, 'NOVALUES'), 1\n{SMALL}",
        "'COUNT', 9999, 'NOVALUES'), 1\nelseif walked == 'context' then\n",
        "test_audit.test_a_walk_over_a_large_queue_finds_what_a_small_one_does",
    ),
    Mutant(
        "delay/cancel",
        DELETES_ANY,
        "    freed = freed + redis.call('HSTRLEN', KEYS[first + 1], key)\n",
        "",
        "test_budgets.test_one_call_cancels_eight_mebibytes",
    ),
    Mutant(
        "rsmq/delete",
        DELETES_ANY,
        "  freed = freed + redis.call('HSTRLEN', hash, id)\n",
        "",
        "test_budgets.test_rsmq_deletes_eight_mebibytes",
    ),
    Mutant(
        "topic/trim",
        DELETES_ANY,
        "stop < last and freed < FREED",
        "stop < last",
        "test_budgets.test_a_topic_is_trimmed_by_eight_mebibytes",
    ),
    Mutant(
        "topic/publish",
        DELETES_ANY,
        "stop < last and freed < FREED",
        "stop < last",
        "test_budgets.test_a_publish_trims_eight_mebibytes",
    ),
    Mutant(
        "nack",
        "notes cost nothing",
        "  bytes = bytes + 4 * #(note or '') --",
        "  --",
        NACKED_NOTES,
        {"dies": True},
    ),
    Mutant(
        "nack",
        "the notes of messages that return cost nothing",
        "#(note or '') --",
        "#(dies and note or '') --",
        NACKED_NOTES,
        {"dies": False},
    ),
    Mutant(
        "nack",
        "every note is read",
        "local note = body and (failure or dies) and has_errors and",
        "local note = body and has_errors and",
        "test_nack.test_notes_that_are_not_read_cost_nothing",
        error=True,
    ),
    Mutant(
        "pop",
        "notes cost nothing",
        "      bytes = bytes + 4 * #(note or '') --",
        "      --",
        BURIED_NOTES,
        {"place": "BACKUP"},
    ),
    Mutant(
        "pop",
        "a note costs as little as a body",
        "4 * #(note or '')",
        "#(note or '')",
        BURIED_NOTES,
        {"place": "DELAYED"},
    ),
    Mutant(
        "pop",
        "long ids cost nothing",
        "decoded = decoded + (#id - LONG_ID) / 2",
        "decoded = decoded + 0",
        "test_pop.test_one_call_takes_so_many_long_ids",
    ),
    Mutant(
        "pop",
        "what makes CONTEXT a hash table stays in it",
        "      redis.call('HDEL', context, LONG_KEY)\n",
        "",
        "test_pop.test_derived_keys_leave_nothing_else_in_the_queue",
        {"count": 20},
    ),
    Mutant(
        "redrive",
        "errors cost nothing",
        "bytes = bytes + #entry[2][i + 1]",
        "bytes = bytes + (entry[2][i] == 'body' and #entry[2][i + 1] or 0)",
        "test_redrive.test_one_call_redrives_a_mebibyte_of_errors",
        {"named": True},
    ),
    Mutant(
        "delay/redrive",
        "errors cost nothing",
        "bytes = bytes + #entry[2][i + 1]",
        "bytes = bytes + (entry[2][i] == 'body' and #entry[2][i + 1] or 0)",
        "test_budgets.test_a_delay_queue_redrives_a_mebibyte_of_errors",
    ),
    Mutant(
        "delay/nack",
        "notes cost nothing",
        "    bytes = bytes + 4 * #(note or '')\n",
        "",
        SETTLED_NOTES,
    ),
    Mutant(
        "delay/nack",
        "the notes of messages that return cost nothing",
        "#(note or '')",
        "#(dies and note or '')",
        SETTLED_NOTES,
    ),
    Mutant("delay/reject", "notes cost nothing", "#body + 4 * #note", "#body", SETTLED_NOTES),
    Mutant(
        "delay/take",
        "notes cost nothing",
        "        bytes = bytes + 4 * #note --",
        "        --",
        "test_budgets.test_a_take_from_a_delay_queue_buries_the_messages_of_a_quarter_of_a_mebibyte"
        "_of_notes",
    ),
)
