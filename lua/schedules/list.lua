-- list: read the schedules that are stored for a queue, at most 256 of 16 KiB.
--
-- KEYS[1] {name}WORKERS:SCHEDULES  HASH  schedule -> version of 16 bytes, definition as JSON
-- KEYS[2] {name}TICKS      HASH    schedule -> latest tick, µs; schedule:missed -> how many
--
-- Returns {now, ...}: the server's time in µs, then for each schedule its name, the version and
-- definition in one, its latest tick in µs (0: unknown), and how many ticks were missed.
-- Atomic because a tick belongs to the definition beside it.
-- Cost: O(schedules), 4 MiB.
-- Roles: worker, viewer, operator, doctor
local schedules, ticks = KEYS[1], KEYS[2]

local stored = redis.call('HGETALL', schedules)
local clock = redis.call('TIME')
local found = { clock[1] * 1000000 + clock[2] }
for i = 1, #stored, 2 do
  local seen = redis.call('HMGET', ticks, stored[i], stored[i] .. ':missed')
  table.insert(found, stored[i])
  table.insert(found, stored[i + 1])
  table.insert(found, tonumber(seen[1] or 0))
  table.insert(found, tonumber(seen[2] or 0))
end
return found
