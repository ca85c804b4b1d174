-- delay/extend: make leases that the caller still has end at a given time from now.
--
-- include: delay/fenced_keys
--
-- ARGV[1] session           of the consumer; empty: partitions are not assigned
-- ARGV[2] timeout           integer 1..43200000000      µs from now
-- ARGV[3] jitter            integer 0..65535            µs, drawn for each call
-- ARGV[4] extended          groups of: position of the partition from 1, receipt, size 1..4000,
--                           then size message keys
--
-- Returns {deadline, extended, position, position, ...}: the new deadline, how many leases end
-- then, and the positions, from 1, of refused keys. Negative: the key is gone, so the caller or
-- another consumer settled the message. The receipt stays valid, so a lost reply does no harm.
-- Atomic because the new deadline and the record that keeps the receipt valid belong together.
-- Cost: O(extended log stored).
-- Roles: consumer
local members, session = KEYS[1], ARGV[1]
local timeout, jitter = tonumber(ARGV[2]), tonumber(ARGV[3])

-- include: delay/named

if not session or outside(timeout, 1, 43200000000) or outside(jitter, 0, 65535)
  or #KEYS % STRIDE ~= 2 then
  return redis.error_reply('ACKQ_ARGUMENT delay/extend: timeout is 1..43200000000')
end
local fenced = session ~= '' and not redis.call('ZSCORE', members, session)
local clock = redis.call('TIME')
local deadline = clock[1] * 1000000 + clock[2] + timeout + jitter
local ends = string.format('%.0f', deadline)
local ready = string.format('%.6f', deadline / 1000000)

for first = 3, #KEYS, STRIDE do
  redis.call('HLEN', KEYS[first + 3])
end
local held, refused, last = named(fenced, 4)
if not held or last <= #ARGV then
  return redis.error_reply('ACKQ_ARGUMENT delay/extend: position, receipt, size, then keys')
end

local reply = {deadline, #held}
for _, each in ipairs(refused) do
  reply[#reply + 1] = each.score and each.position or -each.position
end

-- The first write frees nothing but counts as freeing: at maxmemory a running handler must be able
-- to keep its lease.
redis.call('ZREMRANGEBYRANK', KEYS[3], 1, 0)
for _, each in ipairs(held) do
  local first, key = each.first, each.key
  redis.call('ZADD', KEYS[first], 'XX', ready, key)
  redis.call('ZADD', KEYS[first + 2], 'XX', ends, key)
  redis.call('HSET', KEYS[first + 3], key, each.receipt .. ':' .. ends)
end
return reply
