-- delay/drop: delete dead letters of one partition.
--
-- KEYS[1] {queue}:z         ZSET    message key -> ready time, s since the epoch
-- KEYS[2] {queue}:h         HASH    message key -> body
-- KEYS[3] {queue}:leases    ZSET    message key -> lease deadline, µs since the epoch
-- KEYS[4] {queue}:extended  HASH    message key -> receipt:deadline of extended leases
-- KEYS[5] {queue}:receives  HASH    message key -> receive count of redelivered messages
-- KEYS[6] {queue}:dead      STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[7] {queue}:wake      LIST    at most one token, for one waiting consumer
-- KEYS[8] {queue}:errors    HASH    message key -> why deliveries of it failed; see nack.lua
-- KEYS[9] {queue}:counters  HASH    counts, kept while a client watches; see watch.lua
--
-- ARGV[1] entries           1..50 stream ids
--
-- Returns how many were deleted. THE MESSAGES ARE LOST.
-- Atomic because what is deleted must be counted.
-- Cost: O(entries). Only few at a time: Redis does not report the size of an entry, and freeing a
-- large one takes time.
-- Roles: operator

-- include: delay/count_up

if #KEYS ~= 9 or #ARGV < 1 or #ARGV > 50 then
  return redis.error_reply('ACKQ_ARGUMENT delay/drop: 1 to 50 entries of one partition')
end
for i = 1, #ARGV do
  if not string.match(ARGV[i], '^%d+%-%d+$') then
    return redis.error_reply('ACKQ_ARGUMENT delay/drop: an entry is a stream id, such as 17-0')
  end
end
local deleted = redis.call('XDEL', KEYS[6], unpack(ARGV))
count_up(1, 'dropped:dead', deleted)
return deleted
