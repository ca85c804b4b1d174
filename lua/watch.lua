-- watch: read the counters since watching began, and keep watching.
--
-- KEYS[1] {name}COUNTERS   HASH    counts, kept while a client watches; expires
--
-- ARGV[1] window           integer 1..3600000      ms; the counters expire without another call
--
-- Returns {now, field, value, field, value, ...}: now in µs since the epoch, and the fields
-- since (µs since the epoch), taken, acked, returned (redelivered after their lease ended), and
-- timeout:<s>: how many were taken with a lease of so many whole seconds. The counters only grow;
-- after a pause longer than the window they restart, with a new since.
-- Atomic because counters without an expiry would be kept and updated for ever.
-- Cost: O(fields), at most 100.
local counters = KEYS[1]
local window = tonumber(ARGV[1])

if not (window and window >= 1 and window <= 3600000 and window % 1 == 0) then
  return redis.error_reply('ACKQ_ARGUMENT watch: window is 1..3600000 ms')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- The first write frees nothing but counts as freeing, so that a full server can be watched.
redis.call('HDEL', counters, '')
redis.call('HSETNX', counters, 'since', string.format('%.0f', now))
redis.call('PEXPIRE', counters, string.format('%.0f', window))
local reply = redis.call('HGETALL', counters)
table.insert(reply, 1, now)
return reply
