-- sharded/revive: open a shard again that was retired before the record named it again.
--
-- KEYS[1] {shard}          STRING  the version of the record at which it was retired
-- KEYS[2] {shard}CONTEXT   STRING  the same
-- With groups: KEYS[3] {shard}HELD  STRING  held, the version, and the record of the groups: pop
--                                       refuses until a release
-- With groups: KEYS[4] {shard}GROUPS:SINCE  STRING  the version
--
-- ARGV[1] version          integer 1..9007199254740991   of the record that names it
-- ARGV[2] groups           the record of the groups, see groups/record.lua; with groups only
--
-- Returns 1, or 0 if it is not retired, or was retired at this version or a later one.
-- Atomic because a shard that was retired later has to stay closed: nobody reads it.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local ready, context, held, since = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local version, groups = tonumber(ARGV[1]), ARGV[2]

-- include: outside

if outside(version, 1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/revive: version is an integer from 1')
end
if held and string.find(groups or '', 'groups:', 1, true) ~= 1 then
  return redis.error_reply('ACKQ_ARGUMENT sharded/revive: groups is the record of groups')
end

if redis.call('TYPE', ready).ok ~= 'string'
  or (tonumber(redis.call('GET', ready)) or version) >= version then
  return 0
end
redis.call('GET', context) -- an error if it holds messages
if held then
  redis.call('GET', held)
  redis.call('GET', since)
end
redis.call('DEL', ready, context)
if held then
  local text = string.format('%.0f', version)
  redis.call('MSET', held, 'held ' .. text .. ' ' .. groups, since, text)
end
return 1
