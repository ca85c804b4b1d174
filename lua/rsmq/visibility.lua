-- visibility: make a message visible at a given time from now, whichever consumer received it.
--
-- KEYS[1] {ns}:{q}         ZSET    message id -> when it is visible next, ms since the epoch
-- KEYS[2] {ns}:{q}:Q       HASH    the queue's attributes, and its messages
-- KEYS[3] {ns}:{q}:Q.wake     LIST    a token for each waiting consumer to wake; ackq's own
-- KEYS[4] {ns}:{q}:Q.waiters  STRING  exists while a consumer may be waiting; ackq's own
--
-- ARGV[1] id               string                      of the message
-- ARGV[2] vt               integer 0..9999999          s from now
--
-- Returns 'ok', 'absent' if there is no such message, or 'missing' if there is no queue.
-- Atomic because a message deleted meanwhile must not be made visible again.
-- Cost: O(log messages).
local zset, hash, wake, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, vt = ARGV[1], tonumber(ARGV[2])

local TOKENS = 64 -- as in send
local TOKEN_LIFE = 2000 -- ms, as in send

if not (vt and vt >= 0 and vt <= 9999999 and vt % 1 == 0) then
  return redis.error_reply('ACKQ_ARGUMENT visibility: vt is out of range')
end

local attributes = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize')
if not (attributes[1] and attributes[2] and attributes[3]) then
  return 'missing'
end
if not redis.call('ZSCORE', zset, id) then
  return 'absent'
end
local awaited = vt == 0 and redis.call('EXISTS', waiters) == 1
if awaited then
  redis.call('LLEN', wake)
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZREMRANGEBYRANK', zset, 1, 0) -- on a full server the first write may not allocate
redis.call('ZADD', zset, string.format('%.0f', now + vt * 1000), id)
if awaited then
  redis.call('LPUSH', wake, '1')
  redis.call('LTRIM', wake, 0, TOKENS - 1)
  redis.call('PEXPIRE', wake, TOKEN_LIFE)
end
return 'ok'
