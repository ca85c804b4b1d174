-- letters: find dead letters that stop a group, but no longer exist.
--
-- KEYS[1] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[2] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[3] {name}RECORD     HASH    the settings of the queue, see record.lua
-- include: groups/keys
-- include: groups/waking_keys
--
-- ARGV[1] repair           0|1     1: let their groups go on
-- ARGV[2] pairs            1..100 pairs of a group, its name or \1 and its SHA1, and the id of a
--                          dead letter that stops it
--
-- Returns {pairs looked at, id, id, ...}: of those that something other than drop.lua and purge.lua
-- has deleted. Pass the other pairs in the next call.
-- Atomic because a redrive between two looks would seem to have lost a dead letter.
-- Cost: O(pairs log parked), 1 MiB of dead letters and one more. If a consumer waits, one parked
-- message moves.
-- Roles: operator, doctor
local dead, ready, record = KEYS[1], KEYS[2], KEYS[3]
-- include: groups/waking_bound
local repair = ARGV[1] == '1'

local BODY_BUDGET = 1048576 -- bytes of dead letters one call may read

if (ARGV[1] ~= '0' and ARGV[1] ~= '1') or #ARGV < 3 or #ARGV > 201 or #ARGV % 2 == 0 then
  return redis.error_reply('ACKQ_ARGUMENT letters: repair is 0 or 1; then 1..100 pairs')
end
for at = 3, #ARGV, 2 do
  if not string.match(ARGV[at], '^%d+%-%d+$') then
    return redis.error_reply('ACKQ_ARGUMENT letters: an id is a stream id, such as 17-0')
  end
end

redis.call('XLEN', dead)
-- include: now, groups/known

-- include: mark, groups/go_on, groups/wake

local reply, bytes = {0}, 0
while 2 * reply[1] + 2 < #ARGV and bytes < BODY_BUDGET do
  local tag, id = ARGV[2 * reply[1] + 2], ARGV[2 * reply[1] + 3]
  reply[1] = reply[1] + 1
  local entry = redis.call('XRANGE', dead, id, id)[1]
  for _, value in ipairs(entry and entry[2] or {}) do
    bytes = bytes + #value
  end
  if not entry and redis.call('HEXISTS', letters, id) == 1 then
    reply[#reply + 1] = id
    if repair then
      end_stop(tag, id)
    end
  end
end
if repair and #reply > 1 then
  go_on()
  wake()
end
return reply
