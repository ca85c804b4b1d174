-- letters: find dead letters that stop a group, but no longer exist.
--
-- KEYS[1] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[2] {name}          LIST    ready messages: pushed on the left, taken from the right
-- KEYS[3] {name}HANDOFF   LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[4] {name}RECORD HASH     the settings of the queue, see record.lua
-- KEYS[5] {name}WAITERS:LOOKS STRING  exists if a consumer has waited lately
-- KEYS[6] {name}GROUPS:BUSY HASH    group -> its messages in flight; see groups/pop.lua
-- KEYS[7] {name}GROUPS:PARKED ZSET    messages moved aside
-- KEYS[8] {name}GROUPS:TURNS ZSET    group that has parked messages and a free slot -> since, µs
-- KEYS[9] {name}GROUPS:FLIGHT HASH    lease key -> = or >, place, group
-- KEYS[10] {name}GROUPS:RUNS ZSET    messages of one group that one call delivered
-- KEYS[11] {name}GROUPS:WOKEN STRING  the message moved to the list to wake a consumer
-- KEYS[12] {name}GROUPS:RATES ZSET    group -> µs; see groups/pop.lua
-- KEYS[13] {name}GROUPS:ROOM LIST    not empty if a consumer may look again
-- KEYS[14] {name}GROUPS:STOPPED HASH    group -> ids of the dead letters that stop it
-- KEYS[15] {name}GROUPS:LETTERS HASH    id of such a dead letter -> place, group
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
local dead = KEYS[1]
local ready, handoff, record, looks, busy = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local parked, turns, flight, runs = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local woken, rates, room = KEYS[11], KEYS[12], KEYS[13]
local stopped, letters = KEYS[14], KEYS[15]
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
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- include: groups/known
redis.call('HLEN', letters)

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
      go_on(tag, id)
    end
  end
end
if repair and #reply > 1 then
  wake()
end
return reply
