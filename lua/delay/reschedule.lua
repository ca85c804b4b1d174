-- delay/reschedule: give a stored message another ready time.
--
-- include: delay/keys
--
-- ARGV[1] key               of the message
-- ARGV[2] clock             delay|at    whether ARGV[3] counts from now or from the epoch
-- ARGV[3] due               integer 0..8589934591000000, µs
--
-- Returns 1, or 0 if there is no such message or it is leased.
-- Atomic because a message must not be leased between the look at its lease and the change.
-- Cost: O(log stored).
-- Roles: operator
local ready, leases, wake = KEYS[1], KEYS[3], KEYS[7]
local key, base, due = ARGV[1], ARGV[2], tonumber(ARGV[3])

local LATEST = 8589934591000000 -- µs; up to here a score in seconds tells microseconds apart

-- include: outside, delay/nearest

if (base ~= 'delay' and base ~= 'at') or outside(due, 0, LATEST) then
  return redis.error_reply('ACKQ_ARGUMENT delay/reschedule: an argument is out of range')
end
-- include: now
if base == 'delay' then
  due = math.min(now + due, LATEST)
end

redis.call('LLEN', wake)
local lease = redis.call('ZSCORE', leases, key)
if (lease and tonumber(lease) > now) or not redis.call('ZSCORE', ready, key) then
  return 0
end
local before = nearest(ready)
-- An ended lease stays recorded, so it counts as a delivery. Its receipt becomes invalid, because
-- the ready time no longer equals the lease.
redis.call('ZADD', ready, 'XX', string.format('%.6f', due / 1000000), key)
if nearest(ready) < before and redis.call('LLEN', wake) == 0 then
  redis.call('LPUSH', wake, '1')
end
return 1
