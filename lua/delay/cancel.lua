-- delay/cancel: delete messages by key, from any producer.
--
-- KEYS in groups of nine, one group a partition; {queue} is {queue}:P in a partitioned queue.
-- include: delay/keys
--
-- ARGV[1] in_flight         0|1     1: leased messages too
-- ARGV[2] canceled          1..1000 pairs of: position of the partition from 1, key
--
-- Returns {deleted, looked at}, pass the rest in the next call. THE MESSAGES ARE LOST.
-- Atomic because a message must not be leased between the look at its lease and the deletion.
-- Cost: O(canceled log stored); Redis frees the bodies at once, so at most 8 MiB plus one message.
-- Roles: operator
local STRIDE = 9
local FREED = 8388608 -- bytes of bodies one call may delete

-- include: outside

if (ARGV[1] ~= '0' and ARGV[1] ~= '1') or #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 ~= 1
  or #KEYS % STRIDE ~= 0 then
  return redis.error_reply('ACKQ_ARGUMENT delay/cancel: 0 or 1, then 1 to 1000 pairs')
end
for at = 2, #ARGV, 2 do
  if outside(tonumber(ARGV[at]), 1, #KEYS / STRIDE) then
    return redis.error_reply('ACKQ_ARGUMENT delay/cancel: a position is out of range')
  end
end
for first = 1, #KEYS, STRIDE do
  redis.call('ZCARD', KEYS[first])
  redis.call('HLEN', KEYS[first + 1])
  redis.call('ZCARD', KEYS[first + 2])
  redis.call('HLEN', KEYS[first + 3])
  redis.call('HLEN', KEYS[first + 4])
  redis.call('HLEN', KEYS[first + 7])
end

-- include: delay/count_up

-- include: now
local canceled, looked, freed, dropped, ended = 0, 0, 0, {}, {}
for at = 2, #ARGV, 2 do
  if freed >= FREED then
    break
  end
  looked = looked + 1
  local first, key = (ARGV[at] - 1) * STRIDE + 1, ARGV[at + 1]
  local lease = tonumber(redis.call('ZSCORE', KEYS[first + 2], key) or 0)
  if lease <= now or ARGV[1] == '1' then
    local stored = redis.call('ZREM', KEYS[first], key)
    canceled = canceled + stored
    freed = freed + redis.call('HSTRLEN', KEYS[first + 1], key)
    redis.call('HDEL', KEYS[first + 1], key)
    local leased = redis.call('ZREM', KEYS[first + 2], key)
    redis.call('HDEL', KEYS[first + 3], key)
    redis.call('HDEL', KEYS[first + 4], key)
    redis.call('HDEL', KEYS[first + 7], key)
    dropped[first] = (dropped[first] or 0) + stored
    ended[first] = (ended[first] or 0) + leased
  end
end
for first, number in pairs(dropped) do
  count_up(first, 'dropped', number)
  count_up(first, 'ended', ended[first])
end
return {canceled, looked}
