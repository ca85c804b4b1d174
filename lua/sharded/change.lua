-- sharded/change: change the record of a sharded queue, unless it has changed meanwhile.
--
-- KEYS[1] {name}:shards   HASH    format: 2; shards: their number; draining: former numbers,
--                                 separated by spaces; version: counts changes of the record
--
-- ARGV[1] version         integer 1..9007199254740991   that the caller has read
-- ARGV[2] shards          integer 1..1024   the number from now on
-- ARGV[3] draining        text   the former numbers whose shards may have messages
-- ARGV[4] settings        pairs of a field and its value, as of groups/change.lua; may be absent
--
-- Returns the new version, or 0 if the record has another one.
-- Atomic because a change that is based on an old record could forget shards with messages.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local record = KEYS[1]
local version, shards, draining = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

-- include: outside

if outside(version, 1, 9007199254740991) or outside(shards, 1, 1024)
  or not draining or #draining > 8192 or string.find(draining, '[^%d ]') or #ARGV % 2 == 0 then
  return redis.error_reply('ACKQ_ARGUMENT sharded/change: an argument is out of range')
end

if tonumber(redis.call('HGET', record, 'version')) ~= version then
  return 0
end
redis.call('HSET', record, 'shards', string.format('%.0f', shards), 'draining', draining)
if #ARGV > 3 then
  redis.call('HSET', record, 'changed', '1', unpack(ARGV, 4))
end
return redis.call('HINCRBY', record, 'version', 1)
