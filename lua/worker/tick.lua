-- tick: push the message of a schedule's tick once, whatever the number of schedulers.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left
-- KEYS[2] {name}TICKS      HASH    schedule -> latest tick, µs; schedule:missed -> how many
-- KEYS[3] {name}WORKERS:SCHEDULES  HASH  schedule -> version of 16 bytes, definition as JSON
--
-- ARGV[1] schedule         text    name of the schedule
-- ARGV[2] tick             integer 0..9007199254740991  µs since the epoch; 0: only look
-- ARGV[3] previous         integer 0..9007199254740991  latest tick that the caller knows; 0: none
-- ARGV[4] missed           integer 0..1000000000        ticks between the two, skipped and counted
-- ARGV[5] body             bytes
-- ARGV[6] pop_from         right|left  the end that is popped: push onto the other; default right
-- ARGV[7] version          0 or 16 bytes  of a stored schedule; default none: a worker's own
--
-- Returns {status, latest, now, missed}: 'pushed'; 'early' if the tick is in the future; 'known' if
-- it was pushed before, or ``previous`` was not the latest tick, or ``tick`` is 0; 'changed' if the
-- stored schedule has another version or was removed, so nothing was pushed;
-- then the latest tick (0: none yet), the server's time in µs, and the total number missed.
-- Atomic because the push and its record must never be seen apart.
-- Cost: O(1).
-- Roles: worker
local ready, ticks, schedules = KEYS[1], KEYS[2], KEYS[3]
local schedule, tick, previous = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local missed, body, pop_from = tonumber(ARGV[4]), ARGV[5], ARGV[6] or 'right'
local version = ARGV[7] or ''

-- Parts: outside
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end
-- End of parts (edit them in lua/parts)

if outside(tick, 0, 9007199254740991) or outside(previous, 0, 9007199254740991)
  or outside(missed, 0, 1000000000) or not body
  or (pop_from ~= 'right' and pop_from ~= 'left') or (#version ~= 0 and #version ~= 16) then
  return redis.error_reply('ACKQ_ARGUMENT tick: an argument is out of range; see tick.lua')
end

redis.call('LLEN', ready)
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.call('HMGET', ticks, schedule, schedule .. ':missed')
local latest, counted = tonumber(found[1] or 0), tonumber(found[2] or 0)

if version ~= '' then
  local stored = redis.call('HGET', schedules, schedule)
  if not stored or string.sub(stored, 1, 16) ~= version then
    return {'changed', latest, now, counted}
  end
end
if tick > now then
  return {'early', latest, now, counted}
end
if tick <= latest or latest ~= previous then
  return {'known', latest, now, counted}
end
redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, body)
redis.call('HSET', ticks, schedule, string.format('%.0f', tick))
if missed > 0 then
  counted = redis.call('HINCRBY', ticks, schedule .. ':missed', string.format('%.0f', missed))
end
return {'pushed', tick, now, counted}
