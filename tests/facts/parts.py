"""Mistakes that are planted in several scripts, most of them in functions of lua/parts."""

from __future__ import annotations

from tests.facts.facts import Mistake

ALL_FAILURES = Mistake("all failures are kept", "while #found > FAILURES do", "while false do")
ANY_BYTES = Mistake(
    "any number of bytes in one call", "local BODY_BUDGET = 1048576", "local BODY_BUDGET = 1e12"
)
ANY_DELETED_BYTES = Mistake(
    "any number of bytes is deleted in one call", "stop < last and freed < FREED", "stop < last"
)
ANY_MESSAGES = Mistake(
    "any number of messages in one call", "local MAX_IN_CALL = 100", "local MAX_IN_CALL = 1000"
)
AS_MANY_KEYS = Mistake(
    "as many keys as the batch had are taken for the batch",
    "    if not named[keys[i]] then\n      return\n    end\n",
    "",
)
BODIES_COST_NOTHING = Mistake(
    "bodies cost nothing", "bytes + #body + 4 * #note", "bytes + 4 * #note"
)
BODIES_OF_ANY_LENGTH = Mistake("returns bodies of any length", "#body > MAX_BODY or ", "")
BODIES_WITHOUT_TIME = Mistake(
    "returns bodies that need not have a time",
    " or not (has(body, member) or has(body, other))",
    "",
)
COUNT_LEFT_BEHIND = Mistake(
    "the count of rows is left behind", "  redis.call('HSET', heldrows, list, left)\n", ""
)
DELIVERY_GOES_ON = Mistake(
    "a delivery goes on for ever",
    "count_up(first, 'ended', redis.call('ZREM', KEYS[first + 2], key))",
    "count_up(first, 'ended', 0 * redis.call('ZREM', KEYS[first + 2], key))",
)
ERRORS_COST_NOTHING = Mistake(
    "errors cost nothing",
    "bytes = bytes + #entry[2][i + 1]",
    "bytes = bytes + (entry[2][i] == 'body' and #entry[2][i + 1] or 0)",
)
FOREIGN_COUNTERS = Mistake(
    "counts into what is somebody else's",
    "redis.call('HEXISTS', counters, 'since') == 1",
    "redis.call('HLEN', counters) > 0",
)
FREES_NO_MEMORY = Mistake(
    "the first write may allocate", "redis.call('ZREMRANGEBYRANK', backup, 1, 0)\n", "", error=True
)
FROM_THE_FRONT = Mistake(
    "a step begins at the front",
    "redis.call('LRANGE', claim, first, rows - 1)",
    "redis.call('LRANGE', claim, 0, rows - first - 1)",
)
GONE_IS_NOT_REPORTED = Mistake(
    "what is gone is not reported",
    "reply[#reply + 1] = waits and position or -position",
    "reply[#reply + 1] = waits and position or nil",
)
NOTE_COSTS_NOTHING = Mistake(
    "a note of another message costs nothing", " + 4 * #note", " + 4 * #found * 1000000"
)
NOTE_OF_ANOTHER_BODY = Mistake(
    "a note of another body is kept",
    "if note and string.match(note, '^[^\\n]*') == mark(body) then",
    "if note then",
)
NOTE_OF_AN_EARLIER_LIFE = Mistake(
    "a note of an earlier life is kept", "if tonumber(attempt) >= before then", "if false then"
)
NO_FENCE = Mistake(
    "no fence",
    "  return tonumber(score) == tonumber(receipt) or (has_extended",
    "  return true or (has_extended",
)
NO_RECORD = Mistake(
    "takes from the left without a record",
    "if record and redis.call('GET', record) ~= 'left' then",
    "if false then",
)
OLD_RECEIPT = Mistake(
    "the old receipt of an extended lease is refused",
    (
        "    and redis.call('HGET', extended, key)"
        " == receipt .. ':' .. string.format('%.0f', score))"
    ),
    "    and false)",
)
PART_OF_A_BATCH = Mistake(
    "a part of a batch is taken for the batch",
    "    or redis.call('ZCOUNT', backup, receipt, receipt) ~= size then\n",
    "    then\n",
)
PUSHED_AGAIN = Mistake(
    "takes what was pushed again for its own",
    "\n    and math.floor(ready_at * 1000000 + 0.5) == lease_of(index)",
    "",
)
REPLACED_DRIVER = Mistake(
    "a replaced driver goes on", "if tonumber(facts[1] or 0) ~= epoch then", "if false then"
)
SHORTER_WINDOW = Mistake(
    "a shorter window shortens", "redis.call('PTTL', counters) < window", "true"
)
WHAT_LEFT = Mistake(
    "takes what left for its own",
    "  return lease and ready_at and tonumber(lease) == lease_of(index)\n",
    "  return lease and ready_at\n",
)
