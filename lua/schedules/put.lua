-- put: store a schedule, replace it, or remove it, while workers run.
--
-- KEYS[1] {name}WORKERS:SCHEDULES  HASH  schedule -> version of 16 bytes, definition as JSON
-- KEYS[2] {name}TICKS      HASH    schedule -> latest tick, µs; schedule:missed -> how many
--
-- ARGV[1] schedule         1..200 bytes    name of the schedule
-- ARGV[2] version          16 bytes        unlike any other
-- ARGV[3] definition       0..16384 bytes  empty: remove the schedule
-- ARGV[4] former           0..16 bytes     version that is replaced; empty, the default: none
-- ARGV[5] keep             0|1             1: missed ticks may still be caught up; default 0
--
-- Returns {status, now}, the server's time in µs: 'stored', 'replaced', or 'removed'; 'none' if
-- there is nothing to remove; 'full' if there are 256 already, so nothing was stored.
-- {'changed', now, stored}: another version than ``former`` is stored, returned with its
-- definition; empty: none is. So a pause and a new definition never overwrite one another.
-- Unless ``keep``, a stored schedule ticks from now on: earlier ticks count as pushed. A worker
-- that knows another version pushes nothing any more, since worker/tick compares versions.
-- Atomic because a schedule must not tick by the times of its former definition.
-- Cost: O(1).
-- Roles: operator, doctor
local schedules, ticks = KEYS[1], KEYS[2]
local schedule, version, definition = ARGV[1], ARGV[2], ARGV[3]
local former, keep = ARGV[4] or '', ARGV[5] or '0'

local MAX_SCHEDULES = 256

if not definition or #schedule < 1 or #schedule > 200 or #version ~= 16 or #definition > 16384
  or #former > 16 or (keep ~= '0' and keep ~= '1') then
  return redis.error_reply('ACKQ_ARGUMENT schedules/put: an argument is out of range')
end

redis.call('HLEN', ticks)
-- include: now
local stored = redis.call('HGET', schedules, schedule)
if definition == '' then
  if not stored then
    return { 'none', now }
  end
  redis.call('HDEL', schedules, schedule)
  redis.call('HDEL', ticks, schedule, schedule .. ':missed')
  return { 'removed', now }
end
local known = string.sub(stored or '', 1, 16)
if known ~= version then -- otherwise this call is sent again after a lost reply
  if known ~= former then
    return { 'changed', now, stored or '' }
  end
  if not stored and redis.call('HLEN', schedules) >= MAX_SCHEDULES then
    return { 'full', now }
  end
  redis.call('HSET', schedules, schedule, version .. definition)
  if keep == '0' then
    redis.call('HSET', ticks, schedule, string.format('%.0f', now))
  end
end
return { former == '' and 'stored' or 'replaced', now }
