-- delete: delete messages by id, whichever consumer received them.
--
-- KEYS[1] {ns}:{q}         ZSET    message id -> when it is visible next, ms since the epoch
-- KEYS[2] {ns}:{q}:Q       HASH    the queue's attributes, and its messages
-- KEYS[3] {ns}:{q}:Q.errors   HASH    message id -> why receives of it failed; see visibility.lua
--
-- ARGV[1] ids              1..1000 message ids of 32 letters, digits and colons
--
-- Returns {deleted, looked at}; pass the other ids in the next call.
-- Atomic because a body without an id would never be found.
-- Cost: O(ids log messages); Redis frees the bodies at once, so at most 8 MiB plus one message.
-- Roles: consumer
local zset, hash, errors = KEYS[1], KEYS[2], KEYS[3]

local FREED = 8388608 -- bytes of bodies one call may delete

for at = 1, #ARGV do
  local id = ARGV[at]
  if #id ~= 32 or not string.match(id, '^[%w:]+$') or #ARGV > 1000 then
    return redis.error_reply('ACKQ_ARGUMENT delete: at most 1000 ids of 32 characters')
  end
end
if #ARGV == 0 then
  return redis.error_reply('ACKQ_ARGUMENT delete: no ids')
end
redis.call('HLEN', hash)
redis.call('ZCARD', zset)
local has_errors = redis.call('HLEN', errors) > 0
local fields, looked, freed = {}, 0, 0
while looked < #ARGV and freed < FREED do
  looked = looked + 1
  local id = ARGV[looked]
  fields[3 * looked - 2] = id
  fields[3 * looked - 1] = id .. ':rc'
  fields[3 * looked] = id .. ':fr'
  freed = freed + redis.call('HSTRLEN', hash, id)
end
local deleted = redis.call('ZREM', zset, unpack(ARGV, 1, looked))
redis.call('HDEL', hash, unpack(fields))
if has_errors then
  redis.call('HDEL', errors, unpack(ARGV, 1, looked))
end
return {deleted, looked}
