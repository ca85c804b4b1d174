"""The planted mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.queue.scripts.calls import CALLS, Call
from tests.queue.scripts.headers import Slot
from tests.queue.scripts.space import MIB, SECOND

EXTENDED = Slot(6, "{name}EXTENDED", "HASH")
DELAYED = Slot(2, "{name}DELAYED", "ZSET")
SCHEDULE = Call("schedule", ("delay", SECOND, "new", b"body"))


@dataclass(frozen=True)
class Mutant:
    """One mistake in one script: what it does, and the test that must fail for it."""

    script: str
    mistake: str
    old: str
    new: str
    test: str  #: module and name in tests/queue/scripts, or the full name
    given: Mapping[str, Any] = field(default_factory=dict)  #: values of its parameters
    error: bool = False  #: the mistake shows as an error of the script

    def plant(self, directory: Path) -> None:
        """Make the mistake in a copy of the scripts."""
        path = directory / f"{self.script}.lua"
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self}: the old text must occur once"
        path.unlink()  # a link to the script itself
        path.write_text(text.replace(self.old, self.new))

    def __str__(self) -> str:
        return f"{self.script}: {self.mistake}"


NO_FENCE = (
    "  return tonumber(score) == tonumber(receipt) or (has_extended",
    "  return true or (has_extended",
)
NO_NOTE = (
    "    and redis.call('HGET', extended, key) == receipt .. ':' .. string.format('%.0f', score))",
    "    and false)",
)
ANY_NOTE = (
    NO_NOTE[0],
    "    and string.match(redis.call('HGET', extended, key) or '', '^%d+') == receipt)",
)
ANY_KEYS = (
    "as many keys as the batch had are taken for the batch",
    "    if not named[keys[i]] then\n      return\n    end\n",
    "",
)
ANY_SIZE = (
    "a part of a batch is taken for the batch",
    "    or redis.call('ZCOUNT', backup, receipt, receipt) ~= size then\n",
    "    then\n",
)
CLOCK = "local clock = redis.call('TIME')\n"
FREES_NOTHING = "redis.call('ZREMRANGEBYRANK', backup, 1, 0)\n"
RANGE_CHECK = "return not (number and number >= low and number <= high and number % 1 == 0)"
COME_BACK = (
    "redis.call('ZCOUNT', backup, '-inf', now_text) > 0\n"
    "  and redis.call('ZRANGEBYSCORE', backup, '-inf', now_text,"
)
INHERITS = "test_pop.test_a_message_inherits_nothing_from_one_that_the_articles_scripts_settled"
MARKED_COUNT = "test_audit.test_a_count_of_a_message_on_a_list_stays_and_any_other_goes"
BODY_ONLY = {"raw": b'{"id":"a","x":[],"y":{},"n":12345678901234567890,"f":1.10,"u":"\\u00e9\\/"}'}

POP = (
    Mutant(
        "pop",
        "RPOP, then a decode that raises",
        "    local used = take(bodies)\n",
        "    cjson.decode(bodies[1])\n    local used = take(bodies)\n",
        "test_pop.test_a_body_without_a_usable_id_gets_a_derived_key",
        {"raw": b""},
        error=True,
    ),
    Mutant(
        "pop",
        "puts aside what has no id",
        "    if #body > max_body then",
        "    if #body > max_body or not natural_key(body) then",
        "test_pop.test_a_body_without_a_usable_id_gets_a_derived_key",
        {"raw": b"{}"},
    ),
    Mutant(
        "pop",
        "takes leases that still run",
        COME_BACK,
        COME_BACK.replace("now_text", "'+inf'"),
        "test_pop.test_a_lease_that_runs_is_not_taken",
    ),
    Mutant(
        "pop",
        "a lease ends a microsecond after its deadline",
        COME_BACK,
        COME_BACK.replace("now_text", "'(' .. now_text"),
        "test_pop.test_a_lease_is_over_at_its_deadline_and_not_a_microsecond_before",
    ),
    Mutant(
        "pop",
        "a lease ends a microsecond before its deadline",
        COME_BACK,
        COME_BACK.replace("now_text", "string.format('%.0f', now + 1)"),
        "test_pop.test_a_lease_is_over_at_its_deadline_and_not_a_microsecond_before",
    ),
    Mutant(
        "pop",
        "the client's time",
        CLOCK,
        "local clock = {ARGV[2], ARGV[3]}\n",
        "test_pop.test_a_lease_ends_at_the_servers_time_plus_timeout_and_jitter",
    ),
    Mutant(
        "pop",
        "a deadline without jitter",
        "local deadline = now + timeout + jitter",
        "local deadline = now + timeout",
        "test_pop.test_a_deadline_is_exact_to_the_microsecond",
    ),
    Mutant(
        "pop",
        "a deadline of fourteen digits",
        "local lease = string.format('%.0f', deadline)",
        "local lease = tostring(deadline)",
        "test_pop.test_a_deadline_is_exact_to_the_microsecond",
    ),
    Mutant(
        "pop",
        "a second message with an id in flight overwrites the first",
        "crowded and redis.call('HEXISTS', context, key) == 1",
        "false",
        "test_pop.test_a_duplicate_id_in_flight_gets_a_derived_key_and_both_bodies_survive",
    ),
    Mutant(
        "pop",
        "only a running lease protects a body",
        "redis.call('HEXISTS', context, key) == 1",
        "redis.call('ZSCORE', backup, key)",
        "test_pop.test_the_id_of_a_delayed_message_is_not_free",
    ),
    Mutant(
        "pop",
        "of two messages with one id in a batch the second overwrites the first",
        " and not claimed[key]\n",
        "\n",
        "test_pop.test_duplicate_ids_in_one_batch_get_keys_of_their_own",
    ),
    Mutant(
        "pop",
        "what was read first of a batch is not recorded",
        "unpack(reply, before + 1))",
        "unpack(reply, before + 3))",
        "test_pop.test_a_thousand_messages_are_taken_in_one_call",
    ),
    Mutant(
        "pop",
        "a derived key overwrites one that exists",
        "  until redis.call('HSETNX', context, key, body) == 1",
        "  until redis.call('HSET', context, key, body)",
        "test_pop.test_a_derived_key_never_collides_with_one_that_exists",
    ),
    Mutant(
        "pop",
        "ids may look like derived keys",
        " and string.byte(id) ~= 0 then",
        " then",
        "test_pop.test_a_body_without_a_usable_id_gets_a_derived_key",
        {"raw": b'{"id":"\\u0000a"}'},
    ),
    Mutant(
        "pop",
        "2**53 is an id, as is 2**53 + 1",
        "math.abs(id) < 9007199254740992",
        "math.abs(id) <= 9007199254740992",
        "test_pop.test_a_body_without_a_usable_id_gets_a_derived_key",
        {"raw": b'{"id":9007199254740992}'},
    ),
    Mutant(
        "pop",
        "large ids lose their last digits",
        "string.format('%.0f', id + 0)",
        "tostring(id)",
        "test_pop.test_the_key_is_the_id",
        {"raw": b'{"id":9007199254740991}', "key": b"9007199254740991"},
    ),
    Mutant(
        "pop",
        "a body is encoded again",
        "  reply[at + 5], reply[at + 6] = key, body\n",
        "  reply[at + 5], reply[at + 6] = key, cjson.encode(cjson.decode(body))\n",
        "test_pop.test_a_body_is_returned_byte_for_byte",
        BODY_ONLY,
    ),
    Mutant(
        "pop",
        "a side key that expires",
        "    redis.call('ZADD', backup, lease, id)\n",
        "    redis.call('ZADD', backup, lease, id)\n    redis.call('EXPIRE', context, 86400)\n",
        "test_pop.test_a_message_leaves_the_list_and_gains_a_lease_and_nothing_else",
    ),
    Mutant(
        "pop",
        "a key that is not declared",
        "redis.call('EXISTS', paused) == 1",
        "redis.call('EXISTS', ready .. 'PAUSED') == 1",
        "test_headers.test_a_script_builds_no_name_of_a_key",
        {"script": "pop"},
    ),
    Mutant(
        "pop",
        "one message too many stays on the list",
        "-used - 1)",
        "-used)",
        "test_pop.test_messages_are_taken_in_the_order_of_their_push",
    ),
    Mutant(
        "pop",
        "one message too many leaves the list",
        "-used - 1)",
        "-used - 2)",
        "test_pop.test_messages_are_taken_in_the_order_of_their_push",
    ),
    Mutant(
        "pop",
        "the first slice is read again and again",
        "from_left and count or -count - some",
        "from_left and count or -some",
        "test_pop.test_messages_are_taken_in_the_order_of_their_push",
    ),
    Mutant(
        "pop",
        "a slice is taken from its wrong end",
        "part[from_left and i or #part + 1 - i]",
        "part[from_left and #part + 1 - i or i]",
        "test_pop.test_messages_are_taken_in_the_order_of_their_push",
    ),
    Mutant(
        "pop",
        "the hand-off list is forgotten",
        "  take_ready(handoff)\n",
        "",
        "test_pop.test_the_handed_over_are_taken_before_the_listed",
    ),
    Mutant(
        "pop",
        "the hand-off list comes last",
        "if has_handoff then\n  take_ready(handoff)\nend\ntake_ready(ready, record)\n",
        "take_ready(ready, record)\nif has_handoff then\n  take_ready(handoff)\nend\n",
        "test_pop.test_the_handed_over_are_taken_before_the_listed",
    ),
    Mutant(
        "pop",
        "the extension of a former holder stays",
        "      if has_extended then\n        redis.call('HDEL', extended, key)\n      end\n",
        "",
        "test_pop.test_a_lease_taken_again_clears_the_extension_of_the_former_holder",
    ),
    Mutant(
        "pop",
        "a receive does not count",
        "local count = 1 + (tonumber(known[i]) or absent)",
        "local count = (tonumber(known[i]) or absent)",
        "test_pop.test_a_message_is_dead_exactly_at_the_maximum",
    ),
    Mutant(
        "pop",
        "counts are returned and not kept",
        "    redis.call('HSET', receives, unpack(recounted))\n",
        "",
        "test_pop.test_the_second_receive_is_the_first_to_be_written_down",
    ),
    Mutant(
        "pop",
        "dead one receive early",
        "elseif max_receives > 0 and count > max_receives then",
        "elseif max_receives > 0 and count >= max_receives then",
        "test_pop.test_a_message_is_dead_exactly_at_the_maximum",
    ),
    Mutant(
        "pop",
        "dead one receive late",
        "elseif max_receives > 0 and count > max_receives then",
        "elseif max_receives > 0 and count > max_receives + 1 then",
        "test_pop.test_a_message_is_dead_exactly_at_the_maximum",
    ),
    Mutant(
        "pop",
        "a killer joins a batch",
        "  return count >= last_receive and taken > 0\n",
        "  return false\n",
        "test_pop.test_a_message_on_its_last_permitted_receive_is_not_added_to_a_batch",
    ),
    Mutant(
        "pop",
        "a killer takes others along",
        " or count >= last_receive\n",
        "\n",
        "test_pop.test_a_message_on_its_last_permitted_receive_travels_alone",
    ),
    Mutant(
        "pop",
        "a record without a body stops every pop",
        "    if not body then",
        "    if body == '' then",
        "test_pop.test_a_body_that_is_missing_does_not_wedge_the_queue",
        error=True,
    ),
    Mutant(
        "pop",
        "a requeued message keeps its lease as well",
        "ready, body)\n      redis.call('ZREM', zset, key)\n",
        "ready, body)\n",
        "test_pop.test_requeue_back_puts_expired_messages_behind_the_backlog",
    ),
    Mutant(
        "pop",
        "what goes to the back loses its count",
        "        redis.call('HSET', receives, key, string.format('%.0f:', count - 1)"
        " .. mark(body))\n",
        "",
        "test_pop.test_requeue_back_gives_the_articles_order_and_keeps_the_counts",
    ),
    Mutant(
        "pop",
        "no limit to the bodies of one call",
        " or bytes >= BODY_BUDGET or count",
        " or count",
        "test_pop.test_one_call_moves_a_mebibyte",
    ),
    Mutant(
        "pop",
        "a body of any length is decoded",
        " and #body <= DECODE_LIMIT then",
        " then",
        "test_pop.test_a_body_over_the_decode_limit_is_leased_undecoded",
    ),
    Mutant(
        "pop",
        "no limit to the decoding of one call",
        "  full = full or decoded > DECODE_BUDGET\n",
        "  decoded = 0\n",
        "test_pop.test_one_call_decodes_one_body_of_the_longest",
    ),
    Mutant(
        "pop",
        "a message whose decoding was put off gets a derived key",
        "    if decoded > DECODE_BUDGET then\n      break\n    end\n",
        "",
        "test_pop.test_decoding_ends_in_the_middle_of_a_slice",
    ),
    Mutant(
        "pop",
        "a search for an id costs nothing",
        "decoded + #body / 8 + (named and #body or 0)",
        "decoded + (named and #body or 0)",
        "test_pop.test_a_search_for_an_id_costs_an_eighth_of_a_decode",
    ),
    Mutant(
        "pop",
        "counts of no keys are asked for",
        "has_receives and #keys > 0 and redis.call('HMGET', receives, unpack(keys))\n  for",
        "has_receives and redis.call('HMGET', receives, unpack(keys))\n  for",
        "test_pop.test_decoding_may_end_before_the_first_of_a_slice",
        error=True,
    ),
    Mutant(
        "pop",
        "bodies are read to learn whether ids are free",
        "redis.call('HEXISTS', context, key) == 1",
        "redis.call('HGET', context, key)",
        "test_pop.test_no_body_is_read_to_learn_whether_an_id_is_free",
    ),
    Mutant(
        "pop",
        "redelivered messages are read together",
        "redis.call('HGET', context, keys[i])\n",
        "redis.call('HMGET', context, unpack(keys))[i]\n",
        "test_pop.test_what_came_back_is_read_one_by_one",
    ),
    Mutant(
        "pop",
        "sixteen of a list are read at once",
        "local bodies, count, size, slice = {}, 0, 0, 1\n",
        "local bodies, count, size, slice = {}, 0, 0, SLICE\n",
        "test_pop.test_of_a_list_no_more_is_read_at_a_time_than_was_short_before",
    ),
    Mutant(
        "pop",
        "too large a body is decoded for its dead letter",
        "dead_letter('', body, 'too large', 0, {})",
        "dead_letter(natural_key(body) or '', body, 'too large', 0, {})",
        "test_pop.test_too_large_a_body_goes_to_the_dead_letters_undecoded",
    ),
    Mutant(
        "pop",
        "no limit to the dead letters of one call",
        "  full = full or dead_lettered >= DEAD_LETTER_BUDGET\n",
        "",
        "test_pop.test_one_call_buries_a_hundred",
    ),
    Mutant(
        "pop",
        "a count on the list is that of the next message with its id",
        "count and of == mark(body) and tonumber(count)",
        "count and tonumber(count)",
        "test_pop.test_a_count_on_the_list_is_that_of_one_body",
        {"padding": 0},
    ),
    Mutant(
        "pop",
        "bodies of one length are taken for the same",
        "count and of == mark(body) and tonumber(count)",
        "count and string.match(of, '%d+') == tostring(#body) and tonumber(count)",
        "test_pop.test_a_count_on_the_list_is_that_of_one_body",
        {"padding": 0},
    ),
    Mutant(
        "pop",
        "the count that an article's ack left is the next message's",
        "if count > 1 or stale then",
        "if count > 1 then",
        INHERITS,
    ),
    Mutant(
        "pop",
        "the note that an article's ack left is the next message's",
        "if stale and has_errors then",
        "if false then",
        INHERITS,
    ),
    Mutant(
        "audit_scan",
        "a message on a list hides every stale count",
        "(listed and string.find(count, ':', 1, true))",
        "listed",
        MARKED_COUNT,
        {"place": "push"},
    ),
    Mutant(
        "audit_scan",
        "the counts of handed-over messages are stale",
        "redis.call('LLEN', ready) + redis.call('LLEN', handoff) > 0",
        "redis.call('LLEN', ready) > 0",
        MARKED_COUNT,
        {"place": "hand_over"},
    ),
    Mutant(
        "audit_scan",
        "counts of messages that left the lists are kept",
        "(listed and string.find(count, ':', 1, true))",
        "string.find(count, ':', 1, true)",
        "test_audit.test_a_count_is_stale_once_the_lists_are_empty",
    ),
    Mutant(
        "pop",
        "counts outlive their messages",
        "  if string.find(noted[i + 1], ':', 1, true) then",
        "  if false then",
        "test_pop.test_counts_of_messages_that_left_the_list_are_removed_when_it_is_empty",
    ),
    Mutant(
        "pop",
        "an empty list ends the counts of what is in flight",
        "  if string.find(noted[i + 1], ':', 1, true) then",
        "  if true then",
        "test_pop.test_counts_of_messages_that_left_the_list_are_removed_when_it_is_empty",
    ),
    Mutant(
        "nack",
        "the count of what goes to the list names no body",
        "(delay < 0 and ':' .. mark(body) or '')",
        "''",
        "test_nack.test_a_delay_of_minus_one_pushes_to_the_back_of_the_list",
    ),
    Mutant(
        "reject",
        "the count of another message goes into the dead letter",
        "local count = tonumber(redis.call('HGET', receives, key)) or 1\n  local note",
        "local count = tonumber(string.match(redis.call('HGET', receives, key) or '1', '%d+'))\n"
        "  local note",
        "test_pop.test_a_count_on_the_list_is_none_of_a_message_that_is_leased_or_delayed",
    ),
    Mutant(
        "pop",
        "the receipt of a shortened lease is given to another",
        "must_wait(count) or is_receipt(key)",
        "must_wait(count)",
        "test_extend.test_the_receipt_of_a_shortened_lease_is_not_given_to_another",
    ),
    Mutant(
        "pop",
        "a dead letter lets what waits pass redelivered messages",
        "  until not again\n",
        "  until true\n",
        "test_pop.test_what_came_back_fills_the_room_that_a_dead_letter_leaves",
    ),
    Mutant(
        "pop",
        "a dead letter delivers again what was taken before it",
        "zset == backup and taken or 0",
        "0",
        "test_pop.test_a_dead_letter_delivers_nothing_twice",
    ),
    Mutant(
        "pop",
        "a dead letter lets what waits pass what is due",
        "(requeue == 'front' or zset == delayed)",
        "requeue == 'front'",
        "test_pop.test_what_is_due_fills_the_room_that_a_dead_letter_leaves",
    ),
    Mutant(
        "pop",
        "a queue is called empty after dead letters",
        "if full or dead_lettered > 0 then",
        "if full then",
        "test_pop.test_a_call_that_only_dead_letters_asks_for_another",
    ),
    Mutant(
        "pop",
        "the first write may allocate",
        "  redis.call('HLEN', context)\n  " + FREES_NOTHING,
        "  redis.call('HLEN', context)\n",
        "test_own_servers.test_a_full_queue_can_be_drained",
        error=True,
    ),
    Mutant(
        "pop",
        "a pause is ignored",
        "if has_side and redis.call('EXISTS', paused) == 1 then",
        "if false then",
        "test_pop.test_a_paused_queue_takes_nothing_but_settles",
    ),
    Mutant(
        "pop",
        "a fused ack without a fence",
        *NO_FENCE,
        "test_pop.test_a_fused_ack_refuses_stale_receipts_by_position_and_takes_all_the_same",
    ),
    Mutant(
        "pop",
        *ANY_KEYS,
        "test_pop.test_a_fused_ack_touches_no_other_message_of_its_batch",
        {"named": ("a", "b", "gone")},
    ),
    Mutant(
        "pop",
        *ANY_SIZE,
        "test_pop.test_a_fused_ack_touches_no_other_message_of_its_batch",
        {"named": ("a", "b")},
    ),
    Mutant(
        "pop",
        "a fused ack leaves the body",
        "  redis.call('HDEL', context, unpack(done))\n",
        "",
        "test_pop.test_settled_messages_are_deleted_before_the_next_are_taken",
    ),
    Mutant(
        "pop",
        "NaN passes for a number",
        RANGE_CHECK,
        "return not number or number < low or number > high",
        "test_arguments.test_an_argument_out_of_range_is_refused_before_anything_is_changed",
        {"calls": {"nan": Call("pop", (1, "nan", 0, 0, MIB, "front"))}},
    ),
    Mutant(
        "pop",
        "a type is read after the first write",
        "local has_extended = has_side and redis.call('HLEN', extended) > 0\n",
        "local has_extended = has_side and redis.call('EXISTS', extended) > 0\n",
        "test_wrong_types.test_a_key_of_another_type_is_an_error_before_anything_is_changed",
        {"call": CALLS[0], "slot": EXTENDED},
    ),
)

SETTLING = (
    Mutant(
        "ack",
        *ANY_KEYS,
        "test_ack.test_an_ack_touches_no_other_message_of_its_batch",
        {"named": ("a", "b", "gone")},
    ),
    Mutant(
        "ack",
        *ANY_SIZE,
        "test_ack.test_an_ack_touches_no_other_message_of_its_batch",
        {"named": ("a", "b")},
    ),
    Mutant(
        "ack",
        "no fence",
        *NO_FENCE,
        "test_ack.test_a_stale_receipt_cannot_ack_a_message_that_another_consumer_holds",
    ),
    Mutant(
        "nack",
        "reads the body of what stays",
        "  if body and (dies or delay < 0 or failure) then",
        "  if body then",
        "test_nack.test_a_body_that_stays_is_not_read",
    ),
    Mutant(
        "nack",
        "any number of bytes in one call",
        "    bytes = bytes + #body\n",
        "",
        "test_nack.test_one_call_moves_a_mebibyte_of_bodies_and_says_where_it_stopped",
        {"delay": -1, "max_receives": 0},
    ),
    Mutant(
        "nack",
        "any number of messages in one call",
        "local MOST = 100",
        "local MOST = 1000",
        "test_nack.test_one_call_gives_a_hundred_back_and_the_next_keeps_their_order",
    ),
    Mutant(
        "nack",
        "messages left for the next call are reported as refused",
        "    while #reply > 1 and math.abs(reply[#reply]) >= entry[3] do",
        "    while false do",
        "test_nack.test_what_is_refused_behind_the_end_of_a_call_is_for_the_next_call",
    ),
    Mutant(
        "nack",
        "the first that is left is passed over",
        "    reply[#reply + 1] = entry[3]\n",
        "    reply[#reply + 1] = entry[3] + 1\n",
        "test_nack.test_what_is_refused_behind_the_end_of_a_call_is_for_the_next_call",
    ),
    Mutant(
        "nack",
        "of two calls the second overtakes the first",
        "math.min(#returned, MOST)",
        "#returned",
        "test_nack.test_one_call_gives_a_hundred_back_and_the_next_keeps_their_order",
    ),
    Mutant(
        "nack",
        "no fence",
        *NO_FENCE,
        "test_nack.test_a_stale_receipt_cannot_nack_a_message_that_another_consumer_holds",
    ),
    Mutant(
        "reject",
        "any number of bytes in one call",
        "bytes + #body + 4 * #note",
        "bytes + 4 * #note",
        "test_reject.test_one_call_rejects_a_mebibyte_and_says_where_it_stopped",
    ),
    Mutant(
        "reject",
        "any number of messages in one call",
        "local MOST = 100",
        "local MOST = 1000",
        "test_reject.test_one_call_rejects_a_hundred",
    ),
    Mutant(
        "reject",
        "messages left for the next call are reported as refused",
        "    while #reply > 1 and math.abs(reply[#reply]) >= entry[2] do",
        "    while false do",
        "test_reject.test_one_call_rejects_a_mebibyte_and_says_where_it_stopped",
    ),
    Mutant(
        "reject",
        "no fence",
        *NO_FENCE,
        "test_reject.test_a_stale_receipt_cannot_reject_a_message_that_another_consumer_holds",
    ),
    Mutant(
        "extend",
        "no fence",
        *NO_FENCE,
        "test_extend.test_a_stale_receipt_cannot_extend_a_message_that_another_consumer_holds",
    ),
    Mutant(
        "ack",
        "the old receipt of an extended lease is refused",
        *NO_NOTE,
        "test_ack.test_the_old_receipt_acks_an_extended_lease",
    ),
    Mutant(
        "extend",
        "a lease can be extended once",
        *NO_NOTE,
        "test_extend.test_a_lease_can_be_extended_again_and_again_with_its_first_receipt",
    ),
    Mutant(
        "ack",
        "an extension is believed whatever the deadline",
        *ANY_NOTE,
        "test_ack.test_a_note_of_extension_does_not_outlive_its_score",
    ),
    Mutant(
        "ack",
        "the body stays",
        "  redis.call('HDEL', context, unpack(done))\n",
        "",
        "test_ack.test_an_ack_deletes_every_record_of_the_message",
    ),
    Mutant(
        "ack",
        "the count stays",
        "  redis.call('HDEL', receives, unpack(done))\n",
        "",
        "test_ack.test_an_ack_deletes_every_record_of_the_message",
    ),
    Mutant(
        "ack",
        "a message that waits is taken for settled",
        "local waits = scores[i] or (has_delayed and redis.call('ZSCORE', delayed, key))",
        "local waits = scores[i]",
        "test_ack.test_an_ack_of_a_delayed_message_is_refused",
    ),
    Mutant(
        "ack",
        "what is gone is said to be another's",
        "waits and position or -position",
        "position",
        "test_ack.test_a_resent_ack_finds_the_message_gone_and_nobody_elses",
    ),
    Mutant(
        "ack",
        "what is gone is not reported",
        "reply[#reply + 1] = waits and position or -position",
        "reply[#reply + 1] = waits and position or nil",
        "test_ack.test_a_resent_ack_finds_the_message_gone_and_nobody_elses",
    ),
    Mutant(
        "pop",
        "a fused ack of what is gone is not reported",
        "refused[#refused + 1] = waits and position or -position",
        "refused[#refused + 1] = waits and position or nil",
        "test_pop.test_a_fused_ack_refuses_stale_receipts_by_position_and_takes_all_the_same",
    ),
    Mutant(
        "reject",
        "a reject of what is gone is not reported",
        "reply[#reply + 1] = waits and position or -position",
        "reply[#reply + 1] = waits and position or nil",
        "test_reject.test_positions_count_through_all_groups",
    ),
    Mutant(
        "extend",
        "an extension of what is gone is not reported",
        "reply[#reply + 1] = waits and position or -position",
        "reply[#reply + 1] = waits and position or nil",
        "test_extend.test_a_settled_message_is_gone_and_not_revived",
    ),
    Mutant(
        "ack_id",
        "any number of bytes is deleted in one call",
        "    freed = freed + redis.call('HSTRLEN', context, key)\n",
        "",
        "test_ack_id.test_one_call_deletes_eight_mebibytes",
    ),
    Mutant(
        "ack_id",
        "deletes the body of what is not in flight",
        "  if redis.call('ZREM', backup, key) == 1 then",
        "  if redis.call('ZREM', backup, key) + redis.call('HEXISTS', context, key) > 0 then",
        "test_ack_id.test_a_delayed_message_cannot_be_acked",
    ),
    Mutant(
        "nack",
        "given back twice",
        "  if redis.call('ZREM', backup, key) == 1 then",
        "  redis.call('ZREM', backup, key)\n  if true then",
        "test_nack.test_a_message_that_is_named_twice_is_given_back_once",
    ),
    Mutant(
        "nack",
        "what waits is said to be another's",
        "scores[i] and position or -position",
        "position",
        "test_nack.test_a_resent_nack_finds_the_message_waiting_and_nobody_elses",
    ),
    Mutant(
        "nack",
        "a nack of what is gone is not reported",
        "scores[i] and position or -position",
        "scores[i] and position or nil",
        "test_nack.test_a_nack_of_a_settled_message_does_not_revive_it",
    ),
    Mutant(
        "nack",
        "a release counts",
        "      count = count - 1 + charge\n",
        "",
        "test_nack.test_a_release_does_not_count",
    ),
    Mutant(
        "nack",
        "a release at the maximum is death",
        "charge == 1 and max_receives > 0",
        "max_receives > 0",
        "test_nack.test_a_release_at_the_maximum_is_no_death",
    ),
    Mutant(
        "nack",
        "never dead",
        "count >= max_receives\n",
        "count > max_receives\n",
        "test_nack.test_a_nack_at_the_maximum_is_death",
    ),
    Mutant(
        "nack",
        "on the list and in CONTEXT at once",
        "ready, body)\n        redis.call('HDEL', context, key)\n",
        "ready, body)\n",
        "test_nack.test_a_delay_of_minus_one_pushes_to_the_back_of_the_list",
    ),
    Mutant(
        "nack",
        "what is given back together is sorted by its keys",
        "now + delay - 1) + i",
        "now + delay - 1) + 1",
        "test_nack.test_what_was_given_back_together_is_ready_at_once_and_in_the_order_given",
    ),
    Mutant(
        "nack",
        "what is given back at once is due only later",
        "(delay == 0 and now - most or now + delay - 1)",
        "(now + delay - 1)",
        "test_nack.test_what_was_given_back_together_is_ready_at_once_and_in_the_order_given",
    ),
    Mutant(
        "nack",
        "a delay ends early, since others are given back with it",
        "(delay == 0 and now - most or now + delay - 1)",
        "(now + delay - #returned)",
        "test_nack.test_what_was_given_back_together_is_due_in_the_order_given_and_never_early",
    ),
    Mutant(
        "nack",
        "an extension comes back with the message",
        "    redis.call('HDEL', extended, key)\n",
        "",
        "test_nack.test_a_nack_moves_the_lease_to_the_delayed_and_keeps_key_and_body",
    ),
    Mutant(
        "nack",
        "the first write may allocate",
        "  local key, delay, failure =",
        "  redis.call('HINCRBY', receives, entry[1], 0)\n  local key, delay, failure =",
        "test_own_servers.test_work_can_be_given_back_to_a_full_server",
        {"delay": SECOND, "max_receives": 0},
        error=True,
    ),
    Mutant(
        "reject",
        "the body is deleted before the dead letter is written",
        "  local body = redis.call('HGET', context, key) or ''\n",
        "  redis.call('HDEL', context, key)\n"
        "  local body = redis.call('HGET', context, key) or ''\n",
        "test_reject.test_a_rejected_message_is_dead_with_key_body_reason_count_and_time",
    ),
    Mutant(
        "reject",
        "the first write may allocate",
        "  if redis.call('ZREM', backup, key) == 1 then\n",
        "  redis.call('HSETNX', receives, key, 1)\n"
        "  if redis.call('ZREM', backup, key) == 1 then\n",
        "test_own_servers.test_a_message_can_be_rejected_on_a_full_server",
        error=True,
    ),
    Mutant(
        "extend",
        "the receipt is not noted",
        "  redis.call('HSET', extended, entry[1], entry[2] .. ':' .. deadline_text)\n",
        "",
        "test_extend.test_an_extension_with_a_lost_reply_keeps_the_old_receipt_valid",
    ),
    Mutant(
        "extend",
        "the new deadline is the new receipt",
        "entry[2] .. ':' .. deadline_text)",
        "deadline_text .. ':' .. deadline_text)",
        "test_extend.test_an_extension_with_a_lost_reply_keeps_the_old_receipt_valid",
    ),
    Mutant(
        "extend",
        "a deadline without jitter",
        " + timeout + jitter",
        " + timeout",
        "test_extend.test_an_extension_moves_the_deadline_and_notes_the_receipt",
    ),
    Mutant(
        "extend",
        "the first write may allocate",
        FREES_NOTHING,
        "",
        "test_own_servers.test_a_lease_can_be_extended_on_a_full_server",
        error=True,
    ),
)

STORING = (
    Mutant(
        "schedule",
        "overwrites a body with the same key",
        " or redis.call('HEXISTS', context, key) == 1 then",
        " then",
        "test_schedule.test_a_key_that_is_taken_is_replaced_and_both_bodies_survive",
    ),
    Mutant(
        "schedule",
        "the body first, before it is known that the due time can be stored",
        "redis.call('ZADD', delayed, unpack(scores))\n"
        "redis.call('HSET', context, unpack(bodies))\n",
        "redis.call('HSET', context, unpack(bodies))\n"
        "redis.call('ZADD', delayed, unpack(scores))\n",
        "test_wrong_types.test_a_key_of_another_type_is_an_error_before_anything_is_changed",
        {"call": SCHEDULE, "slot": DELAYED},
    ),
    Mutant(
        "schedule",
        "a key that comes twice in a call keeps one body",
        "stored[key]\n",
        "false\n",
        "test_schedule.test_a_key_that_is_taken_is_replaced_and_both_bodies_survive",
    ),
    Mutant(
        "push_once",
        "marked before pushed",
        "if when == 'now' then\n",
        "redis.call('SET', marker, id, 'PX', window)\nif when == 'now' then\n",
        "test_push_once.test_what_could_not_be_stored_is_not_marked",
        {"when": "now", "wrong": ""},
    ),
    Mutant(
        "push_once",
        "a marker that never expires",
        "redis.call('SET', marker, id, 'PX', string.format('%.0f', window))",
        "redis.call('SET', marker, id)",
        "test_push_once.test_the_marker_lives_for_the_window_and_no_longer",
    ),
    Mutant(
        "push_once",
        "pushes again",
        "if first then",
        "if false then",
        "test_push_once.test_a_second_push_stores_nothing_and_returns_the_first_id",
    ),
    Mutant(
        "push_once",
        "the list expires with the marker",
        "'LPUSH', ready, body)\n",
        "'LPUSH', ready, body)\n  redis.call('PEXPIRE', ready, window)\n",
        "test_push_once.test_the_first_push_is_stored_and_marked",
    ),
)

INSPECTING = (
    Mutant(
        "stats",
        "what ends at this instant is not counted as ready",
        "redis.call('ZCOUNT', backup, '-inf', now_text)",
        "redis.call('ZCOUNT', backup, '-inf', '(' .. now_text)",
        "test_stats.test_stats_and_pop_agree_on_what_is_ready",
    ),
    Mutant(
        "stats",
        "due messages are not reported",
        "redis.call('ZCOUNT', delayed, '-inf', now_text)",
        "0",
        "test_stats.test_expired_and_due_messages_are_counted_apart_from_running_and_delayed",
    ),
    Mutant(
        "peek",
        "sixteen of a list are read at once",
        "  local slice, read, seen = 1, 0, 0",
        "  local slice, read, seen = SLICE, 0, 0",
        "test_peek.test_a_list_is_read_one_two_four_at_a_time",
    ),
    Mutant(
        "peek",
        "long bodies of a list are read by more and more",
        "read < seen * SHORT and math.min(SLICE, 2 * slice) or 1",
        "math.min(SLICE, 2 * slice)",
        "test_peek.test_a_list_is_read_one_two_four_at_a_time",
    ),
    Mutant(
        "peek",
        "what is skipped is counted from the start of the set",
        "    string.format('%.0f', math.min(last, first + wanted) - 1), 'WITHSCORES')",
        "    string.format('%.0f', math.min(last, wanted) - 1), 'WITHSCORES')",
        "test_peek.test_pages_of_a_set_join_on_to_one_another",
        {"state": "delayed"},
    ),
    Mutant(
        "peek",
        "the list comes before what was handed over",
        "  look_in_lists({{handoff}}, 'list', 0, 'right')\n",
        "  look_in_lists({{ready}, {handoff}}, 'list', 0, 'right')\n",
        "test_peek.test_ready_is_what_a_pop_would_take_in_its_order",
    ),
    Mutant(
        "peek",
        "shows running leases as ready",
        "    first, last = 0, first\n",
        "    first = 0\n",
        "test_peek.test_ready_is_what_a_pop_would_take_in_its_order",
    ),
    Mutant(
        "purge",
        "bodies stay",
        "redis.call('UNLINK', ready, backup, context, handoff,",
        "redis.call('UNLINK', ready, backup, handoff,",
        "test_purge.test_a_purge_leaves_the_dead_letters_and_the_pause",
    ),
    Mutant(
        "purge",
        "what was handed over comes back",
        "redis.call('UNLINK', ready, backup, context, handoff,",
        "redis.call('UNLINK', ready, backup, context,",
        "test_purge.test_a_purge_leaves_the_dead_letters_and_the_pause",
    ),
    Mutant(
        "redrive",
        "any number of dead letters in one call",
        "looked < math.min(wanted, MOST) and",
        "looked < wanted and",
        "test_redrive.test_one_call_looks_at_a_hundred",
    ),
    Mutant(
        "redrive",
        "any number of named dead letters in one call",
        "    if looked >= MOST or bytes",
        "    if bytes",
        "test_redrive.test_one_call_looks_at_a_hundred",
    ),
    Mutant(
        "redrive",
        "dead and ready at once",
        "  redis.call('XDEL', dead, entry[1])\n",
        "",
        "test_redrive.test_a_redriven_message_is_due_now_with_its_key_its_body_and_no_count",
    ),
    Mutant(
        "redrive",
        "overwrites a message with the same key",
        "if key == '' or redis.call('HEXISTS', context, key) == 1 then",
        "if key == '' then",
        "test_redrive.test_a_key_that_is_taken_is_replaced_and_every_body_survives",
    ),
    Mutant(
        "redrive",
        "the count of the dead stays",
        "  redis.call('HDEL', receives, key)\n",
        "",
        "test_redrive.test_a_redriven_message_is_due_now_with_its_key_its_body_and_no_count",
    ),
    Mutant(
        "drain",
        "on the list and leased at once",
        "      redis.call('ZREM', zset, key)\n",
        "",
        "test_drain.test_a_step_in_the_middle_leaves_every_message_in_one_place",
    ),
    Mutant(
        "drain",
        "to the back of the list",
        "record and 'LPUSH' or 'RPUSH'",
        "'LPUSH'",
        "test_drain.test_everything_goes_back_to_the_list_in_the_order_of_delivery",
    ),
    Mutant(
        "drain",
        "the handed over change their order",
        "'LEFT', record and 'LEFT' or 'RIGHT')",
        "'RIGHT', record and 'LEFT' or 'RIGHT')",
        "test_drain.test_everything_goes_back_to_the_list_in_the_order_of_delivery",
    ),
    Mutant(
        "audit",
        "mends without being asked",
        "if expires and ARGV[1] == '1' then",
        "if expires then",
        "test_audit.test_an_expiry_is_reported_and_removed_if_asked",
    ),
    Mutant(
        "audit_scan",
        "mends without being asked",
        "  return repair\n",
        "  return true\n",
        "test_audit.test_an_orphan_body_becomes_ready",
    ),
    Mutant(
        "audit_scan",
        "drops an orphan",
        "and report('orphan body', key) then\n    redis.call('ZADD', delayed, now_text, key)\n",
        "and report('orphan body', key) then\n    redis.call('HDEL', context, key)\n",
        "test_audit.test_an_orphan_body_becomes_ready",
    ),
    Mutant(
        "audit_scan",
        "takes delayed messages for orphans",
        "if not redis.call('ZSCORE', backup, key) and not redis.call('ZSCORE', delayed, key)\n",
        "if not redis.call('ZSCORE', backup, key)\n",
        "test_audit.test_a_sound_queue_has_no_problems_and_a_repair_changes_nothing",
    ),
)

MUTANTS = POP + SETTLING + STORING + INSPECTING
