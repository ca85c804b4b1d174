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
local members, session, at = KEYS[1], ARGV[1], 2

local STRIDE = 9

-- include: outside

if not session or #KEYS % STRIDE ~= 2 then
  return redis.error_reply('ACKQ_ARGUMENT delay/delete: a session, and nine keys a partition')
end
local fenced = session ~= '' and not redis.call('ZSCORE', members, session)

-- include: delay/holds, delay/count_up

local done, reply, position = {}, {0}, 0
while at <= #ARGV do
  local first, receipt = tonumber(ARGV[at]), ARGV[at + 1]
  local size = tonumber(ARGV[at + 2])
  if outside(first, 1, (#KEYS - 2) / STRIDE) or outside(tonumber(receipt), 0, 9007199254740991)
    or outside(size, 1, 4000) or at + 2 + size > #ARGV or #ARGV > 5000 then
    return redis.error_reply('ACKQ_ARGUMENT delay/delete: position, receipt, size, then keys')
  end
  first = (first - 1) * STRIDE + 3
  redis.call('HLEN', KEYS[first + 1])
  local has_side = redis.call('EXISTS', KEYS[first + 3], KEYS[first + 4], KEYS[first + 7]) > 0
  if has_side then
    redis.call('HLEN', KEYS[first + 3])
    redis.call('HLEN', KEYS[first + 4])
    redis.call('HLEN', KEYS[first + 7])
  end
  local scores = redis.call('ZMSCORE', KEYS[first], unpack(ARGV, at + 3, at + 2 + size))
  local leases = redis.call('ZMSCORE', KEYS[first + 2], unpack(ARGV, at + 3, at + 2 + size))
  local held = {}
  for i = 1, size do
    local key = ARGV[at + 2 + i]
    position = position + 1
    if scores[i] and holds(first, receipt, key, leases[i], scores[i]) then
      held[#held + 1] = key
    else
      reply[#reply + 1] = scores[i] and position or -position
    end
  end
  if #held > 0 then
    done[#done + 1] = {first, held, has_side}
  end
  at = at + 3 + size
end

for _, each in ipairs(done) do
  local first, keys, has_side = each[1], each[2], each[3]
  local deleted = redis.call('ZREM', KEYS[first], unpack(keys))
  reply[1] = reply[1] + deleted
  redis.call('HDEL', KEYS[first + 1], unpack(keys))
  redis.call('ZREM', KEYS[first + 2], unpack(keys))
  if has_side then
    redis.call('HDEL', KEYS[first + 3], unpack(keys))
    redis.call('HDEL', KEYS[first + 4], unpack(keys))
    redis.call('HDEL', KEYS[first + 7], unpack(keys))
  end
  count_up(first, 'acked', deleted)
end
return reply
