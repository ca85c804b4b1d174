-- topic/extend: make leases of ranges end later, or at once.
--
-- KEYS[1] {name}:consumers:<id>  STRING  the consumer's position: the last index committed
-- KEYS[2] {name}:leases:<id>     ZSET    start:end:token -> deadline, µs since the epoch
-- KEYS[3] {name}:ranges:<id>     ZSET    start:end:token -> start; not in leases: committed
--
-- ARGV[1] timeout  integer 0..43200000000  µs from now; 0: the next reader may have the range
-- ARGV[2] held     1..1000 of start:end:token
--
-- Returns {deadline, extended, position, position, ...}: how many leases now end then, and the
-- positions, from 1, of ranges that went to another reader. Committed ranges are in neither.
-- Atomic because a lease must not be lost between its check and its extension.
-- Cost: O(held log leases).
-- Roles: consumer
local consumer, leases, ranges = KEYS[1], KEYS[2], KEYS[3]
local timeout = tonumber(ARGV[1])
local HEAD = 1 -- arguments before the ranges

-- include: outside

if outside(timeout, 0, 43200000000)
  or #ARGV > HEAD + 1000 then
  return redis.error_reply('ACKQ_ARGUMENT topic/extend: an argument is out of range; see'
    .. ' topic/extend.lua')
end
for i = HEAD + 1, #ARGV do
  if not string.match(ARGV[i], '^%d+:%d+:') then
    return redis.error_reply('ACKQ_ARGUMENT topic/extend: a range is start:end:token')
  end
end

local clock = redis.call('TIME')
local deadline = clock[1] * 1000000 + clock[2] + timeout
local place = tonumber(redis.call('GET', consumer) or -1)
redis.call('ZCARD', leases)
redis.call('ZCARD', ranges)
if not place then
  return redis.error_reply('ACKQ_VALUE topic/extend: the place is no index')
end

-- The first write frees memory, even if only nothing, so that a full server allows a release.
redis.call('ZREMRANGEBYRANK', leases, 1, 0)
local reply = {deadline, 0}
for i = HEAD + 1, #ARGV do
  local member = ARGV[i]
  if redis.call('ZSCORE', leases, member) then
    redis.call('ZADD', leases, 'XX', timeout > 0 and string.format('%.0f', deadline) or 0, member)
    reply[2] = reply[2] + 1
  elseif not redis.call('ZSCORE', ranges, member)
    and tonumber(string.match(member, '^%d+:(%d+):')) > place then
    reply[#reply + 1] = i - HEAD
  end
end
return reply
