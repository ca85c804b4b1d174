-- schedule: store messages that become ready at a later time.
--
-- KEYS[1] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[2] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
--
-- ARGV[1] clock            delay|at    whether ARGV[2] counts from now or from the epoch
-- ARGV[2] due              integer 0..9007199254740991, µs
-- ARGV[3] messages         1..1000 pairs of lease key and body; empty key: derive one
--
-- Returns the number of messages stored. A taken key is replaced by a derived one.
-- Atomic because a body without a due time would never be found.
-- Cost: O(messages log delayed).
local context, delayed = KEYS[1], KEYS[2]
local base, due = ARGV[1], tonumber(ARGV[2])

local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end

if (base ~= 'delay' and base ~= 'at') or outside(due, 0, 9007199254740991)
  or #ARGV < 4 or #ARGV > 2002 or #ARGV % 2 == 1 then
  return redis.error_reply('ACKQ_ARGUMENT schedule: an argument is out of range')
end

redis.call('HLEN', context)
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
if base == 'delay' then
  due = math.min(due + now, 9007199254740991)
end
local due_text = string.format('%.0f', due)

local derived = 0
for at = 3, #ARGV, 2 do
  local key = ARGV[at]
  if key == '' or string.byte(key) == 0 or redis.call('HEXISTS', context, key) == 1 then
    repeat
      derived = derived + 1
      key = '\0' .. due_text .. string.format(':%.0f:%04d', now, derived)
    until redis.call('HEXISTS', context, key) == 0
  end
  -- Write the due time first: at maxmemory this write is rejected before anything is stored.
  redis.call('ZADD', delayed, due_text, key)
  redis.call('HSET', context, key, ARGV[at + 1])
end
return (#ARGV - 2) / 2
