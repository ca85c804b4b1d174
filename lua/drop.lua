-- drop: delete dead letters. THEY ARE LOST.
--
-- KEYS[1] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[2] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[3] {name}RECORD     HASH    the settings of the queue, see record.lua
-- With groups: KEYS[4] {name} LIST ready messages
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] entries          1..50 stream ids
--
-- Returns how many were deleted. Groups that they stopped go on.
-- Atomic because what is deleted must be counted.
-- Cost: O(entries). Only few at a time: Redis does not report the size of an entry, and freeing a
-- large one takes time.
-- Roles: operator, doctor
local dead, counters, record, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- include: groups/waking_bound

if #ARGV < 1 or #ARGV > 50 then
  return redis.error_reply('ACKQ_ARGUMENT drop: 1..50 entries')
end
for i = 1, #ARGV do
  if not string.match(ARGV[i], '^%d+%-%d+$') then
    return redis.error_reply('ACKQ_ARGUMENT drop: an entry is a stream id, such as 17-0')
  end
end
redis.call('XLEN', dead)
local watched = redis.call('HEXISTS', counters, 'since') == 1

local known = busy and 'groups' or nil
-- include: record, groups/known

-- include: count_up

local deleted = redis.call('XDEL', dead, unpack(ARGV))
count_up('dropped:dead', deleted)
if not busy then
  return deleted
end

-- include: now, mark, groups/slots, groups/go_on, groups/wake

for i, of in ipairs(redis.call('HMGET', letters, unpack(ARGV))) do
  if of then
    end_stop(string.sub(of, PLACE + 1), ARGV[i])
  end
end
go_on()
wake()
return deleted
