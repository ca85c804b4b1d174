-- sharded/release: let consumers take from a shard that waited for former ones.
--
-- KEYS[1] {shard}HELD      STRING  held, and the version of the record that opened the shard; then
--                                  the record of the groups
--
-- ARGV[1] version          integer 1..9007199254740991   of the record that opened it
-- ARGV[2] record           text    of the groups, see groups/record.lua
--
-- Returns 1 if it waited and no longer does, else 0.
-- Atomic because the same version may be released by several consumers, and the next one held.
-- Cost: O(1).
-- Roles: consumer, worker, operator
local held = KEYS[1]
local version, record = tonumber(ARGV[1]), ARGV[2]

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

if outside(version, 1, 9007199254740991)
  or not record or string.find(record, 'groups:', 1, true) ~= 1 then
  return redis.error_reply('ACKQ_ARGUMENT sharded/release: an argument is out of range')
end

if redis.call('TYPE', held).ok ~= 'string'
  or redis.call('GET', held) ~= string.format('held %.0f', version) then
  return 0
end
redis.call('SET', held, record)
return 1
