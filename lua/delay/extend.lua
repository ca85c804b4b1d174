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
local timeout, jitter, at = tonumber(ARGV[2]), tonumber(ARGV[3]), 4

local STRIDE = 9

-- include: outside

if not session or outside(timeout, 1, 43200000000) or outside(jitter, 0, 65535)
  or #KEYS % STRIDE ~= 2 then
  return redis.error_reply('ACKQ_ARGUMENT delay/extend: timeout is 1..43200000000')
end
local fenced = session ~= '' and not redis.call('ZSCORE', members, session)
local clock = redis.call('TIME')
local deadline = clock[1] * 1000000 + clock[2] + timeout + jitter
local ends = string.format('%.0f', deadline)
local ready = string.format('%.6f', deadline / 1000000)

-- include: delay/holds

local done, reply, position = {}, {deadline, 0}, 0
while at <= #ARGV do
  local first, receipt = tonumber(ARGV[at]), ARGV[at + 1]
  local size = tonumber(ARGV[at + 2])
  if outside(first, 1, (#KEYS - 2) / STRIDE) or outside(tonumber(receipt), 0, 9007199254740991)
    or outside(size, 1, 4000) or at + 2 + size > #ARGV or #ARGV > 5000 then
    return redis.error_reply('ACKQ_ARGUMENT delay/extend: position, receipt, size, then keys')
  end
  first = (first - 1) * STRIDE + 3
  redis.call('HLEN', KEYS[first + 3])
  local scores = redis.call('ZMSCORE', KEYS[first], unpack(ARGV, at + 3, at + 2 + size))
  local leases = redis.call('ZMSCORE', KEYS[first + 2], unpack(ARGV, at + 3, at + 2 + size))
  for i = 1, size do
    local key = ARGV[at + 2 + i]
    position = position + 1
    if scores[i] and holds(first, receipt, key, leases[i], scores[i]) then
      done[#done + 1] = {first, key, receipt}
    else
      reply[#reply + 1] = scores[i] and position or -position
    end
  end
  at = at + 3 + size
end

-- The first write frees nothing but counts as freeing: at maxmemory a running handler must be able
-- to keep its lease.
redis.call('ZREMRANGEBYRANK', KEYS[3], 1, 0)
for _, each in ipairs(done) do
  local first, key = each[1], each[2]
  redis.call('ZADD', KEYS[first], 'XX', ready, key)
  redis.call('ZADD', KEYS[first + 2], 'XX', ends, key)
  redis.call('HSET', KEYS[first + 3], key, each[3] .. ':' .. ends)
end
reply[2] = #done
return reply
