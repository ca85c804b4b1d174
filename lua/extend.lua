-- extend: make leases that the caller still has end at a given time from now.
--
-- KEYS[1] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[2] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[3] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
--
-- ARGV[1] timeout          integer 1..43200000000      µs from now
-- ARGV[2] jitter           integer 0..65535            µs, drawn for each call
-- ARGV[3] extended         groups of: receipt, size 1..4000, then size lease keys
--
-- Returns {deadline, extended, position, position, ...}: the new deadline, how many leases end
-- then (a repeated key counts once), and the positions, from 1, of refused keys. Negative: the key
-- is in neither set, so the caller or another consumer settled the message. If deliveries of the
-- caller were canceled, a list follows of the positions of their keys, from 1; these are refused,
-- too. The receipt stays valid, so a lost reply does no harm.
-- Atomic because the new deadline and the record that keeps the receipt valid belong together.
-- Cost: O(extended log in-flight).
-- Roles: consumer, worker, doctor
local backup, extended, delayed = KEYS[1], KEYS[2], KEYS[3]
local timeout, jitter = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include: outside

if outside(timeout, 1, 43200000000) or outside(jitter, 0, 65535) then
  return redis.error_reply('ACKQ_ARGUMENT extend: timeout is 1..43200000000, jitter 0..65535')
end

redis.call('ZCARD', delayed)
local has_extended = redis.call('HLEN', extended) > 0
local clock = redis.call('TIME')
local deadline = clock[1] * 1000000 + clock[2] + timeout + jitter
local deadline_text = string.format('%.0f', deadline)

-- include: named

-- Return whether cancel.lua has noted that the delivery with this receipt was canceled.
local function was_canceled(receipt, key)
  local note = has_extended and redis.call('HGET', extended, key)
  return note and string.find(note, receipt .. ':canceled:', 1, true) == 1
end

local held, refused, ends = named(3)
if not held or ends <= #ARGV then
  return redis.error_reply('ACKQ_ARGUMENT extend: a group is a receipt, a size and size keys')
end

local renewed, reply, canceled = {}, {deadline, 0}, {}
for _, each in ipairs(refused) do
  local waits = each.score or redis.call('ZSCORE', delayed, each.key)
  reply[#reply + 1] = waits and each.position or -each.position
  if was_canceled(each.receipt, each.key) then
    canceled[#canceled + 1] = each.position
  end
end

-- The first write frees nothing but counts as freeing: at maxmemory a running handler must be able
-- to keep its lease.
redis.call('ZREMRANGEBYRANK', backup, 1, 0)
for _, each in ipairs(held) do
  if not renewed[each.key] then
    renewed[each.key], reply[2] = true, reply[2] + 1
    redis.call('ZADD', backup, 'XX', deadline_text, each.key)
    redis.call('HSET', extended, each.key, each.receipt .. ':' .. deadline_text)
  end
end
reply[#reply + 1] = #canceled > 0 and canceled or nil
return reply
