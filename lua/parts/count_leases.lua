-- include: count_up
-- Needs counters, watched, timeout, taken.

-- Count the lengths of the leases of a call; no further lengths if there are many.
local COUNTED = 100 -- fields of the counters
local length = 'lease:' .. math.floor(timeout / 1000000)
if watched and taken > 0 and (redis.call('HLEN', counters) < COUNTED
  or redis.call('HEXISTS', counters, length) == 1) then
  count_up(length, taken)
end
