"""Mistakes that are planted in several scripts, most of them in functions of lua/parts."""

from tests.facts.mistakes import read

#: By what they are.
SHARED = {
    mistake.what: mistake
    for _, mistake in read(r"""
  all failures are kept
  - while #found > FAILURES do
  + while false do
  any number of bytes in one call
  - local BODY_BUDGET = 1048576
  + local BODY_BUDGET = 1e12
  any number of bytes is deleted in one call
  - stop < last and freed < FREED
  + stop < last
  any number of messages in one call
  - local MAX_IN_CALL = 100
  + local MAX_IN_CALL = 1000
  as many keys as the batch had are taken for the batch
  -     if not named[keys[i]] then
  -       return
  -     end
  bodies cost nothing
  - bytes + #body + 4 * #note
  + bytes + 4 * #note
  returns bodies of any length
  - #body > MAX_BODY or not
  + not
  returns bodies that need not have a time
  -  or not (has(body, member) or has(body, other))
  nobody looks again
  -   end
  -   admit()
  +   end
  wakes nobody whose group it frees
  -     write_slots()
  -     wake()
  +     write_slots()
  the count of rows is left behind
  - redis.call('HSET', heldrows, list, left)
  a delivery goes on for ever
  - count_up(first, 'ended', redis.call('ZREM', KEYS[first + 2], key))
  + count_up(first, 'ended', 0 * redis.call('ZREM', KEYS[first + 2], key))
  errors cost nothing
  - bytes = bytes + #entry[2][i + 1]
  + bytes = bytes + (entry[2][i] == 'body' and #entry[2][i + 1] or 0)
  counts into what is somebody else's
  - redis.call('HEXISTS', counters, 'since') == 1
  + redis.call('HLEN', counters) > 0
  the first write may allocate (error)
  - redis.call('ZREMRANGEBYRANK', backup, 1, 0)
  a step begins at the front
  - redis.call('LRANGE', claim, first, rows - 1)
  + redis.call('LRANGE', claim, 0, rows - first - 1)
  what is gone is not reported
  - reply[#reply + 1] = waits and position or -position
  + reply[#reply + 1] = waits and position or nil
  a note of another message costs nothing
  - + 4 * #note
  + + 4 * #found * 1000000
  a note of another body is kept
  - if note and string.match(note, '^[^\n]*') == mark(body) then
  + if note then
  a note of an earlier life is kept
  - if tonumber(attempt) >= before then
  + if false then
  no fence
  - return tonumber(score) == tonumber(receipt) or (has_extended
  + return true or (has_extended
  takes from the left without a record
  - if record and redis.call('GET', record) ~= 'left' then
  + if false then
  the old receipt of an extended lease is refused
  - and redis.call('HGET', extended, key) == receipt .. ':' .. string.format('%.0f', score))
  + and false)
  a part of a batch is taken for the batch
  - or redis.call('ZCOUNT', backup, receipt, receipt) ~= size then
  + then
  takes what was pushed again for its own
  - and math.floor(ready_at * 1000000 + 0.5) == lease_of(index)
  a replaced driver goes on
  - if tonumber(facts[1] or 0) ~= epoch then
  + if false then
  a shorter window shortens
  - redis.call('PTTL', counters) < window
  + true
  takes what left for its own
  - return lease and ready_at and tonumber(lease) == lease_of(index)
  + return lease and ready_at
""")
}
