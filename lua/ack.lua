-- ack: delete finished messages whose leases the caller still has.
--
-- KEYS[1] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[2] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[4] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[5] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[6] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- KEYS[7] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
--
-- ARGV[1] settled          groups of: receipt, size 1..4000, then size lease keys
--
-- Returns {settled, position, position, ...}: how many were deleted, then the positions, from
-- 1, of refused keys: another consumer has the lease, or the message waits for redelivery.
-- Negative: the key is in neither set. Either this ack was resent after a lost reply, or another
-- consumer settled the message; only the caller knows which.
-- Atomic because a receipt must not become invalid between its check and the deletion.
-- Cost: O(settled log in-flight).
-- Roles: consumer, worker, doctor
local backup, context, receives, extended, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local counters, errors, settled = KEYS[6], KEYS[7], 1

local SCRIPT = 'ack' -- in errors

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

redis.call('HLEN', context)
local sides = redis.call('EXISTS', receives, extended, delayed, counters, errors)
local watched = sides > 0 and redis.call('HEXISTS', counters, 'since') == 1
local has_side = sides > (watched and 1 or 0)
local has_receives = has_side and redis.call('HLEN', receives) > 0
local has_errors = has_side and redis.call('HLEN', errors) > 0
local has_extended = has_side and redis.call('HLEN', extended) > 0
local has_delayed = has_side and redis.call('ZCARD', delayed) > 0

-- Parts: holds, whole_batch, settle
-- A receipt is valid while it equals the score, or while EXTENDED ties it to that score.
local function holds(receipt, key, score)
  if not score then
    return false
  end
  return tonumber(score) == tonumber(receipt) or (has_extended
    and redis.call('HGET', extended, key) == receipt .. ':' .. string.format('%.0f', score))
end

-- Return the keys of the only group if no other key has its receipt as score, as after most
-- batches: a range shows that without printing and reading a score for each.
local function whole_batch(receipt, size)
  if size == 1 or #ARGV ~= settled + 1 + size
    or redis.call('ZCOUNT', backup, receipt, receipt) ~= size then
    return
  end
  local keys, named = redis.call('ZRANGEBYSCORE', backup, receipt, receipt), {}
  for i = settled + 2, #ARGV do
    named[ARGV[i]] = true
  end
  for i = 1, size do
    if not named[keys[i]] then
      return
    end
  end
  return keys
end

-- Delete the messages whose receipts are valid. ``acked`` is their number, and ``refused`` has the
-- positions of the others.
local done, refused, position, acked, batch = {}, {}, 0, 0, nil
while settled <= #ARGV do
  local receipt, size = ARGV[settled], tonumber(ARGV[settled + 1])
  if outside(tonumber(receipt), 0, 9007199254740991) or outside(size, 1, 4000)
    or settled + 1 + size > #ARGV or #ARGV > 4100 then
    return redis.error_reply('ACKQ_ARGUMENT ' .. SCRIPT
      .. ': a group is a receipt, a size and size keys')
  end
  local keys = position == 0 and whole_batch(receipt, size)
  if keys then
    done, batch = keys, receipt
  else
    local scores = redis.call('ZMSCORE', backup, unpack(ARGV, settled + 2, settled + 1 + size))
    for i = 1, size do
      local key, score = ARGV[settled + 1 + i], scores[i]
      position = position + 1
      if score == receipt or holds(receipt, key, score) then
        done[#done + 1] = key
      else
        local waits = score or (has_delayed and redis.call('ZSCORE', delayed, key))
        refused[#refused + 1] = waits and position or -position
      end
    end
  end
  settled = settled + 2 + size
end

if #done > 0 then
  redis.call('HDEL', context, unpack(done))
  acked = batch and redis.call('ZREMRANGEBYSCORE', backup, batch, batch)
    or redis.call('ZREM', backup, unpack(done))
  if has_receives then
    redis.call('HDEL', receives, unpack(done))
  end
  if has_errors then
    redis.call('HDEL', errors, unpack(done))
  end
  if has_extended then
    redis.call('HDEL', extended, unpack(done))
  end
  if watched then
    redis.pcall('HINCRBY', counters, 'acked', acked)
  end
end
-- End of parts (edit them in lua/parts)

return {acked, unpack(refused)}
