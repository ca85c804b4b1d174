-- delay/purge: delete every message of a delay queue. THE MESSAGES ARE LOST.
--
-- KEYS in groups of nine, one group a partition; {queue} is {queue}:P in a partitioned queue.
-- include: delay/keys
--
-- ARGV[1] dead              0|1     1: the dead letters too
--
-- Returns how many messages were deleted. Consumers keep their sessions and partitions.
-- Atomic because deleting only some of the keys would let deleted messages reappear.
-- Cost: O(partitions); UNLINK frees the memory in the background.
-- Roles: operator
local STRIDE = 9

if #KEYS == 0 or #KEYS % STRIDE ~= 0 or (ARGV[1] ~= '0' and ARGV[1] ~= '1') then
  return redis.error_reply('ACKQ_ARGUMENT delay/purge: dead is 0 or 1, nine keys a partition')
end
-- include: delay/count_up

-- Check every type first, so that an error means that nothing was deleted.
local deleted, counts = 0, {}
for first = 1, #KEYS, STRIDE do
  redis.call('HLEN', KEYS[first + 1])
  redis.call('HLEN', KEYS[first + 3])
  redis.call('HLEN', KEYS[first + 4])
  redis.call('LLEN', KEYS[first + 6])
  redis.call('HLEN', KEYS[first + 7])
  local dead = redis.call('XLEN', KEYS[first + 5])
  counts[first] = {dropped = redis.call('ZCARD', KEYS[first]),
    ended = redis.call('ZCARD', KEYS[first + 2]), ['dropped:dead'] = ARGV[1] == '1' and dead or 0}
  deleted = deleted + counts[first].dropped + counts[first]['dropped:dead']
end
for first = 1, #KEYS, STRIDE do
  redis.call('UNLINK', KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3],
    KEYS[first + 4], KEYS[first + 6], KEYS[first + 7])
  if ARGV[1] == '1' then
    redis.call('UNLINK', KEYS[first + 5])
  end
  for field, number in pairs(counts[first]) do
    count_up(first, field, number)
  end
end
return deleted
