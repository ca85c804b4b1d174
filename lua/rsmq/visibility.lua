-- visibility: make a message visible at a given time from now, whichever consumer received it, and
-- note why it failed.
--
-- include: rsmq/keys
-- KEYS[4] {ns}:{q}:Q.waiters  STRING  exists while a consumer may be waiting; ackq's own
-- KEYS[5] {ns}:{q}:Q.errors   HASH    message id -> why receives of it failed: a line for each of
--                                     the last five, rc:time µs:failure; ackq's own
--
-- ARGV[1] id               string                      of the message
-- ARGV[2] vt               integer 0..9999999          s from now
-- ARGV[3] failure          one line of JSON, at most 8,192 bytes, with type, text, place and
--                          traceback; empty: none. It replaces one of the same receive
--
-- Returns 'ok', 'absent' if there is no such message, or 'missing' if there is no queue.
-- Atomic because a message deleted meanwhile must not be made visible again.
-- Cost: O(log messages), and at most 40 KiB of notes.
-- Roles: consumer
local zset, hash, wake, waiters, errors = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, vt, failure = ARGV[1], tonumber(ARGV[2]), ARGV[3] or ''

local TOKENS = 64 -- as in send
local TOKEN_LIFE = 2000 -- ms, as in send
local MAX_FAILURE = 8192 -- bytes

-- include: outside, keep_latest

if outside(vt, 0, 9999999) then
  return redis.error_reply('ACKQ_ARGUMENT visibility: vt is out of range')
end
if #failure > MAX_FAILURE or string.find(failure, '\n', 1, true) then
  return redis.error_reply('ACKQ_ARGUMENT visibility: a failure is one line of at most 8192 bytes')
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
redis.call('HLEN', errors)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZREMRANGEBYRANK', zset, 1, 0) -- on a full server the first write may not allocate
redis.call('ZADD', zset, string.format('%.0f', now + vt * 1000), id)
if failure ~= '' then
  local attempt = string.match(redis.call('HGET', hash, id .. ':rc') or '', '^%d+$') or '0'
  local found = {}
  for line, before in string.gmatch(redis.call('HGET', errors, id) or '', '((%d+):[^\n]*)') do
    -- A call that was sent again after a lost reply notes nothing twice.
    if before ~= attempt then
      found[#found + 1] = line
    end
  end
  found[#found + 1] = attempt .. string.format(':%.0f:', clock[1] * 1000000 + clock[2]) .. failure
  keep_latest(found)
  redis.call('HSET', errors, id, table.concat(found, '\n'))
end
if awaited then
  redis.call('LPUSH', wake, '1')
  redis.call('LTRIM', wake, 0, TOKENS - 1)
  redis.call('PEXPIRE', wake, TOKEN_LIFE)
end
return 'ok'
