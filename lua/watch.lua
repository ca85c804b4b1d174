-- watch: read what consumers did since somebody began to watch, and go on watching.
--
-- KEYS[1] {name}COUNTERS   HASH    what was done while somebody watches; expires
--
-- ARGV[1] window           integer 1..3600000      ms; without a further call they end then
--
-- Returns {now, field, value, field, value, ...}: now in µs since the epoch, and the fields
-- since (µs since the epoch), taken, acked, returned (taken anew after their lease ended), and
-- timeout:<s> for each length of leases, in whole seconds: how many were taken for so long. They
-- only grow; after a pause longer than the window they begin anew, with another since.
-- Atomic because counters without an expiry would be kept, and counted into, for ever.
-- Cost: O(fields), at most 100.
local counters = KEYS[1]
local window = tonumber(ARGV[1])

if not (window and window >= 1 and window <= 3600000 and window % 1 == 0) then
  return redis.error_reply('ACKQ_ARGUMENT watch: window is 1..3600000 ms')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- The first write frees nothing, yet counts as one that does: a full server can be watched.
redis.call('HDEL', counters, '')
redis.call('HSETNX', counters, 'since', string.format('%.0f', now))
redis.call('PEXPIRE', counters, string.format('%.0f', window))
local reply = redis.call('HGETALL', counters)
table.insert(reply, 1, now)
return reply
