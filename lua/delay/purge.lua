-- delay/purge: delete every message of a delay queue. THE MESSAGES ARE LOST.
--
-- KEYS in groups of seven, one group a partition; {topic} is {topic}:P in a partitioned queue.
-- KEYS[1] {topic}:z         ZSET    message key -> ready time, s since the epoch
-- KEYS[2] {topic}:h         HASH    message key -> body
-- KEYS[3] {topic}:leases    ZSET    message key -> lease deadline, µs since the epoch
-- KEYS[4] {topic}:extended  HASH    message key -> receipt:deadline of extended leases
-- KEYS[5] {topic}:receives  HASH    message key -> receive count of redelivered messages
-- KEYS[6] {topic}:dead      STREAM  key, body, reason, count, time of dead letters
-- KEYS[7] {topic}:wake      LIST    at most one token, for one waiting consumer
--
-- ARGV[1] dead              0|1     1: the dead letters too
--
-- Returns how many messages were deleted. Consumers keep their sessions and partitions.
-- Atomic because deleting only some of the keys would let deleted messages reappear.
-- Cost: O(partitions); UNLINK frees the memory in the background.
local STRIDE = 7

if #KEYS == 0 or #KEYS % STRIDE ~= 0 or (ARGV[1] ~= '0' and ARGV[1] ~= '1') then
  return redis.error_reply('ACKQ_ARGUMENT delay/purge: dead is 0 or 1, seven keys a partition')
end
-- Check every type first, so that an error means that nothing was deleted.
local deleted = 0
for first = 1, #KEYS, STRIDE do
  redis.call('HLEN', KEYS[first + 1])
  redis.call('ZCARD', KEYS[first + 2])
  redis.call('HLEN', KEYS[first + 3])
  redis.call('HLEN', KEYS[first + 4])
  redis.call('LLEN', KEYS[first + 6])
  local dead = redis.call('XLEN', KEYS[first + 5])
  deleted = deleted + redis.call('ZCARD', KEYS[first]) + (ARGV[1] == '1' and dead or 0)
end
for first = 1, #KEYS, STRIDE do
  redis.call('UNLINK', KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3],
    KEYS[first + 4], KEYS[first + 6])
  if ARGV[1] == '1' then
    redis.call('UNLINK', KEYS[first + 5])
  end
end
return deleted
