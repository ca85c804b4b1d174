-- topic/seek: set a consumer's position, and void the leases of its readers.
--
-- KEYS[1] {name}:nextIndex       STRING  the newest index; absent: 0
-- KEYS[2] {name}:consumers:<id>  STRING  the consumer's position: the last index committed
-- KEYS[3] {name}:leases:<id>     ZSET    start:end:token -> deadline, µs since the epoch
-- KEYS[4] {name}:ranges:<id>     ZSET    start:end:token -> start; not in leases: committed
--
-- ARGV[1] place  integer 0..2^53-1, or end  the index before the next one to read
-- ARGV[2] when   absent|present             the consumer must not be subscribed yet, or must be
--
-- Returns {'ok', place}; {'no'}: `when` does not apply to the consumer; {'beyond', newest}: the
-- position is after the newest index. The latter two change nothing.
-- Atomic because leases of the old position must not be committed at the new one.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: consumer, operator
local next_index, consumer, leases, ranges = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local place, when = ARGV[1], ARGV[2]
local LAST = 9007199254740991 -- the greatest index that a Lua number holds exactly

-- include: outside

if (place ~= 'end' and outside(tonumber(place), 0, LAST))
  or (when ~= 'absent' and when ~= 'present') then
  return redis.error_reply('ACKQ_ARGUMENT topic/seek: an argument is out of range; see'
    .. ' topic/seek.lua')
end

-- Check every type before the first write, so that an error means that nothing was done.
local newest = tonumber(redis.call('GET', next_index) or 0)
local stored = redis.call('GET', consumer)
redis.call('ZCARD', leases)
redis.call('ZCARD', ranges)
if outside(newest, 0, LAST) then
  return redis.error_reply('ACKQ_VALUE topic/seek: nextIndex is no index')
end
if (when == 'absent') == (stored ~= false) then
  return {'no'}
end
place = place == 'end' and newest or tonumber(place)
if place > newest then
  return {'beyond', newest}
end
redis.call('UNLINK', leases, ranges)
redis.call('SET', consumer, string.format('%.0f', place))
return {'ok', place}
