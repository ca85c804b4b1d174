-- redrive: make dead letters visible again, and reset their receive counts.
--
-- include: rsmq/keys
-- KEYS[4] {ns}:{q}:Q.waiters  STRING  exists while a consumer may be waiting; ackq's own
-- KEYS[5] {ns}:{q}:Q.dead     STREAM  id, body, rc, fr, time, errors of dead letters; ackq's own
--
-- ARGV[1] wanted           integer 1..16               dead letters
-- ARGV[2] entries          0..16 stream ids of the dead letters to redrive; none: oldest first
--
-- Returns {redriven, looked at}, or 'missing' if there is no queue. A missing entry counts as
-- looked at. Pass the entries that were not looked at in the next call.
-- Atomic because a message must always be either dead or in the queue, never both.
-- Cost: O(wanted log messages), at most 1 MiB of bodies plus one message.
-- Roles: operator
local zset, hash, wake, waiters, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wanted = tonumber(ARGV[1])

local TOKEN_LIFE = 2000 -- ms, as in send

-- include: outside, each_letter

if outside(wanted, 1, 16) or #ARGV > 17 then
  return redis.error_reply('ACKQ_ARGUMENT redrive: wanted is 1..16, of at most 16 entries')
end
if not are_entries(2) then
  return redis.error_reply('ACKQ_ARGUMENT redrive: an entry is a stream id, such as 17-0')
end

local attributes = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize')
if not (attributes[1] and attributes[2] and attributes[3]) then
  return 'missing'
end
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local awaited = redis.call('XLEN', dead) > 0 and redis.call('EXISTS', waiters) == 1
if awaited then
  redis.call('LLEN', wake)
end
local redriven = 0

local function redrive(entry, letter)
  redis.call('ZADD', zset, now, letter.id)
  redis.call('HSET', hash, letter.id, letter.body)
  redis.call('XDEL', dead, entry)
  redriven = redriven + 1
  if awaited then
    redis.call('LPUSH', wake, '1')
    redis.call('PEXPIRE', wake, TOKEN_LIFE)
  end
end

local looked = each_letter(dead, 2, wanted, '', redrive)
return {redriven, looked}
