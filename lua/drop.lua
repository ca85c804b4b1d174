-- drop: delete dead letters. THEY ARE LOST.
--
-- KEYS[1] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[2] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
--
-- ARGV[1] entries          1..50 stream ids
--
-- Returns how many were deleted.
-- Atomic because what is deleted must be counted.
-- Cost: O(entries). Only few at a time: Redis does not report the size of an entry, and freeing a
-- large one takes time.
-- Roles: operator, doctor
local dead, counters = KEYS[1], KEYS[2]

if #ARGV < 1 or #ARGV > 50 then
  return redis.error_reply('ACKQ_ARGUMENT drop: 1..50 entries')
end
for i = 1, #ARGV do
  if not string.match(ARGV[i], '^%d+%-%d+$') then
    return redis.error_reply('ACKQ_ARGUMENT drop: an entry is a stream id, such as 17-0')
  end
end
local watched = redis.call('HEXISTS', counters, 'since') == 1

-- Parts: count_up
-- Count for those who watch. A field that is no number is left alone.
local function count_up(field, number)
  if watched == nil and number > 0 then
    watched = redis.pcall('HEXISTS', counters, 'since') == 1
  end
  if watched and number > 0 then
    redis.pcall('HINCRBY', counters, field, number)
  end
end
-- End of parts (edit them in lua/parts)

local deleted = redis.call('XDEL', dead, unpack(ARGV))
count_up('dropped:dead', deleted)
return deleted
