-- sharded/revive: open a shard again that was retired before the record named it again.
--
-- KEYS[1] {shard}          STRING  the version of the record at which it was retired
-- KEYS[2] {shard}CONTEXT   STRING  the same
-- KEYS[3] {shard}RECORD    HASH    the settings of the shard, see record.lua. With groups also
--                                  since: the version that opened it, and waits until a release:
--                                  with that, groups/pop refuses
--
-- ARGV[1] version          integer 1..9007199254740991   of the record that names it
-- ARGV[2] settings         pairs of a field and its value, see record.lua; with groups only
--
-- Returns 1, or 0 if it is not retired, or was retired at this version or a later one.
-- Atomic because a shard that was retired later has to stay closed: nobody reads it.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local ready, context, record = KEYS[1], KEYS[2], KEYS[3]
local version = tonumber(ARGV[1])

-- include: outside

if outside(version, 1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/revive: version is an integer from 1')
end
if #ARGV > 1 and (ARGV[2] ~= 'format' or #ARGV % 2 == 0 or #ARGV > 21) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/revive: settings begin with the format')
end

if redis.call('TYPE', ready).ok ~= 'string'
  or (tonumber(redis.call('GET', ready)) or version) >= version then
  return 0
end
redis.call('GET', context) -- an error if it holds messages
redis.call('HLEN', record)
redis.call('DEL', ready, context)
if #ARGV > 1 then
  redis.call('HSET', record, unpack(ARGV, 2))
  redis.call('HSET', record, 'waits', '1', 'since', string.format('%.0f', version))
end
return 1
