-- put: store a schedule, replace it, or remove it, while workers run.
--
-- KEYS[1] {name}WORKERS:SCHEDULES  HASH  schedule -> version of 16 bytes, definition as JSON
-- KEYS[2] {name}TICKS      HASH    schedule -> latest tick, µs; schedule:missed -> how many
--
-- ARGV[1] schedule         1..200 bytes    name of the schedule
-- ARGV[2] version          16 bytes        unlike any other
-- ARGV[3] definition       0..16384 bytes  empty: remove the schedule
--
-- Returns {existed, now}: 1 if there was a schedule of this name, else 0; the server's time in µs.
-- {-1, now}: there are 256 already, so nothing was stored.
-- A stored schedule ticks from now on: earlier ticks count as pushed. A worker that knows another
-- version pushes nothing any more, since worker/tick compares versions.
-- Atomic because a schedule must not tick by the times of its former definition.
-- Cost: O(1).
-- Roles: operator, doctor
local schedules, ticks = KEYS[1], KEYS[2]
local schedule, version, definition = ARGV[1], ARGV[2], ARGV[3]

local MAX_SCHEDULES = 256

if not definition or #schedule < 1 or #schedule > 200 or #version ~= 16 or #definition > 16384 then
  return redis.error_reply('ACKQ_ARGUMENT schedules/put: an argument is out of range')
end

redis.call('HLEN', ticks)
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local existed = redis.call('HEXISTS', schedules, schedule)
if definition == '' then
  if existed == 1 then
    redis.call('HDEL', schedules, schedule)
    redis.call('HDEL', ticks, schedule, schedule .. ':missed')
  end
  return { existed, now }
end
if existed == 0 and redis.call('HLEN', schedules) >= MAX_SCHEDULES then
  return { -1, now }
end
redis.call('HSET', schedules, schedule, version .. definition)
redis.call('HSET', ticks, schedule, string.format('%.0f', now))
return { existed, now }
