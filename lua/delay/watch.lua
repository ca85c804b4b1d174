-- delay/watch: read the counts since counting began, and keep counting.
--
-- KEYS in groups of nine, one group a partition; {queue} is {queue}:P in a partitioned queue.
-- include: delay/keys
--
-- ARGV[1] window            integer 1..604800000    ms; the counts expire without another call. A
--                           shorter window does not shorten a longer one
--
-- Returns {now, counts, counts, ...}: now in µs since the epoch, and for each partition an array of
-- how many messages it has now, without dead letters, how many leases are recorded, then fields and
-- their values, as in the list queue:
--   since           µs since the epoch
--   live, held      the same numbers when counting began
--   acked: deleted by their consumers; nacked, released; returned: redelivered after their lease
--   ended           deliveries that ended in another way: by a purge or a cancel, by the death of a
--                   message whose lease had ended, or because another client deleted the message
--   dead:<reason>   max receives, body missing, rejected, duplicate key (of a committed row)
--   redriven; dropped: purged or canceled; dropped:dead: dead letters deleted
-- A field is absent while it is 0. What is not counted follows, since each delivery ends once:
--   pushed = live now - live at first + acked + dead + dropped - redriven
--   taken = held now - held at first + acked + nacked + released + dead:rejected + returned + ended
-- After a pause longer than the window, counting restarts with a new since.
-- Atomic because counts without an expiry would be kept and updated for ever, and the numbers of
-- messages must be those of the same instant as the counts.
-- Cost: O(partitions + fields).
-- Roles: viewer, operator
local window = tonumber(ARGV[1])

local STRIDE = 9

-- include: outside

if outside(window, 1, 604800000)
  or #KEYS == 0 or #KEYS % STRIDE ~= 0 then
  return redis.error_reply('ACKQ_ARGUMENT delay/watch: window is 1..604800000 ms')
end
-- Check every type first, so that an error means that nothing was done.
for first = 1, #KEYS, STRIDE do
  redis.call('ZCARD', KEYS[first])
  redis.call('ZCARD', KEYS[first + 2])
  redis.call('HLEN', KEYS[first + 8])
end
-- include: now
local reply = {now}
for first = 1, #KEYS, STRIDE do
  local counters = KEYS[first + 8]
  local live, held = redis.call('ZCARD', KEYS[first]), redis.call('ZCARD', KEYS[first + 2])
  -- The first write frees nothing but counts as freeing, so that a full server can be watched.
  redis.call('HDEL', counters, '')
  if redis.call('HSETNX', counters, 'since', string.format('%.0f', now)) == 1 then
    redis.call('HSET', counters, 'live', live, 'held', held)
  end
  if redis.call('PTTL', counters) < window then
    redis.call('PEXPIRE', counters, string.format('%.0f', window))
  end
  local counts = redis.call('HGETALL', counters)
  table.insert(counts, 1, held)
  table.insert(counts, 1, live)
  reply[#reply + 1] = counts
end
return reply
