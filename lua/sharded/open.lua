-- sharded/open: read the record of a sharded queue, or create it.
--
-- KEYS[1] {name}:shards   HASH    format: 2, or 3 with groups; shards: their number; draining:
--                                 former numbers, separated by spaces; version: counts changes of
--                                 the record; groups: as in {shard}HELD, see groups/record.lua
-- KEYS[2] {name}:group    HASH    the consumer group of a queue of format 1
--
-- ARGV[1] shards          integer 0..1024   create the record with this number; 0: only read
-- ARGV[2] groups          text of at most 300 bytes   of a queue that is created; default none
--
-- Returns {format, shards, version, draining, groups}: the record, without the last one if the
-- queue has no groups; {1, shards}: a queue of format 1, with the number that its consumers have;
-- {0}: neither is there, and shards is 0.
-- Atomic because two clients may create it at once with different numbers.
-- Cost: O(1).
-- Roles: all
local record, group = KEYS[1], KEYS[2]
local shards, groups = tonumber(ARGV[1]), ARGV[2]

-- include: outside

if outside(shards, 0, 1024) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/open: shards is an integer from 0 to 1024')
end
if groups and (#groups > 300 or string.find(groups, 'groups:', 1, true) ~= 1) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/open: groups is the record of groups')
end

local common = redis.call('HGET', group, 'shares')
if redis.call('EXISTS', record) == 0 then
  if common then
    return {1, tonumber(common)}
  end
  if shards == 0 then
    return {0}
  end
  redis.call('HSET', record, 'format', groups and '3' or '2',
    'shards', string.format('%.0f', shards), 'draining', '', 'version', '1')
  if groups then
    redis.call('HSET', record, 'groups', groups)
  end
end
local found = redis.call('HMGET', record, 'format', 'shards', 'version', 'draining', 'groups')
return {tonumber(found[1]), tonumber(found[2]), tonumber(found[3]), found[4], found[5] or nil}
