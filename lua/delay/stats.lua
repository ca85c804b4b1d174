-- delay/stats: count messages by state, at one instant.
--
-- KEYS in groups of nine, one group a partition; {queue} is {queue}:P in a partitioned queue.
-- include: delay/keys
--
-- Returns {stored, due, held, dead, wait}: those in {queue}:z, those of them that are ready,
-- those under a running lease, the dead letters, and the µs until the next one is ready or its
-- lease ends, 0 if one is ready now, -1 if there is none.
-- Atomic because a message that moves between two counts would be counted twice or not at all.
-- Cost: O(partitions log stored).
-- Roles: claimer, viewer, operator
local STRIDE = 9

if #KEYS == 0 or #KEYS % STRIDE ~= 0 then
  return redis.error_reply('ACKQ_ARGUMENT delay/stats: nine keys a partition')
end
-- include: now
local stored, due, held, dead, wait = 0, 0, 0, 0, -1
for first = 1, #KEYS, STRIDE do
  stored = stored + redis.call('ZCARD', KEYS[first])
  due = due + redis.call('ZCOUNT', KEYS[first], '-inf', string.format('%.6f', now / 1000000))
  held = held + redis.call('ZCOUNT', KEYS[first + 2], '(' .. string.format('%.0f', now), '+inf')
  dead = dead + redis.call('XLEN', KEYS[first + 5])
  local nearest = redis.call('ZRANGE', KEYS[first], 0, 0, 'WITHSCORES')[2]
  if nearest then
    local left = math.ceil(math.min(math.max(tonumber(nearest) * 1000000 - now, 0), 1e15))
    wait = wait < 0 and left or math.min(wait, left)
  end
end
return {stored, due, held, dead, wait}
