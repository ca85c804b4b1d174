-- audit: check the types, expiries and sizes of a queue, in constant time.
--
-- include: queue_keys
-- KEYS[8] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[9] {name}HELD       ZSET    held list -> µs from which its messages are the queue's
-- KEYS[10] {name}HELDROWS  HASH    held list -> messages in it
-- KEYS[11] {name}ERRORS    HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[12] {name}NOTES     HASH    notes of unique messages and of those on lists; see README.md
-- KEYS[13] {name}RECORD    HASH    the settings of the queue, see record.lua
-- With groups: KEYS[14] {name}GROUPS:BUSY HASH see groups/pop.lua
-- With groups: KEYS[15] {name}GROUPS:PARKED ZSET messages moved aside
-- With groups: KEYS[16] {name}GROUPS:TURNS ZSET
-- With groups: KEYS[17] {name}GROUPS:FLIGHT HASH
-- With groups: KEYS[18] {name}GROUPS:RUNS ZSET
-- With groups: KEYS[19] {name}GROUPS:WOKEN STRING
--
-- ARGV[1] repair           0|1     1: remove any expiry
--
-- Returns {{type, expires 0|1}, ... for each of KEYS, {leased, bodies, delayed, listed}}; the
-- type of a missing key is none; the sizes are absent if a key has a wrong type.
-- Atomic because the sizes are compared: bodies = leased + delayed.
-- Cost: O(1).
-- Roles: operator, doctor
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delayed = KEYS[7]
local expected = {'list', 'zset', 'hash', 'list', 'hash', 'hash', 'zset', 'stream', 'zset',
  'hash', 'hash', 'hash', 'hash', 'hash', 'zset', 'zset', 'hash', 'zset', 'string'}

if ARGV[1] ~= '0' and ARGV[1] ~= '1' then
  return redis.error_reply('ACKQ_ARGUMENT audit: repair is 0 or 1')
end
local reply, sound = {}, true
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local expires = redis.call('PTTL', key) >= 0
  sound = sound and (kind == 'none' or kind == expected[i])
  if expires and ARGV[1] == '1' then
    redis.call('PERSIST', key)
  end
  reply[i] = {kind, expires and 1 or 0}
end
if sound then
  reply[#reply + 1] = {
    redis.call('ZCARD', backup), redis.call('HLEN', context), redis.call('ZCARD', delayed),
    redis.call('LLEN', ready) + redis.call('LLEN', handoff),
  }
end
return reply
