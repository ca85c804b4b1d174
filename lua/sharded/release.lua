-- sharded/release: let consumers take from a shard that waited for former ones.
--
-- KEYS[1] {shard}HELD      STRING  held, the version of the record that opened the shard, and the
--                                  record of the groups; then that record alone
--
-- ARGV[1] version          integer 1..9007199254740991   of the record that opened it
--
-- Returns 1 if it waited and no longer does, else 0.
-- Atomic because the same version may be released by several consumers, and the next one held.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local held = KEYS[1]
local version = tonumber(ARGV[1])

-- include: outside

if outside(version, 1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT sharded/release: version is an integer from 1')
end

if redis.call('TYPE', held).ok ~= 'string' then
  return 0
end
local opened_by, groups = string.match(redis.call('GET', held), '^held (%d+) (.*)$')
if tonumber(opened_by) ~= version then
  return 0
end
redis.call('SET', held, groups)
return 1
