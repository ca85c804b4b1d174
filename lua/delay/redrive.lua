-- delay/redrive: make dead letters ready again, and reset their receive counts.
--
-- include: delay/keys
--
-- ARGV[1] wanted            integer 1..1000     dead letters
-- ARGV[2] after             start after this stream id; empty: at the oldest
-- ARGV[3] entries           stream ids of the dead letters to redrive; absent: all, from after,
--                           oldest first
--
-- Returns {redriven, looked at, stream id of the last}; a missing entry counts as looked at. Pass
-- the entries that were not looked at in the next call. Dead letters without a body stay, and so do
-- those with the key of a stored message.
-- Atomic because a message must always be either dead or ready, never both.
-- Cost: O(wanted log stored), at most 100 dead letters and 1 MiB of them plus one.
-- Roles: operator
local ready, bodies, leases, extended = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local receives, dead, wake, errors = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local wanted, after = tonumber(ARGV[1]), ARGV[2]

-- include: outside, each_letter

if outside(wanted, 1, 1000) or not after or #ARGV > 1002 then
  return redis.error_reply('ACKQ_ARGUMENT delay/redrive: wanted is 1..1000, and so are the entries')
end
if not are_entries(3) then
  return redis.error_reply('ACKQ_ARGUMENT delay/redrive: an entry is a stream id, such as 17-0')
end
redis.call('ZCARD', ready)
redis.call('HLEN', bodies)
redis.call('ZCARD', leases)
redis.call('HLEN', extended)
redis.call('HLEN', receives)
redis.call('HLEN', errors)
redis.call('LLEN', wake)
local clock = redis.call('TIME')
local now = string.format('%.6f', (clock[1] * 1000000 + clock[2]) / 1000000)
local redriven = 0

-- include: delay/count_up

local function redrive(entry, fields)
  local key = fields.key
  if not key or not fields.body or fields.reason == 'body missing'
    or redis.call('ZSCORE', ready, key) or redis.call('HEXISTS', bodies, key) == 1 then
    return
  end
  -- Write the copy first and delete the original last, so that the message always exists.
  redis.call('ZADD', ready, now, key)
  redis.call('HSET', bodies, key, fields.body)
  count_up(1, 'ended', redis.call('ZREM', leases, key))
  redis.call('HDEL', extended, key)
  redis.call('HDEL', receives, key)
  redis.call('HDEL', errors, key)
  redis.call('XDEL', dead, entry)
  redriven = redriven + 1
end

local looked, last = each_letter(dead, 3, wanted, after, redrive)
if redriven > 0 and redis.call('LLEN', wake) == 0 then
  redis.call('LPUSH', wake, '1')
end
count_up(1, 'redriven', redriven)
return {redriven, looked, last}
