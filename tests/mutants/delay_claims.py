"""The planted mistakes in the claims on delay queues."""

from __future__ import annotations

from typing import Any

from tests.mutants.catalogue import Mutant

C = "tests.delay.test_claim_scripts"
LEASED = f"{C}.test_ready_messages_are_leased_where_they_are_in_their_order"
STEPS = f"{C}.test_a_claim_is_made_in_steps_that_may_be_resent"
ONCE = f"{C}.test_a_batch_is_used_once"
COUNTS = f"{C}.test_counts_go_on"
BODIES = f"{C}.test_a_message_without_a_body_becomes_a_dead_letter"
RENEWED = f"{C}.test_leases_are_renewed_in_steps"
PART_ACKED = f"{C}.test_a_claim_renewed_in_part_is_acked"
PART_RETURNED = f"{C}.test_a_claim_renewed_in_part_is_returned"
STAY = f"{C}.test_messages_that_left_are_not_renewed_and_do_not_come_back"
DELETED = f"{C}.test_an_ack_deletes_all_that_belongs_to_the_messages"
RETURNED = f"{C}.test_a_returned_message_is_ready_since_its_former_time"
RETURNING = f"{C}.test_a_claim_that_is_being_returned_is_neither_acked_nor_renewed_nor_read"
FORGOTTEN = f"{C}.test_a_claim_whose_list_is_gone_is_forgotten"
ANY_LEASE = "  return lease and ready_at and tonumber(lease) == lease_of(index)\n"
ANY_TIME = "\n    and math.floor(ready_at * 1000000 + 0.5) == lease_of(index)"
FENCE = "if tonumber(facts[1] or 0) ~= epoch then"


FROM_END = "redis.call('LRANGE', claim, first, rows - 1)"
FROM_FRONT = "redis.call('LRANGE', claim, 0, rows - first - 1)"


def mutant(name: str, mistake: str, old: str, new: str, test: str, **given: Any) -> Mutant:
    return Mutant(f"delay/{name}", mistake, old, new, test, given)


MUTANTS = (
    *(
        mutant(
            script,
            "a replaced driver goes on",
            FENCE,
            "if false then",
            f"{C}.test_a_replaced_driver_changes_nothing",
            script=script,
        )
        for script in ("claim", "claim_beat", "claim_ack")
    ),
    mutant(
        "claim",
        "early",
        "z, '-inf', score_of(now), 'WITHSCORES'",
        "z, '-inf', score_of(now + 1), 'WITHSCORES'",
        LEASED,
    ),
    mutant(
        "claim",
        "other consumers see the messages",
        "score_of(deadline), key\n  ",
        "listed[2 * i], key\n  ",
        LEASED,
    ),
    mutant(
        "claim",
        "all leases end at once",
        "(index < renewed and base or before) + index",
        "index < renewed and base or before",
        LEASED,
    ),
    mutant(
        "claim",
        "the list lives as long as the leases",
        "math.ceil((base - now) / 1000) + KEPT",
        "math.ceil((base - now) / 1000)",
        LEASED,
    ),
    Mutant(
        "delay/claim",
        "a list of another batch grows",
        "  if batch <= last or batch <= acked or rows > 0 then",
        "  if batch <= last or batch <= acked then",
        LEASED,
        error=True,
    ),
    mutant(
        "claim",
        "an acked batch is used again",
        "  if batch <= last or batch <= acked or rows > 0 then",
        "  if batch <= last or rows > 0 then",
        ONCE,
    ),
    mutant(
        "claim",
        "a batch is used twice",
        "  if batch <= last or batch <= acked or rows > 0 then",
        "  if batch <= acked or rows > 0 then",
        ONCE,
    ),
    mutant(
        "claim",
        "more messages than are wanted",
        "math.min(CHUNK, messages - rows)",
        "CHUNK",
        f"{C}.test_a_claim_has_no_more_messages_than_are_wanted",
    ),
    mutant(
        "claim",
        "forgets the bytes of the call before",
        "rows > 0 and tonumber(facts[5] or 0) or 0",
        "0",
        f"{C}.test_a_claim_ends_with_the_message_that_fills_its_size",
    ),
    mutant(
        "claim",
        "a resent call adds to a complete claim",
        "  if batch == last and rows > 0 and score > 0 then",
        "  if false then",
        STEPS,
    ),
    mutant("claim", "the next step starts over", "if rows == 0 then", "if true then", STEPS),
    mutant(
        "claim",
        "adds leases that end soon",
        "elseif before - now < timeout / 2 then",
        "elseif false then",
        f"{C}.test_a_claim_that_took_too_long_is_closed",
    ),
    mutant(
        "claim",
        "takes what is leased",
        "  elseif until_ and until_ > now then",
        "  elseif false then",
        f"{C}.test_running_leases_are_respected",
    ),
    mutant(
        "claim",
        "takes a lease's message when it ends",
        "score_of(until_ + 1)",
        "score_of(until_)",
        f"{C}.test_running_leases_are_respected",
    ),
    mutant(
        "claim",
        "ended leases do not count",
        "(until_ and 1 or 0))\n  local deadline",
        "0)\n  local deadline",
        COUNTS,
    ),
    mutant(
        "claim", "counts stay as they were", "    if count > 1 then", "    if false then", COUNTS
    ),
    mutant(
        "claim",
        "an extension stays",
        "    if has_extended then\n      redis.call",
        "    if false then\n      redis.call",
        COUNTS,
    ),
    mutant(
        "claim", "redeliveries are not counted", "count_up(1, 'returned', returned)", "", COUNTS
    ),
    mutant(
        "claim",
        "a message without a body is claimed",
        "redis.call('HEXISTS', h, key) == 0",
        "false",
        BODIES,
    ),
    mutant(
        "claim",
        "an empty body is none",
        "redis.call('HEXISTS', h, key) == 0",
        "redis.call('HSTRLEN', h, key) == 0",
        BODIES,
    ),
    mutant(
        "claim",
        "any number of dead letters",
        "dead_lettered >= DEAD_LETTER_BUDGET",
        "false",
        BODIES,
    ),
    mutant(
        "claim",
        "two leases with one receipt",
        "has_extended and is_receipt(key, lease)",
        "false",
        f"{C}.test_no_lease_equals_a_receipt_that_is_recorded",
        place=1,
    ),
    mutant(
        "claim",
        "gives up at a receipt",
        "room, cut = 0, rows + taken == 0",
        "room, cut = 0, false",
        f"{C}.test_no_lease_equals_a_receipt_that_is_recorded",
        place=0,
    ),
    mutant(
        "claim_beat",
        "renews long leases",
        "before - now >= timeout * 2 / 3",
        "false",
        f"{C}.test_long_leases_are_not_renewed",
    ),
    mutant(
        "claim_beat",
        "every step has a base of its own",
        "if renewed == 0 then\n",
        "base = now + timeout\nif renewed == 0 then\n",
        RENEWED,
    ),
    mutant(
        "claim_beat",
        "forgets how far it came",
        "before, renewed))\nreturn {'ok', #ready / 2",
        "before, 0))\nreturn {'ok', #ready / 2",
        RENEWED,
    ),
    mutant(
        "claim_beat",
        "leaves one out",
        "renewed = renewed + #keys\n",
        "renewed = renewed + #keys + 1\n",
        RENEWED,
    ),
    mutant(
        "claim_beat",
        "the next renewal takes the first ends for the last",
        "  before, renewed = base, 0",
        "  renewed = 0",
        RENEWED,
    ),
    mutant(
        "claim_beat",
        "the list expires as if nobody renewed the leases",
        "redis.call('PEXPIRE', claim, string.format('%.0f', expiry))",
        "",
        RENEWED,
    ),
    mutant(
        "claim_beat",
        "others see the messages before the lease ends",
        "  redis.call('ZADD', z, 'XX', unpack(ready))\n",
        "",
        RENEWED,
    ),
    mutant("claim_beat", "renews what left", ANY_LEASE, "  return lease and ready_at\n", STAY),
    mutant("claim_beat", "renews what was pushed again", ANY_TIME, "", STAY),
    mutant(
        "claim_beat", "takes back what left", "    redis.call('LSET', claim, index, '')\n", "", STAY
    ),
    mutant(
        "claim_beat",
        "renews what is being returned",
        "score == 0 or not base",
        "not base",
        RETURNING,
    ),
    mutant(
        "claim_ack",
        "deletes what left",
        ANY_LEASE,
        "  return lease and ready_at\n",
        f"{C}.test_messages_that_left_are_not_deleted",
    ),
    mutant(
        "claim_ack",
        "deletes what was pushed again",
        ANY_TIME,
        "",
        f"{C}.test_messages_that_left_are_not_deleted",
    ),
    mutant("claim_ack", "a step deletes from the front", FROM_END, FROM_FRONT, PART_ACKED),
    mutant(
        "claim_ack",
        "one stays",
        "redis.call('LTRIM', claim, 0, left - 1)",
        "redis.call('LTRIM', claim, 0, left)",
        PART_ACKED,
    ),
    mutant(
        "claim_ack",
        "any number of bytes",
        "  if freed >= FREED then",
        "  if false then",
        f"{C}.test_one_call_deletes_a_bounded_number_of_bytes",
    ),
    mutant("claim_ack", "the bodies stay", "  redis.call('HDEL', h, unpack(done))\n", "", DELETED),
    mutant(
        "claim_ack", "the leases stay", "  redis.call('ZREM', leases, unpack(done))\n", "", DELETED
    ),
    mutant(
        "claim_ack",
        "the counts stay",
        "    redis.call('HDEL', receives, unpack(done))\n",
        "",
        DELETED,
    ),
    mutant(
        "claim_ack", "the notes stay", "    redis.call('HDEL', errors, unpack(done))\n", "", DELETED
    ),
    mutant(
        "claim_ack", "the record stays", "  redis.call('HDEL', group, leased_until)\n", "", DELETED
    ),
    mutant("claim_ack", "does not count", "count_up(1, 'acked', #done)", "", DELETED),
    mutant(
        "claim_ack",
        "the batch is open",
        "if up_to > tonumber(facts[2] or 0) then",
        "if false then",
        DELETED,
    ),
    mutant(
        "claim_ack", "acks what is being returned", "if score == 0 then", "if false then", RETURNING
    ),
    mutant(
        "claim_ack",
        "a claim without a list stays",
        "  redis.call('ZREM', claims, claim)\n",
        "",
        FORGOTTEN,
    ),
    mutant(
        "claim_return",
        "returns a running claim",
        "if tonumber(redis.call('ZSCORE', claims, claim) or 1) ~= 0 then",
        "if false then",
        f"{C}.test_only_a_released_claim_is_returned",
    ),
    mutant(
        "claim_return",
        "returns what left",
        ANY_LEASE,
        "  return lease and ready_at\n",
        f"{C}.test_messages_that_left_are_not_returned",
    ),
    mutant(
        "claim_return",
        "returns what was pushed again",
        ANY_TIME,
        "",
        f"{C}.test_messages_that_left_are_not_returned",
    ),
    mutant("claim_return", "a step returns from the front", FROM_END, FROM_FRONT, PART_RETURNED),
    mutant(
        "claim_return",
        "the delivery counts",
        "local count = tonumber(counts[i] or 1) - 1",
        "local count = tonumber(counts[i] or 1)",
        RETURNED,
    ),
    mutant(
        "claim_return", "the lease stays", "    redis.call('ZREM', leases, key)\n", "", RETURNED
    ),
    mutant(
        "claim_return", "they lose their order", "'XX', times[i], key)", "'XX', '5', key)", RETURNED
    ),
    mutant("claim_return", "nobody wakes", "  redis.call('LPUSH', wake, '1')\n", "", RETURNED),
    mutant(
        "claim_return",
        "the note of a message without a count stays",
        "      redis.call('HDEL', errors, key)\n",
        "",
        RETURNED,
    ),
    mutant("claim_return", "does not count", "count_up(1, 'released', returned)", "", COUNTS),
    mutant(
        "claim_read",
        "reads what left",
        ANY_LEASE,
        "  return lease and ready_at\n",
        f"{C}.test_messages_that_left_are_not_read",
    ),
    mutant(
        "claim_read",
        "reads what was pushed again",
        ANY_TIME,
        "",
        f"{C}.test_messages_that_left_are_not_read",
    ),
    mutant(
        "claim_read",
        "any number of bytes",
        "  if bytes >= BODY_BUDGET then",
        "  if false then",
        f"{C}.test_one_call_reads_a_bounded_number_of_bytes",
    ),
    mutant(
        "claim_read",
        "reads what is being returned",
        "if not base or tonumber(redis.call('ZSCORE', claims, claim) or 0) == 0 then",
        "if not base then",
        RETURNING,
    ),
)
