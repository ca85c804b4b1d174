-- sharded/open: read the record of a sharded queue, or create it.
--
-- KEYS[1] {name}:shards   HASH    format: 2; shards: their number; draining: former numbers,
--                                 separated by spaces; version: counts changes of the record; with
--                                 groups also the fields of the record of each shard, see
--                                 record.lua
-- KEYS[2] {name}:group    HASH    the consumer group of a queue of format 1
--
-- ARGV[1] shards          integer 0..1024   create the record with this number; 0: only read
-- ARGV[2] settings        pairs of a field and its value, see record.lua, of a queue with groups
--
-- Returns {format, shards, version, draining, kind, in_flight, rate, on_dead, max_in_flight, field,
-- changed}: the record, without kind and what follows if the queue has no groups;
-- {1, shards}: a queue of format 1, with the number that its consumers have;
-- {0}: neither is there, and shards is 0.
-- Atomic because two clients may create it at once with different numbers.
-- Cost: O(1).
-- Roles: all
local record, group = KEYS[1], KEYS[2]
local shards = tonumber(ARGV[1])

-- include: outside

if outside(shards, 0, 1024) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/open: shards is an integer from 0 to 1024')
end
if #ARGV > 1 and (ARGV[2] ~= 'format' or #ARGV % 2 == 0 or #ARGV > 21) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/open: settings begin with the format')
end

local common = redis.call('HGET', group, 'shares')
if redis.call('EXISTS', record) == 0 then
  if common then
    return {1, tonumber(common)}
  end
  if shards == 0 then
    return {0}
  end
  redis.call('HSET', record, 'format', '2', 'shards', string.format('%.0f', shards),
    'draining', '', 'version', '1', unpack(ARGV, 2))
end
local found = redis.call('HMGET', record, 'format', 'shards', 'version', 'draining', 'kind',
  'in_flight', 'rate', 'on_dead', 'max_in_flight', 'field', 'changed')
for i = 1, 3 do
  found[i] = tonumber(found[i])
end
return {unpack(found, 1, found[5] and 11 or 4)}
