-- cancel: move chosen delayed messages to the dead letters, with the reason "canceled".
--
-- KEYS[1] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[2] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[3] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[4] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
--
-- ARGV[1] chosen           1..1000 pairs of: the due time that the message must have, an integer
--                          0..9007199254740991 µs, or empty for any; lease key
--
-- Returns {canceled, looked at}; pass the other pairs in the next call. A message that is not
-- delayed or has another due time is left alone; one that is due, but not taken yet, is canceled.
-- Atomic because a message must always be either delayed or dead, never both.
-- Cost: O(chosen log delayed): at most 100 messages and 1 MiB of bodies and notes, plus one; each
-- byte of a note counts as four.
-- Roles: operator, doctor
local context, receives, delayed = KEYS[1], KEYS[2], KEYS[3]
local dead, errors, counters = KEYS[4], KEYS[5], KEYS[6]

local BODY_BUDGET = 1048576 -- bytes of bodies and notes one call may move
local MOST = 100 -- messages one call may look at

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 == 1 then
  return redis.error_reply('ACKQ_ARGUMENT cancel: 1..1000 pairs of a due time and a key')
end
for at = 1, #ARGV, 2 do
  if ARGV[at] ~= '' and outside(tonumber(ARGV[at]), 0, 9007199254740991) then
    return redis.error_reply('ACKQ_ARGUMENT cancel: a due time is 0..9007199254740991 or empty')
  end
end

redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('XLEN', dead)
local has_errors = redis.call('HLEN', errors) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Parts: count_up, failures
-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end

-- What ties a count on the list, or a note of failures, to its body: another message may have the
-- same id.
local function mark(body)
  return #body .. ':' .. redis.sha1hex(string.sub(body, 1, 512) .. string.sub(body, -512))
end

-- Return the failures of earlier deliveries of this very message, newest last. The note may be of
-- another message.
local function failures_of(note, body, before)
  local found = {}
  if note and string.match(note, '^[^\n]*') == mark(body) then
    for entry, attempt in string.gmatch(note, '\n((%d+):[^\n]*)') do
      if tonumber(attempt) >= before then
        return {} -- counts only grow, so these are of an earlier message
      end
      found[#found + 1] = entry
    end
  end
  return found
end

-- Return the last field of a dead letter; none without failures.
local function errors_field(found)
  return #found > 0 and {'errors', table.concat(found, '\n')} or {}
end
-- End of parts (edit them in lua/parts)

local canceled, looked, bytes = 0, 0, 0
while 2 * looked < #ARGV and looked < MOST and bytes < BODY_BUDGET do
  local due, key = ARGV[2 * looked + 1], ARGV[2 * looked + 2]
  looked = looked + 1
  local score = redis.call('ZSCORE', delayed, key)
  local body = score and (due == '' or tonumber(score) == tonumber(due))
    and redis.call('HGET', context, key)
  -- A key without a body is left to pop and the audit, which report it.
  if body then
    local count = tonumber(redis.call('HGET', receives, key)) or 0
    local note = has_errors and redis.call('HGET', errors, key) or ''
    local found = failures_of(note, body, count + 1)
    -- The first write frees memory, so that messages can be canceled at maxmemory.
    redis.call('ZREM', delayed, key)
    redis.call('XADD', dead, '*', 'key', key, 'body', body, 'reason', 'canceled', 'count', count,
      'time', string.format('%.0f', now), unpack(errors_field(found)))
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', errors, key)
    canceled = canceled + 1
    -- A pattern reads the notes, which takes longer than moving them.
    bytes = bytes + #body + 4 * #note
  end
end
count_up('dead:canceled', canceled)
return {canceled, looked}
