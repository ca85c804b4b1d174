-- delete: delete messages by id, whoever holds them.
--
-- KEYS[1] {ns}:{q}         ZSET    message id -> when it is visible next, ms since the epoch
-- KEYS[2] {ns}:{q}:Q       HASH    the queue's attributes, and its messages
--
-- ARGV[1] ids              1..1000 message ids of 32 letters, digits and colons
--
-- Returns how many there were.
-- Atomic because a body without an id would never be found.
-- Cost: O(ids log messages).
local zset, hash = KEYS[1], KEYS[2]

local fields = {}
for at = 1, #ARGV do
  local id = ARGV[at]
  if #id ~= 32 or not string.match(id, '^[%w:]+$') or #ARGV > 1000 then
    return redis.error_reply('ACKQ_ARGUMENT delete: at most 1000 ids of 32 characters')
  end
  fields[3 * at - 2] = id
  fields[3 * at - 1] = id .. ':rc'
  fields[3 * at] = id .. ':fr'
end
if #ARGV == 0 then
  return redis.error_reply('ACKQ_ARGUMENT delete: no ids')
end
redis.call('HLEN', hash)
local deleted = redis.call('ZREM', zset, unpack(ARGV))
redis.call('HDEL', hash, unpack(fields))
return deleted
