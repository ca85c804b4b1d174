-- staging/topic: publish committed rows under the next indexes of a topic, step by step.
--
-- KEYS[1] {name}:nextIndex   STRING  the newest index; absent: 0
-- KEYS[2] {name}:firstIndex  STRING  indexes below it were trimmed by count; absent: 1
-- KEYS[3] {name}:wake        STREAM  a few entries; the last id is the newest index
-- KEYS[4] {name}:held        ZSET    name of a committed list -> 0
-- KEYS[5] {name}:heldrows    HASH    held list -> rows in it
-- KEYS[6] {name}:staged:<writer>:<batch>:<task>:keep=<ms>,<messages>:  LIST  rows, the first at
--                            the right end; kept so long, 0: for ever
-- KEYS[7..] {name}:messages:<index>  STRING  1..1512 new messages, upwards from guess + 1
--
-- ARGV[1] guess    integer 0..2^53-1         the newest index that the caller knows of
-- ARGV[2] max_age  integer 0..315360000000   ms until the messages expire; 0: never
--
-- Returns {'ok', newest, left}: call again while rows are left; {'moved', newest}: the keys do
-- not cover the next index, nothing was done; {'taken'}: a message exists beyond the newest index
-- and is not overwritten. An uncommitted list is unchanged: {'ok', newest, 0}.
-- Atomic because a row must leave the list when it is published, so that a crash publishes none
-- twice.
-- Cost: O(rows): at most 1,000 rows and 1 MiB, plus one row.
-- Roles: none
local next_index, first_index, wake = KEYS[1], KEYS[2], KEYS[3]
local held, heldrows, list = KEYS[4], KEYS[5], KEYS[6]
local guess, max_age = tonumber(ARGV[1]), tonumber(ARGV[2])
local HEAD = 6 -- keys before the messages
local LAST = 9007199254740991 -- the greatest index that a Lua number holds exactly
local MAX_IN_CALL = 1000 -- rows of one call
local BODY_BUDGET = 1048576 -- bytes of rows one call may move

-- include: outside

if outside(guess, 0, LAST) or outside(max_age, 0, 315360000000)
  or outside(#KEYS - HEAD, 1, 1512) then
  return redis.error_reply('ACKQ_ARGUMENT staging/topic: an argument is out of range')
end

local counters = {redis.call('GET', next_index), redis.call('GET', first_index)}
redis.call('XLEN', wake)
redis.call('HLEN', heldrows)
local newest, first = tonumber(counters[1] or 0), tonumber(counters[2] or 1)
if outside(newest, 0, LAST - MAX_IN_CALL) or outside(first, 1, LAST) then
  return redis.error_reply('ACKQ_VALUE staging/topic: nextIndex or firstIndex is no index')
end
if not redis.call('ZSCORE', held, list) then
  return {'ok', newest, 0}
end
if newest < guess or newest - guess >= #KEYS - HEAD then
  return {'moved', newest}
end
-- A key of another type belongs to another program: leave it alone and stop tracking it.
local left = redis.call('TYPE', list).ok == 'list' and redis.call('LLEN', list) or 0
local at = HEAD + newest - guess -- the key before the first message's
local most = math.min(MAX_IN_CALL, left, #KEYS - at)

local messages, entries, bytes = {}, {}, 0
while #messages < most and bytes < BODY_BUDGET do
  local count = #messages + 1
  local row = redis.call('LINDEX', list, -count)
  messages[count] = KEYS[at + count]
  entries[2 * count - 1], entries[2 * count] = KEYS[at + count], row
  bytes = bytes + #row
end
local count = #messages
if count > 0 and redis.call('EXISTS', unpack(messages)) > 0 then
  return {'taken'}
end

-- Write the messages first: at maxmemory this write is rejected before anything is stored.
if max_age == 0 and count > 0 then
  redis.call('MSET', unpack(entries))
end
for i = 1, max_age > 0 and count or 0 do
  redis.call('SET', messages[i], entries[2 * i], 'PX', max_age)
end
if count > 0 then
  newest = newest + count
  local newest_text = string.format('%.0f', newest)
  redis.call('SET', next_index, newest_text)
  -- Redis rejects an id that is not above the last one; then the topic was restarted.
  local id = newest_text .. '-0'
  if type(redis.pcall('XADD', wake, 'MAXLEN', '~', 1, id, 'n', '')) == 'table' then
    redis.call('DEL', wake)
    redis.call('XADD', wake, 'MAXLEN', '~', 1, id, 'n', '')
  end
end
left = left - count
if left > 0 then
  redis.call('LTRIM', list, 0, -count - 1)
  redis.call('HSET', heldrows, list, left)
else
  if count > 0 then
    redis.call('UNLINK', list)
  end
  redis.call('ZREM', held, list)
  redis.call('HDEL', heldrows, list)
end
return {'ok', newest, left}
