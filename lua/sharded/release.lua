-- sharded/release: let consumers take from a shard that waited for former ones.
--
-- KEYS[1] {shard}RECORD    HASH    the settings of the shard, see sharded/revive.lua
--
-- ARGV[1] version          integer 1..9007199254740991   of the record that opened it
--
-- Returns 1 if it waited and no longer does, else 0.
-- Atomic because the same version may be released by several consumers, and the next one held.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local record = KEYS[1]
local version = tonumber(ARGV[1])

-- include: outside

if outside(version, 1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/release: version is an integer from 1')
end

if tonumber(redis.call('HGET', record, 'since') or 0) ~= version then
  return 0
end
return redis.call('HDEL', record, 'waits')
