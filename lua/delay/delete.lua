-- delay/delete: delete finished messages whose leases the caller still has.
--
-- include: delay/fenced_keys
--
-- ARGV[1] session           of the consumer; empty: partitions are not assigned
-- ARGV[2] deleted           groups of: position of the partition from 1, receipt, size 1..4000,
--                           then size message keys
--
-- Returns {deleted, position, position, ...}: how many were deleted, then the positions, from
-- 1, of refused keys: the session was fenced, another consumer has the lease, or the message waits
-- for redelivery. Negative: the key is gone. Either this delete was resent after a lost reply, or
-- another consumer settled the message; only the caller knows which.
-- Atomic because session and receipt must not become invalid between check and deletion.
-- Cost: O(deleted log stored).
-- Roles: consumer
local members, session = KEYS[1], ARGV[1]

-- include: delay/named, delay/count_up

if not session or #KEYS % STRIDE ~= 2 then
  return redis.error_reply('ACKQ_ARGUMENT delay/delete: a session, and nine keys a partition')
end
local fenced = session ~= '' and not redis.call('ZSCORE', members, session)
local has_side = {}
for first = 3, #KEYS, STRIDE do
  redis.call('HLEN', KEYS[first + 1])
  has_side[first] = redis.call('EXISTS', KEYS[first + 3], KEYS[first + 4], KEYS[first + 7]) > 0
  if has_side[first] then
    redis.call('HLEN', KEYS[first + 3])
    redis.call('HLEN', KEYS[first + 4])
    redis.call('HLEN', KEYS[first + 7])
  end
end
local held, refused, ends = named(fenced, 2)
if not held or ends <= #ARGV then
  return redis.error_reply('ACKQ_ARGUMENT delay/delete: position, receipt, size, then keys')
end

local reply, keys_of = {0}, {}
for _, each in ipairs(refused) do
  reply[#reply + 1] = each.score and each.position or -each.position
end
for _, each in ipairs(held) do
  local keys = keys_of[each.first] or {}
  keys_of[each.first], keys[#keys + 1] = keys, each.key
end
for first, keys in pairs(keys_of) do
  local deleted = redis.call('ZREM', KEYS[first], unpack(keys))
  reply[1] = reply[1] + deleted
  redis.call('HDEL', KEYS[first + 1], unpack(keys))
  redis.call('ZREM', KEYS[first + 2], unpack(keys))
  if has_side[first] then
    redis.call('HDEL', KEYS[first + 3], unpack(keys))
    redis.call('HDEL', KEYS[first + 4], unpack(keys))
    redis.call('HDEL', KEYS[first + 7], unpack(keys))
  end
  count_up(first, 'acked', deleted)
end
return reply
